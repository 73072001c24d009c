"""Who a client is in the cluster, and how that is known. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """Where an identity comes from."""

    NONE = ""
    """Not in a pod, as far as is known."""
    HINT = "hint"
    """From what the client said of itself."""
    KERNEL = "kernel"
    """From the process's cgroup."""
    KUBELET = "kubelet"
    """From kubelet's list of allocated devices: of a container, whatever runs in it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is in the cluster; empty outside one."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    source: Source = Source.NONE
