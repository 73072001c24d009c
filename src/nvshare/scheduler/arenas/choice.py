"""What the operator says of host memory: ``16GiB``, or ``50%`` of what the machine has free. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from nvshare.sizes import size_of

_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True, slots=True)
class HostMemoryChoice:
    """A size, or a share of what is free; one of them is None."""

    size_bytes: int | None
    share: float | None

    def asked_bytes(self, available_bytes: int) -> int:
        """What it means on a machine with so much available."""
        return int(available_bytes * (self.share or 0.0)) if self.size_bytes is None else self.size_bytes

    def budget_bytes(self, available_bytes: int, cgroup_bytes: int | None) -> int:
        """How much all arenas together may have on a machine with so much available.

        ``cgroup_bytes``: what this process's cgroup allows; None: it has no limit. ValueError if that is less than the
        size that was asked for: one of the two is a mistake.
        """
        most = available_bytes if cgroup_bytes is None else min(available_bytes, cgroup_bytes)
        if self.size_bytes is None:
            return min(self.asked_bytes(available_bytes), most)
        if cgroup_bytes is not None and self.size_bytes > cgroup_bytes:
            raise ValueError(
                f"--host-memory {shown(self.size_bytes)} is more than the memory limit of this process's cgroup leaves "
                f"for it, {shown(cgroup_bytes)}: raise that limit or lower --host-memory"
            )
        return min(self.size_bytes, most)


HALF = HostMemoryChoice(None, 0.5)


@dataclass(frozen=True, slots=True)
class HostBudget:
    """What a choice means here: how much was available at the start, and what the cgroup allows."""

    choice: HostMemoryChoice
    available_bytes: int
    cgroup_bytes: int | None

    def bytes(self, had_bytes: int = 0) -> int:
        """How much all arenas together may have; ``had_bytes``: what some had at the start, so that it was not free."""
        return self.choice.budget_bytes(self.available_bytes + had_bytes, self.cgroup_bytes)


def host_memory_of(text: str) -> HostMemoryChoice:
    """The choice that a text such as ``16GiB`` or ``50%`` means; ValueError with what is wrong."""
    match = _SHARE.fullmatch(text)
    if match is None:
        try:
            return HostMemoryChoice(size_of(text), None)
        except ValueError as error:
            raise ValueError(f"{error}; a share of what the machine has free is written 50%") from None
    share = float(match[1]) / 100
    if share > 1:
        raise ValueError(f"{text!r} is more than all of it")
    return HostMemoryChoice(None, share)


def shown(count: int) -> str:
    """Bytes as they are written in an option."""
    unit = next((unit for unit in "TGM" if count >= _UNITS[unit]), "K")
    return f"{count / _UNITS[unit]:.4g}{unit}iB"
