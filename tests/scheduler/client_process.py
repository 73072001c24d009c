"""A client that is a process of its own to the scheduler, while the test speaks for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.scheduler.wire_client import Scheduler, WireClient
from tests.stopping import stop

_PROGRAM = """
import socket, sys
orders = socket.socket(fileno=int(sys.argv[1]))
while path := orders.recv(4096):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    socket.send_fds(orders, [b"c"], [connection.fileno()])
    connection.close()
"""


class ClientProcess:
    """Connects where it is told to, so that the kernel names it as the peer; a context manager that kills it."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair()
        command = [sys.executable, "-S", "-E", "-c", _PROGRAM, str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.close()
        self.kill()

    def connect(self, scheduler: Scheduler) -> WireClient:
        """A connection of this process; it ends when this end of it is closed."""
        return scheduler.client(self.connection(scheduler))

    def connection(self, scheduler: Scheduler) -> socket.socket:
        """The same as a socket, of whoever takes it."""
        self._orders.send(os.fsencode(scheduler.run_dir.client_socket))
        _data, descriptors, _flags, _address = socket.recv_fds(self._orders, 1, 1)
        return socket.socket(fileno=descriptors[0])

    def stop(self) -> None:
        """As Ctrl-Z would; returns when it stands still."""
        stop(self.process.pid)

    def kill(self) -> None:
        """As a crash would; nothing of it is left."""
        self.process.kill()
        self.process.wait()
