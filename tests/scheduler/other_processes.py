"""Connections that other processes made, used by this one: whose a connection is, is decided when it is made."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_AT_ONCE = 100
"""Descriptors in one message: the kernel allows 253."""
_SCRIPT = f"""
import os, socket, sys
path, channel, processes, each = sys.argv[1], socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4])
for _ in range(processes):
    if os.fork():
        continue
    while each:
        here = min(each, {_AT_ONCE})
        made = [socket.socket(socket.AF_UNIX) for _ in range(here)]
        for one in made:
            one.connect(path)
        socket.send_fds(channel, [b"."], [one.fileno() for one in made])
        for one in made:
            one.close()
        each -= here
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


class OtherProcesses:
    """Some processes, and the connections that they made."""

    def __init__(self, path: Path, processes: int, each: int, *arguments: str, before: Sequence[str] = ()) -> None:
        """``arguments`` make their command lines longer; ``before`` is what comes before their command."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                given = [os.fspath(path), str(theirs.fileno()), str(processes), str(each), *arguments]
                self._process = subprocess.Popen(
                    [*before, sys.executable, "-c", _SCRIPT, *given], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()]
                )
            self.connections: list[socket.socket] = []
            while len(self.connections) < processes * each:
                data, descriptors, _flags, _address = socket.recv_fds(ours, 1, _AT_ONCE)
                assert data, "the processes ended"
                self.connections += [socket.socket(fileno=descriptor) for descriptor in descriptors]

    def end(self) -> None:
        """They end; their connections stay as long as this process has them."""
        self._process.communicate()
