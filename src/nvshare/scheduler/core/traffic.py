"""What was swapped on one device, how fast, and what hand-overs waited for it: figures, and no more than that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from nvshare.scheduler.core.snapshot import TrafficSnapshot

RATE: Final = 20e9
"""Bytes a second in one direction, before anything was measured: somewhat less than PCIe 4."""
_ENOUGH_BYTES: Final = 256 << 20
"""A rate is measured from so much on: less is over before the scheduler hears of it."""
_MEMORY_BYTES: Final = 16 << 30
"""The rate is that of so much at most: what is older counts half."""


@dataclass(slots=True)
class _Way:
    """One direction."""

    bytes: int = 0
    seconds: float = 0.0
    """While something moved."""
    since: float | None = None
    """When what moves now was counted last; None: nothing moves."""
    recent_bytes: float = 0.0
    recent_seconds: float = 0.0

    @property
    def bytes_per_second(self) -> float:
        if self.recent_bytes < _ENOUGH_BYTES or not self.recent_seconds:
            return 0.0
        return self.recent_bytes / self.recent_seconds

    def move(self, moved_bytes: int) -> None:
        self.bytes += moved_bytes
        self.recent_bytes += moved_bytes
        if self.recent_bytes > _MEMORY_BYTES:
            self.recent_bytes /= 2
            self.recent_seconds /= 2

    def count(self, now: float, moves: bool) -> None:
        if self.since is not None:
            self.seconds += now - self.since
            self.recent_seconds += now - self.since
        self.since = now if moves else None


class Traffic:
    """Told of what happens to the memory of one device's clients."""

    def __init__(self) -> None:
        self._in, self._out = _Way(), _Way()
        self._hand_overs = TrafficSnapshot()
        self._released_at: float | None = None

    def moved(self, footprint_bytes: int, out_bytes: int) -> None:
        """A client's report: how its footprint, and what of it is in host memory, differ from its last report's."""
        if out_bytes > 0:
            self._out.move(out_bytes)
        else:
            # What was freed there did not come in.
            self._in.move(max(0, -out_bytes - max(0, -footprint_bytes)))

    def count(self, now: float, *, comes: bool, leaves: bool) -> None:
        """From now on something is on the way in, or out, or not."""
        self._in.count(now, comes)
        self._out.count(now, leaves)

    def released(self, now: float) -> None:
        """A holder left."""
        self._released_at = now

    def granted(self, waits_since: float, now: float, *, alone: bool, swaps: bool) -> None:
        """A client that waited holds now; ``alone``: nobody else does."""
        released_at, self._released_at = self._released_at, None
        if not (alone and swaps) or released_at is None or released_at < waits_since:
            return
        past = self._hand_overs
        self._hand_overs = replace(
            past,
            stalls=past.stalls + 1,
            stall_seconds=past.stall_seconds + now - released_at,
            prefetched=past.prefetched + (now == released_at),
        )

    def refused(self) -> None:
        """A growth was refused."""
        self._hand_overs = replace(self._hand_overs, refused=self._hand_overs.refused + 1)

    def seconds(self, moved_bytes: int) -> float:
        """How long so much takes in one direction, by the slower one's rate."""
        rates = [way.bytes_per_second for way in (self._in, self._out) if way.bytes_per_second]
        return moved_bytes / min(rates, default=RATE)

    def snapshot(self) -> TrafficSnapshot:
        """The figures."""
        return replace(
            self._hand_overs,
            in_bytes=self._in.bytes,
            out_bytes=self._out.bytes,
            in_seconds=self._in.seconds,
            out_seconds=self._out.seconds,
            in_bytes_per_second=self._in.bytes_per_second,
            out_bytes_per_second=self._out.bytes_per_second,
        )
