"""Limits the lines of a log, so that nobody can fill the disk, or hide what others cause.

Every line passes here, whichever part of a program writes it. A line's kind is its text without the values. A process
that lines name may cause a burst of each kind, and then one line a second. All lines together may be a larger burst,
and then some a second. Lines for debugging are not limited.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Final

_OF_A_PROCESS: Final = 20
"""A process has a client on each of its GPUs, and each says the same."""
_OF_A_PROCESS_PER_SECOND: Final = 1.0
_OF_ALL: Final = 100
"""Of a program that finds what its GPUs are, each is told."""
_OF_ALL_PER_SECOND: Final = 10.0
_PROCESSES: Final = 1024
"""Of which it is known what they caused, for each kind."""


class LogLimit:
    """Which lines are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def lets_pass(self, level: str, values: MutableMapping[str, Any]) -> bool:
        """Whether a line may be written; it is told then how many of its kind were not since the last one."""
        if level == "debug":
            return True
        now = self._clock()
        kind = self._kinds.setdefault(values["event"], _Kind(now))
        if not kind.lets_pass(values.get("pid"), now):
            kind.left_out += 1
            return False
        if kind.left_out:
            values["lines_left_out"], kind.left_out = kind.left_out, 0
        return True


class _Kind:
    """The lines with one text."""

    def __init__(self, now: float) -> None:
        self.left_out = 0
        """Since the last one that was written."""
        self._all = _Bucket(_OF_ALL, _OF_ALL_PER_SECOND, now)
        self._processes: dict[object, _Bucket] = {}
        """By pid; last the one that caused a line last."""

    def lets_pass(self, pid: object, now: float) -> bool:
        """Whether one more may be written."""
        if pid is None:
            return self._all.takes(now)
        own = self._processes.pop(pid, None) or _Bucket(_OF_A_PROCESS, _OF_A_PROCESS_PER_SECOND, now)
        self._processes[pid] = own
        if len(self._processes) > _PROCESSES:
            del self._processes[next(iter(self._processes))]
        return own.takes(now) and self._all.takes(now)


class _Bucket:
    """A burst of tokens, which comes back at a rate."""

    __slots__ = ("_burst", "_left", "_per_second", "_since")

    def __init__(self, burst: int, per_second: float, now: float) -> None:
        self._burst, self._per_second = burst, per_second
        self._left, self._since = float(burst), now

    def takes(self, now: float) -> bool:
        """Takes one, if one is there."""
        self._left = min(self._burst, self._left + (now - self._since) * self._per_second)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
