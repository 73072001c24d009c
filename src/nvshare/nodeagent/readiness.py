"""Whether a node can share its GPUs, and the reason: what the node's condition and label say. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nvshare import display

_LONGEST = 1024
"""Letters of a message."""


class Reason(StrEnum):
    """In one word."""

    READY = "Ready"
    SCHEDULER_AWAY = "SchedulerAway"
    PLUGIN_AWAY = "PluginAway"
    PLUGIN_NOT_READY = "PluginNotReady"
    NVML_BROKEN = "NVMLBroken"
    NO_GPU = "NoGPU"
    GPUS_UNHEALTHY = "GPUsUnhealthy"


@dataclass(frozen=True, slots=True)
class PluginReport:
    """What the node's device plugin says of itself."""

    ready: bool
    words: str = ""
    """What is wrong, and what is worth to be known; empty: nothing."""
    nvml_broken: bool = False
    healthy_gpus: int = 0
    sick_gpus: int = 0
    virtual_devices: int = 0
    shares: int | None = None
    """What may be claimed of its healthy GPUs; None: it does not serve claims."""
    known: bool = True
    """False: only whether it is ready is known."""
    gpus: frozenset[str] = frozenset()
    """The UUIDs of those that it offers."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of the node."""

    ready: bool
    reason: Reason
    message: str


def verdict(scheduler_problem: str, plugin: PluginReport | None) -> Verdict:
    """``scheduler_problem``: why the scheduler does not answer; empty: it does. ``plugin``: None: there is none."""
    if scheduler_problem:
        return _not_ready(Reason.SCHEDULER_AWAY, f"nvshare-scheduler does not answer: {scheduler_problem}")
    if plugin is None:
        return _not_ready(Reason.PLUGIN_AWAY, "no pod of nvshare-device-plugin is on this node")
    if plugin.nvml_broken and not plugin.healthy_gpus:
        return _not_ready(Reason.NVML_BROKEN, plugin.words or "NVML is not as it should be")
    if not plugin.ready:
        return _not_ready(Reason.PLUGIN_NOT_READY, plugin.words or "nvshare-device-plugin is not ready")
    if not plugin.known:
        return Verdict(True, Reason.READY, "nvshare-device-plugin is ready")
    if plugin.healthy_gpus:
        words = f"; {plugin.words}" if plugin.words else ""
        return _short(True, Reason.READY, f"{display.count(plugin.healthy_gpus, 'GPU')}, {_offered(plugin)}{words}")
    if plugin.sick_gpus:
        return _not_ready(Reason.GPUS_UNHEALTHY, plugin.words or "no GPU is healthy")
    return _not_ready(Reason.NO_GPU, plugin.words or "the node has no GPU to share")


def _offered(plugin: PluginReport) -> str:
    if plugin.shares is None:
        return display.count(plugin.virtual_devices, "virtual device")
    return display.count(plugin.shares, "share")


class Steady:
    """What is said of a node: what is bad for a moment only, as while a part is made anew, is not."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._bad_since: float | None = None
        self._said: Verdict | None = None

    def said(self, found: Verdict, now: float) -> Verdict | None:
        """What is to be said after this was found; None: nothing yet."""
        if found.ready:
            self._bad_since = None
            self._said = found
            return found
        self._bad_since = now if self._bad_since is None else self._bad_since
        if now - self._bad_since >= self._grace_seconds:
            self._said = found
        return self._said


def _not_ready(reason: Reason, message: str) -> Verdict:
    return _short(False, reason, message)


def _short(ready: bool, reason: Reason, message: str) -> Verdict:
    return Verdict(ready, reason, message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…")
