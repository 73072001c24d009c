"""What the command line of a scheduler said, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nvshare.log import LogFormat, LogLevel
from nvshare.nvml_state import INIT_ERROR_SECONDS
from nvshare.paths import RunDir
from nvshare.scheduler.arenas.choice import HALF, HostMemoryChoice
from nvshare.scheduler.core.settings import Settings


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of one scheduler."""

    run_dir: RunDir
    settings: Settings
    legacy_device: str | None
    """A device UUID."""
    exit_when_idle: float | None
    """Seconds without a client after which the scheduler ends; None: it does not."""
    version: str
    pod_resources: Path
    """kubelet's socket; there need not be one."""
    metrics_address: str | None = None
    """HOST:PORT of /metrics, /healthz and /readyz; None: there are none."""
    host_memory: HostMemoryChoice = HALF
    """What all clients' arenas together may have."""
    swap_dir: Path | None = None
    """Where those of programs that sleep may be in files instead; None: nowhere."""
    swap_bytes: int | None = None
    """What these files together may have; None: most of what is free there."""
    fail_on_init_error: bool | None = False
    """Whether to end when NVML stays away; None: where the machine has a GPU."""
    init_error_seconds: float = INIT_ERROR_SECONDS
    """After how long."""
    await_annotations: float | None = None
    """For how many seconds a pod's client waits for the node agent's word on its pod; None: nobody tells any."""
    notify_socket: str = ""
    """Where systemd wants to be told of this process; empty: nowhere."""
    checks: bool = False
    """Whether to look after every plan whether the invariants hold; what does not is logged."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """All that was said, checked."""

    options: Options
    others: tuple[RunDir, ...]
    """Where programs look for a scheduler before they come to this one's run directory."""
    log_format: LogFormat
    log_level: LogLevel
    complaint: str = ""
    """About what the environment says and is not understood; empty: nothing."""
