"""In a process with the library and the counting driver: threads call while the door is closed and opened.

door_stress.py KNOCKING.SO SLEEPS.SO THREADS CLOSINGS [DENY.SO]: with DENY.SO there is no membarrier. Nobody is in the
driver while the door is closed.
"""

from __future__ import annotations

import ctypes
import sys

from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import DRIVER, ends_at_once, use_device

LINGER_NS = 30_000
"""A call is longer than it takes until the closed door is heard of."""


def main(knocking: ctypes.CDLL, scheduling: ctypes.CDLL, threads: int, closings: int) -> None:
    peer = use_device(LockServer())
    peer.connection.setblocking(True)
    DRIVER.spy_linger(ctypes.c_uint64(LINGER_NS))
    assert knocking.threads_start(threads)
    closed = scheduling.play_sleeps(peer.connection.fileno(), closings)
    assert closed == closings, f"a call was in the driver behind the closed door, closing {closed}"


if len(sys.argv) > 5:
    assert ctypes.CDLL(sys.argv[5]).deny_membarrier() == 0
ends_at_once(lambda: main(ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
