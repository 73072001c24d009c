"""In a process with the library and the counting driver: threads submit while the lock comes and goes.

stress.py THREADS.SO THREADS TURNS STEPPING. Nothing may be submitted between LOCK_RELEASED and the next LOCK_OK, and
when LOCK_RELEASED comes, everything submitted must have been synchronized. STEPPING is 1: the device completes nothing
before the drain has let through a submission.
"""

from __future__ import annotations

import ctypes
import random
import sys

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer, Peer
from tests.shim.programs.driver_calls import DRIVER, count, use_device


def main(submitting: ctypes.CDLL, threads: int, turns: int, stepping: bool) -> None:
    chance = random.Random(turns)
    peer = use_device(LockServer())
    DRIVER.spy_turn(ctypes.c_bool(False))
    assert submitting.threads_start(threads)
    for _ in range(turns):
        peer.expect(wire.ReqLock)
        enough = count("cuLaunchKernel") + chance.choice([1, 10, 1000])
        DRIVER.spy_turn(ctypes.c_bool(True))
        peer.grant()
        poll_until(lambda least=enough: count("cuLaunchKernel") >= least, "the threads go on", interval=0.0005)
        take_back(peer, stepping)
        assert DRIVER.spy_overtaken() == 0, "synchronized while a submission was in the driver"
        assert DRIVER.spy_pending() == 0, "released before everything was synchronized"
        DRIVER.spy_turn(ctypes.c_bool(False))
        assert DRIVER.spy_violations() == 0, "submitted outside of a turn"
    peer.expect(wire.ReqLock)
    DRIVER.spy_turn(ctypes.c_bool(True))
    peer.grant()
    submitting.threads_stop()
    assert DRIVER.spy_violations() == 0
    print(count("cuLaunchKernel"))


def take_back(peer: Peer, stepping: bool) -> None:
    """Asks for the lock back and waits until it comes."""
    if stepping:
        DRIVER.spy_busy(ctypes.c_bool(True))
        peer.revoke()
        assert peer.expect(wire.DrainReport).drain is wire.Drain.STEPPING
        DRIVER.spy_busy(ctypes.c_bool(False))
        peer.expect(wire.LockReleased)
    else:
        peer.take_back()


main(ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
