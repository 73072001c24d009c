"""Ends the process at the other end of a connection."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct

from nvshare.scheduler.pods.peer import Peer
from nvshare.scheduler.pods.processes import start_time

_DESCRIPTOR = struct.Struct("i")
_SO_PEERPIDFD = 77
"""From Linux's asm-generic/socket.h; Python does not name it."""


def kill_peer(connection: socket.socket, peer: Peer) -> None:
    """Ends the process that connected, and never a later one with its pid; OSError when that is not possible."""
    descriptor = _pidfd_of(connection, peer)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _pidfd_of(connection: socket.socket, peer: Peer) -> int:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, _DESCRIPTOR.size)
        return int(_DESCRIPTOR.unpack(raw)[0])
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise
    # Linux before 6.5. A process that began after the connection is not the one that made it.
    descriptor = os.pidfd_open(peer.pid)
    try:
        if not 0 < start_time(peer.pid) / os.sysconf("SC_CLK_TCK") <= peer.accepted_at:
            raise ProcessLookupError(errno.ESRCH, "the process that connected has ended")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
