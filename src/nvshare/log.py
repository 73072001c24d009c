"""The log of a program that serves: structured lines on stderr, as text for people or JSON for collectors."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Any, TextIO, assert_never

import structlog

Log = structlog.typing.FilteringBoundLogger


class LogFormat(StrEnum):
    """How lines look."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severity of the lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Lines:
    """stderr, except that a closed terminal or a full disk stops the lines and not the program."""

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


def make_log(log_format: LogFormat, level: LogLevel) -> Log:
    """A logger that writes lines in this format, from this level on, to stderr."""
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    match log_format:
        case LogFormat.JSON:
            processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        case LogFormat.TEXT:
            plain = structlog.dev.plain_traceback
            processors.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain))
        case _:
            assert_never(log_format)
    log: Log = structlog.wrap_logger(
        structlog.WriteLogger(_Lines(sys.stderr)),  # type: ignore[arg-type]
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level.value),
    )
    return log
