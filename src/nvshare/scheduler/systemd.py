"""What systemd is told of this process: sd_notify(3).

The protocol is one datagram, and systemd promises to keep it. So there is no package for it here: those that exist
need libsystemd and a C compiler, or have not been kept up for years.
"""

from __future__ import annotations

import socket


class Systemd:
    """Whoever started this process, if that wants to be told."""

    def __init__(self, address: str) -> None:
        """``address``: the value of NOTIFY_SOCKET; empty: nobody wants to be told."""
        # An @ stands for the NUL with which the name of a socket without a file begins.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self, status: str) -> None:
        """The process serves from now on."""
        self._tell(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """What the process does, in a few words for people."""
        self._tell(f"STATUS={status}")

    def stopping(self) -> None:
        """The process is about to end by itself."""
        self._tell("STOPPING=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as connection:
            try:
                connection.sendto(message.encode(), self._address)
            except OSError:
                # Nobody listens, or is too slow: it will find out by itself what became of this process.
                return
