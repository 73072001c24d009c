"""A number that is told to others, and must not go to and fro: it follows another one once that has settled. Pure."""

from __future__ import annotations

from collections import deque

SETTLED_SECONDS = 10.0
"""The number changes when it would have been another one for so long: kubelet tells the cluster every ten seconds, and
a pod that was sent here for a device that is gone again fails."""


class Settled:
    """A number that follows another one, once that has settled."""

    def __init__(self, count: int) -> None:
        """``count`` is taken for settled."""
        self._count = count
        self._seen: deque[tuple[float, int]] = deque()

    def take(self, count: int, now: float) -> int:
        """The number, after the other one has been seen at ``now``."""
        if not self._seen:
            self._seen.append((now - SETTLED_SECONDS, self._count))
        self._seen.append((now, count))
        # One more than is old enough stays: it counted until the next one came.
        while self._seen[1][0] <= now - SETTLED_SECONDS:
            self._seen.popleft()
        counts = [count for _, count in self._seen]
        self._count = min(max(self._count, min(counts)), max(counts))
        return self._count
