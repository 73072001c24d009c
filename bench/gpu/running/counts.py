"""What two programs' waits and the scheduler's status say of hand-overs and swaps. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nvshare.admin import admin_pb2

Wait = Sequence[int]
"""The end of the kernel before it, and the end of the kernel after it, in nanoseconds of one clock."""


def changes(first: Sequence[Wait], second: Sequence[Wait]) -> Iterator[float]:
    """Seconds from the end of one program's last kernel to the end of the other's first, for each change of hands.

    Both launch one kernel after the other, and the waits of each are in order. The one whose wait ends took over from
    the one whose wait began during it; nobody's began if the other had ended its work.
    """
    for mine, others in ((first, second), (second, first)):
        for begun, ended in mine:
            if during := [other for other, _ in others if begun < other < ended]:
                yield (ended - during[-1]) / 1e9


@dataclass(slots=True)
class Largest:
    """The most that a client had, as one status after the other shows: many programs have less between their steps."""

    fixed: int = 0
    """Bytes that can't be swapped."""
    movable: int = 0
    """Those that can."""
    pinned: int = 0
    """What the driver takes for a client beside them; 0: not measured."""

    def see(self, status: admin_pb2.Status) -> None:
        """The next status."""
        for client in (client for device in status.devices for client in device.clients):
            self.fixed = max(self.fixed, client.swap.fixed_bytes)
            self.movable = max(self.movable, client.footprint_bytes - client.swap.fixed_bytes)
            if client.pinned_measured:
                self.pinned = max(self.pinned, client.pinned_bytes)


@dataclass(slots=True)
class Swaps:
    """How often a client's memory was all back after some had left, by pid, as one status after the other shows."""

    counts: dict[int, int] = field(default_factory=dict)
    _out: dict[int, int] = field(default_factory=dict)

    def see(self, status: admin_pb2.Status) -> None:
        """The next status."""
        for device in status.devices:
            for client in device.clients:
                out = client.swap.swapped_bytes
                if out == 0 and self._out.get(client.pid, 0) > 0:
                    self.counts[client.pid] = self.counts.get(client.pid, 0) + 1
                self._out[client.pid] = out

    def all(self) -> int:
        """Everybody's."""
        return sum(self.counts.values())
