"""What systemd is told of this process: sd_notify(3).

The protocol is one datagram, and systemd promises to keep it. So there is no package for it here: those that exist
need libsystemd and a C compiler, or have not been kept up for years.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_TELL_SECONDS = 1.0
"""It hears of changes at most this often."""


class Systemd:
    """Whoever started this process, if that wants to be told."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str, words: Callable[[], str]) -> None:
        """``address``: the value of NOTIFY_SOCKET; empty: nobody wants to be told.

        ``words``: what the process does now, for people.
        """
        self._loop = loop
        self._words = words
        self._telling = False
        # An @ stands for the NUL with which the name of a socket without a file begins.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self) -> None:
        """The process serves from now on."""
        self._tell(f"READY=1\nSTATUS={self._words()}")

    def changed(self) -> None:
        """The process does something else now."""
        if not self._telling:
            self._telling = True
            self._loop.call_later(_TELL_SECONDS, self._tell_status)

    def stopping(self) -> None:
        """The process is about to end by itself."""
        self._tell("STOPPING=1")

    def _tell_status(self) -> None:
        self._telling = False
        self._tell(f"STATUS={self._words()}")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as connection:
            try:
                connection.sendto(message.encode(), self._address)
            except OSError:
                # Nobody listens, or is too slow: it will find out by itself what became of this process.
                return
