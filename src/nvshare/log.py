"""The log of a program that serves: structured lines on stderr, as text for people or JSON for collectors.

Lines are written by a thread, because stderr may be a pipe that nobody reads: what serves must go on.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TextIO, assert_never

from nvshare.log_limit import LogLimit


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Whoever wants to load the module finds that it is not installed."""
    modules: dict[str, Any] = sys.modules
    loaded = name in modules
    modules.setdefault(name, None)
    try:
        yield
    finally:
        if not loaded:
            del modules[name]


# It takes rich where it can, for tracebacks in colors. No log of ours has those, and they would cost
# every program that serves 4 MB.
with _hidden("rich"):
    import structlog

Log = structlog.typing.FilteringBoundLogger

_QUEUE_LINES = 1000
"""How many lines wait for a stderr that takes none."""
_END_SECONDS = 1.0
"""How long a program that ends waits for its last lines to be taken."""


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


class LogLines:
    """The lines on their way to stderr. None is waited for: those that it does not take are dropped and counted."""

    def __init__(self, descriptor: int) -> None:
        self.dropped = 0
        """Lines since the start that were not written."""
        self._descriptor = descriptor
        self._untold = 0
        self._waiting: deque[bytes] = deque()
        self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self, log: Log) -> None:
        """Begins to write. ``log`` writes to these lines: it says how many were dropped when they flow again."""
        self._log = log
        self._thread.start()

    def end(self) -> None:
        """Returns when everything is written, or when that takes too long."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(_END_SECONDS)

    def write(self, text: str) -> None:
        """Takes a line, or drops it; never blocks."""
        with self._changed:
            if len(self._waiting) >= _QUEUE_LINES:
                self._drop()
                return
            self._waiting.append(text.encode("utf-8", "replace"))
            self._changed.notify()

    def flush(self) -> None:
        """Nothing to do: no line is kept back."""

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return
                line = self._waiting.popleft()
            written = self._write(line)
            with self._changed:
                if not written:
                    self._drop()
                    continue
                flows = len(self._waiting) < _QUEUE_LINES // 2
                untold = self._untold if flows else 0
                self._untold -= untold
            if untold:
                self._log.warning("log lines were dropped: stderr did not take them", lines=untold)

    def _drop(self) -> None:
        self.dropped += 1
        self._untold += 1

    def _write(self, line: bytes) -> bool:
        """Whether stderr took the line; a closed terminal or a full disk does not.

        Past Python's own stream: a thread that hangs in that would end the process with an error at its exit.
        """
        try:
            while line:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except BlockingIOError:
                    # Whoever shares this pipe with us made it so.
                    select.select((), (self._descriptor,), ())
        except (OSError, ValueError):
            return False
        return True


@contextmanager
def opened_log(log_format: LogFormat, level: LogLevel, stream: TextIO) -> Iterator[tuple[Log, LogLines]]:
    """A logger that writes from this level on to ``stream``, a file of the system; at the end all of it is written."""
    lines = LogLines(stream.fileno())
    log = _make_log(log_format, level, lines, colors=stream.isatty())
    lines.start(log)
    try:
        yield log, lines
    finally:
        lines.end()


def _make_log(log_format: LogFormat, level: LogLevel, lines: LogLines, *, colors: bool) -> Log:
    limit = LogLimit(time.monotonic)

    def limited(_logger: object, level: str, values: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if not limit.lets_pass(level, values):
            raise structlog.DropEvent
        return values

    processors: list[Any] = [
        limited,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    match log_format:
        case LogFormat.JSON:
            processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        case LogFormat.TEXT:
            plain = structlog.dev.plain_traceback
            processors.append(structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain))
        case _:
            assert_never(log_format)
    # Bound at once: what wrap_logger answers would do that anew for every line, also for those that are left out.
    log: Log = structlog.wrap_logger(
        structlog.WriteLogger(lines),  # type: ignore[arg-type]
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level.value),
    ).bind()
    return log
