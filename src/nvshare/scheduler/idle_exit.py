"""Ends a scheduler that was started for a few programs, some time after its last client left."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

_RETRY_SECONDS = 1.0


class IdleExit:
    """Calls ``end`` when there was no client for ``seconds`` and no program that was started to use it still runs."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, programs_lock: Path, end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._programs_lock = programs_lock
        self._end = end
        self._timer: asyncio.TimerHandle | None = loop.call_later(seconds, self._try)

    def clients_changed(self, clients: int) -> None:
        """There are ``clients`` clients now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if clients == 0:
            self._timer = self._loop.call_later(self._seconds, self._try)

    def close(self) -> None:
        """Stops waiting. The lock stays locked until the process has ended, and its sockets with it."""
        if self._timer is not None:
            self._timer.cancel()

    def _try(self) -> None:
        self._timer = None
        try:
            lock = os.open(self._programs_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # the run directory was removed: nobody can find this scheduler any more
            self._end()
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            self._timer = self._loop.call_later(_RETRY_SECONDS, self._try)
            return
        self._end()
