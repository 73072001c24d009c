"""Lines of the log that peers cause, limited in number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nvshare.log import Log

_BURST: Final = 50
_LINES_PER_SECOND: Final = 10.0


class PeerLog:
    """Lines that peers cause: of each level a burst, then some a second; the next line says how many were left out."""

    def __init__(self, log: Log, clock: Callable[[], float]) -> None:
        self._log = log
        self._infos = _Limit(clock)
        self._warnings = _Limit(clock)

    def info(self, event: str, **values: object) -> None:
        """Something ordinary."""
        if self._infos.lets_pass():
            self._log.info(event, **values, **self._infos.left_out())

    def warning(self, event: str, **values: object) -> None:
        """The peer is wrong."""
        if self._warnings.lets_pass():
            self._log.warning(event, **values, **self._warnings.left_out())


class _Limit:
    """How many lines of one level may be written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._allowed = float(_BURST)
        self._refilled_at = clock()
        self._left_out = 0

    def lets_pass(self) -> bool:
        """Whether one more line may be written now."""
        now = self._clock()
        self._allowed = min(_BURST, self._allowed + (now - self._refilled_at) * _LINES_PER_SECOND)
        self._refilled_at = now
        if self._allowed < 1:
            self._left_out += 1
            return False
        self._allowed -= 1
        return True

    def left_out(self) -> dict[str, int]:
        """For the line that passes: how many did not since the last one."""
        count, self._left_out = self._left_out, 0
        return {"lines_left_out": count} if count else {}
