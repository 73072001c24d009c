"""That a process has ended, seen by its pidfd: whoever has its pid later is another one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from nvshare.scheduler.pods.processes import start_time

_LOOK_AGAIN_SECONDS = 1.0


class ProcessEnd:
    """Watches one process."""

    __slots__ = ("_ended", "_handle", "_loop", "_pid", "_pidfd", "_started")

    def __init__(self, loop: asyncio.AbstractEventLoop, pid: int, started: int, ended: Callable[[], None]) -> None:
        """``ended`` is called once, by the event loop, also if the process that ``started`` then ended before."""
        self._loop = loop
        self._pid = pid
        self._started = started
        self._ended = ended
        self._handle: asyncio.Handle | None = None
        self._pidfd: int | None = None
        self._look()

    def stop(self) -> None:
        """Watches it no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _look(self) -> None:
        try:
            # No descriptor, because none is left or the kernel is too old for these: it is looked at again and again.
            pidfd = _open(self._pid)
        except ProcessLookupError:
            self._handle = self._loop.call_soon(self._over)
            return
        # The descriptor is of whoever has the pid now, and keeps meaning that one.
        if start_time(self._pid) not in (self._started, 0):
            if pidfd is not None:
                os.close(pidfd)
            self._handle = self._loop.call_soon(self._over)
        elif pidfd is not None:
            self._pidfd = pidfd
            self._loop.add_reader(pidfd, self._over)
        else:
            self._handle = self._loop.call_later(_LOOK_AGAIN_SECONDS, self._look)

    def _over(self) -> None:
        self.stop()
        self._ended()


def _open(pid: int) -> int | None:
    """Readable when the process has ended; None: there can be no descriptor. ProcessLookupError: it has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        with suppress(PermissionError):
            os.kill(pid, 0)
        return None
