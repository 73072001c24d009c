"""Accepts connections, for a moment at a time, and pauses while there are no descriptors for more."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

from nvshare.log import Log

_SECONDS = 0.002
"""For how long is accepted in one pass of the event loop, so that very many at once delay nobody else much.

They are accepted in their order, so whoever connects waits for all of a flood before it: a holder that comes back, too.
"""
_PAUSE_SECONDS = 0.2


class Listener:
    """One listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        loop: asyncio.AbstractEventLoop,
        has_room: Callable[[], bool],
        accepted: Callable[[socket.socket], None],
        log: Log,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``has_room``: whether one more connection leaves descriptors for everything else.

        ``monotonic``: seconds that never go back, and go on while one is accepted.
        """
        self._listening = listening
        self._loop = loop
        self._has_room = has_room
        self._accepted = accepted
        self._log = log
        self._monotonic = monotonic
        self._pause: asyncio.TimerHandle | None = None
        self._behind = False
        """Accepting has paused since nobody waited."""
        self.pauses = 0
        """How often accepting paused because there were no descriptors or no memory."""
        self._resume()

    def close(self) -> None:
        """Accepts nothing more."""
        if self._pause is None:
            self._loop.remove_reader(self._listening.fileno())
        else:
            self._pause.cancel()
        self._listening.close()

    def move_to(self, listening: socket.socket) -> None:
        """Accepts there from now on, and no longer where it did."""
        self.close()
        self._listening = listening
        self._resume()

    def _resume(self) -> None:
        self._pause = None
        try:
            self._loop.add_reader(self._listening.fileno(), self._on_acceptable)
        except OSError as error:
            self._wait(str(error.strerror))

    def _on_acceptable(self) -> None:
        until = self._monotonic() + _SECONDS
        while self._monotonic() < until:
            if not self._has_room():
                self._wait("as many connections as there are descriptors for")
                return
            try:
                connection, _address = self._listening.accept()
                connection.setblocking(False)
                self._accepted(connection)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                self._behind = False
                return
            except OSError as error:
                # Mostly no descriptors or no memory are left. Whatever it is, the next try may succeed.
                self._wait(str(error.strerror))
                return

    def _wait(self, reason: str) -> None:
        self.pauses += 1
        if not self._behind:
            self._behind = True
            self._log.warning("accepting paused, and pauses until there is room for all who wait", reason=reason)
        self._loop.remove_reader(self._listening.fileno())
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._resume)
