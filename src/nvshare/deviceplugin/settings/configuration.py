"""What an operator can set: every setting of the configuration file, and what it is where nothing is said.

Knows nothing of how values are checked: what that takes would stay with the process that serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from nvshare import cdi
from nvshare.deviceplugin.answers.allocation import DeviceListStrategy
from nvshare.deviceplugin.answers.preference import AllocationPolicy
from nvshare.deviceplugin.devices import RESOURCE_NAME
from nvshare.deviceplugin.gpus.discovery import MigStrategy
from nvshare.log import LogFormat, LogLevel
from nvshare.nvml_state import INIT_ERROR_SECONDS
from nvshare.paths import CDI_DIR, KUBELET_DIR, SYSTEM_RUN_DIR

MOST_BYTES = 1 << 20
"""Of a file of settings: a ConfigMap can have no larger one."""
HOST_LIBRARY_DIR = Path("/var/lib/nvshare")


class AllocationMode(StrEnum):
    """By which of Kubernetes' ways pods get GPUs of this node."""

    PLUGIN = "plugin"
    """By the device plugin: as virtual devices, which are counted."""
    DRA = "dra"
    """By dynamic resource allocation: as claims of memory and shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraMount:
    """One more folder or file of the host for every container."""

    host_path: Path
    container_path: Path
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Every setting. What is allowed for each: ``checks``."""

    resource_name: str = RESOURCE_NAME
    allocation: AllocationMode = AllocationMode.PLUGIN
    overcommit: float = 1.0
    node_name: str = ""
    kubelet_dir: Path = KUBELET_DIR
    library_dir: Path = HOST_LIBRARY_DIR
    run_dir: Path = SYSTEM_RUN_DIR
    virtual_devices: int = 10
    virtual_devices_per_gpu: Mapping[str, int] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    device_list_strategy: tuple[DeviceListStrategy, ...] = (DeviceListStrategy.ENVVAR,)
    cdi_own_kind: str = cdi.KIND
    cdi_kind: str = "nvidia.com/gpu"
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    cdi_spec_dir: Path = CDI_DIR
    compat_with_cpu_manager: bool = False
    nvidia_dev_root: Path = Path("/")
    require_distinct: bool = False
    fail_requests_greater_than_one: bool = False
    allocation_policy: AllocationPolicy = AllocationPolicy.SPREAD
    weigh_by_load: bool = False
    numa_hints: bool = False
    mig_strategy: MigStrategy = MigStrategy.SINGLE
    memory: Literal["managed", "native", "swap"] | None = None
    on_missing: Literal["run", "wait", "fail"] | None = None
    ignored_xids: tuple[int, ...] = ()
    recovery_seconds: float = 60.0
    scheduler_grace_seconds: float = 30.0
    fail_on_init_error: bool | None = None
    init_error_seconds: float = INIT_ERROR_SECONDS
    metrics_address: str = "0.0.0.0:9403"
    log_format: LogFormat = LogFormat.TEXT
    log_level: LogLevel = LogLevel.INFO
    extra_mounts: tuple[ExtraMount, ...] = ()
    extra_env: Mapping[str, str] = field(default_factory=dict)
