"""In a process with the library and the counting driver: threads call while the door is closed and opened.

door_stress.py THREADS.SO [DENY.SO]: with DENY.SO there is no membarrier. Between ASLEEP and AWAKE nobody is in the
driver. Prints how often it was closed.
"""

from __future__ import annotations

import ctypes
import sys

from nvshare.protocol import wire
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import DRIVER, ends_at_once, use_device

CLOSINGS = 1000
THREADS = 4


def main(knocking: ctypes.CDLL) -> None:
    peer = use_device(LockServer())
    closed = refused = 0
    assert knocking.threads_start(THREADS)
    while closed < CLOSINGS:
        # They call all the time, until one has been in the driver when the door was to be closed.
        knocking.threads_rest(ctypes.c_bool(bool(refused)))
        peer.send(wire.Sleep(closed + 1))
        answer = peer.receive()
        while isinstance(answer, wire.Wake):
            answer = peer.receive()
        if isinstance(answer, wire.NotAsleep):
            assert not answer.final, answer
            refused += 1
            continue
        DRIVER.spy_sleep(ctypes.c_bool(True))
        knocking.threads_rest(ctypes.c_bool(False))
        peer.expect(wire.Wake)
        DRIVER.spy_sleep(ctypes.c_bool(False))
        assert DRIVER.spy_disturbances() == 0, "a call was in the driver behind the closed door"
        closed, refused = closed + 1, 0
        peer.send(wire.Awake())
    knocking.threads_stop()
    print(closed)


for other in sys.argv[2:]:
    assert ctypes.CDLL(other).deny_membarrier() == 0
ends_at_once(lambda: main(ctypes.CDLL(sys.argv[1])))
