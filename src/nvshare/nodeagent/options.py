"""What the command line of a node agent said, checked."""

from __future__ import annotations

from dataclasses import dataclass

from nvshare.kubernetes.account import Account
from nvshare.log import LogFormat, LogLevel
from nvshare.paths import RunDir


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of one agent."""

    node: str
    """As the Kubernetes API calls it."""
    run_dir: RunDir
    account: Account
    metrics_address: str
    """HOST:PORT of /metrics, /healthz and /readyz."""
    log_format: LogFormat
    log_level: LogLevel
