"""The scheduler's log: structured lines on stderr, as text or JSON, and a brake for lines that peers can cause."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, TextIO, assert_never

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

_BURST = 50
_LINES_PER_SECOND = 10.0


class LogFormat(Enum):
    """How lines look."""

    TEXT = "text"
    JSON = "json"


class _Lines:
    """stderr, except that a closed terminal or a full disk stops the lines and not the scheduler."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except (OSError, ValueError):
            return

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return


def make_log(style: LogFormat) -> structlog.typing.FilteringBoundLogger:
    """A logger that writes lines of this style to stderr."""
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    match style:
        case LogFormat.JSON:
            processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        case LogFormat.TEXT:
            plain = structlog.dev.plain_traceback
            processors.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain))
        case _:
            assert_never(style)
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(_Lines(sys.stderr)),  # type: ignore[arg-type]
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return log


class PeerLog:
    """Lines that peers cause: of each level a burst, then so many a second; the next line counts what was left out."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger, clock: Callable[[], float]) -> None:
        self._log = log
        self._infos = _Brake(clock)
        self._warnings = _Brake(clock)

    def info(self, event: str, **values: object) -> None:
        """Something ordinary."""
        if self._infos.lets_pass():
            self._log.info(event, **values, **self._infos.left_out())

    def warning(self, event: str, **values: object) -> None:
        """The peer is wrong."""
        if self._warnings.lets_pass():
            self._log.warning(event, **values, **self._warnings.left_out())


class _Brake:
    """Counts the lines of one level."""

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
