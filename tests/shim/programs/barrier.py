"""In a process with the library and the counting driver: a thread submits while the lock comes and goes quickly.

barrier.py THREADS.SO TURNS.SO TURNS [DENY.SO]: with DENY.SO there is no membarrier. No submission may be
in the driver when the device is synchronized, or come after that.
"""

from __future__ import annotations

import ctypes
import sys

from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import use_device


def main(submitting: ctypes.CDLL, scheduling: ctypes.CDLL, turns: int) -> None:
    peer = use_device(LockServer())
    peer.connection.setblocking(True)
    assert submitting.threads_start(1)
    assert scheduling.play_turns(peer.connection.fileno(), turns) == turns, "a call in flight was not waited for"
    peer.grants = turns
    peer.grant()
    submitting.threads_stop()


if len(sys.argv) > 4:
    assert ctypes.CDLL(sys.argv[4]).deny_membarrier() == 0
main(ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2]), int(sys.argv[3]))
