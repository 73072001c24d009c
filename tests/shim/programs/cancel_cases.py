"""Cases of threads that are cancelled, each in a fresh process: cancel_cases.py NAME LIBRARY.

They fail by an assertion. LIBRARY is ``cancelled_threads.c``. The counting driver's functions are cancellation points
while they are held.
"""

from __future__ import annotations

import ctypes
import sys

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer, Peer
from tests.shim.programs.driver_calls import (
    DRIVER,
    STREAM,
    Words,
    begin_capture,
    call,
    count,
    end_capture,
    hold,
    launch,
    start,
    take_lock,
    use_device,
)
from tests.shim.thread_state import asleep

LAUNCH = (0, 1, 1, 1, 1, 1, 1, 0, STREAM, 0, 0)
THREADS = ctypes.CDLL(sys.argv[2])
THREADS.cancelled_start.restype = ctypes.c_void_p


def thread(symbol: str, *arguments: int, times: int = 1, begin: bool = True) -> ctypes.c_void_p:
    """A thread that calls a function of the driver so many times."""
    return ctypes.c_void_p(THREADS.cancelled_start(DRIVER[symbol], Words(*arguments), times, begin))


def in_driver(symbol: str, *arguments: int) -> ctypes.c_void_p:
    """A thread in a call of the driver, which does not return."""
    hold(symbol)
    before = count(symbol)
    started = thread(symbol, *arguments)
    poll_until(lambda: count(symbol) > before, f"the driver's {symbol} is entered")
    return started


def cancel(started: ctypes.c_void_p) -> None:
    """Asks for the thread's end."""
    THREADS.cancelled_cancel(started)


def cancelled(started: ctypes.c_void_p) -> bool:
    """Waits for the thread's end; whether it was cancelled. Other threads of Python go on."""
    return bool(THREADS.cancelled_join(started))


def turn_ends(peer: Peer) -> None:
    """A drain completes, and so does the next turn."""
    peer.take_back()
    take_lock(peer)
    peer.take_back()


def in_a_call(server: LockServer) -> None:
    """A thread that is cancelled in a call has left it: a drain does not wait for it."""
    peer = use_device(server)
    take_lock(peer)
    launching = in_driver("cuLaunchKernel", *LAUNCH)
    cancel(launching)
    assert cancelled(launching)
    hold(None)
    turn_ends(peer)


def in_a_captured_call(server: LockServer) -> None:
    """A thread that passed a closed gate because it captures is cancelled after the call: the capture can end."""
    peer = use_device(server)
    assert begin_capture(STREAM) == 0
    launching = in_driver("cuLaunchKernel", *LAUNCH)
    cancel(launching)
    hold(None)
    assert cancelled(launching)
    assert start(lambda: end_capture(STREAM)).result() == 0
    take_lock(peer)
    turn_ends(peer)


def in_the_end_of_a_context(server: LockServer) -> None:
    """A thread that ends a context is cancelled after the call."""
    peer = use_device(server)
    context = ctypes.c_void_p()
    assert DRIVER.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    for symbol, argument in (("cuCtxDestroy_v2", context.value or 0), ("cuDevicePrimaryCtxRelease_v2", 0)):
        take_lock(peer)
        ending = in_driver(symbol, argument)
        cancel(ending)
        hold(None)
        assert cancelled(ending)
        turn_ends(peer)


def waiting_for_a_synchronization(server: LockServer) -> None:
    """A thread that waits until its context is synchronized is cancelled after that."""
    peer = use_device(server)
    take_lock(peer)
    hold("cuCtxSynchronize")
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize") > 0, "the drain synchronizes")
    ending = thread("cuDevicePrimaryCtxRelease_v2", 0)
    poll_until(lambda: asleep("self", THREADS.cancelled_number(ending) or 1), "the thread waits")
    cancel(ending)
    hold(None)
    assert cancelled(ending)
    peer.expect(wire.LockReleased)
    take_lock(peer)
    turn_ends(peer)


def waiting_to_capture(server: LockServer) -> None:
    """A thread that waits for a drain before it captures is cancelled after that."""
    peer = use_device(server)
    take_lock(peer)
    hold("cuCtxSynchronize")
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize") > 0, "the drain synchronizes")
    beginning = thread("cuStreamBeginCapture_v2", STREAM, 0)
    poll_until(lambda: asleep("self", THREADS.cancelled_number(beginning) or 1), "the thread waits")
    cancel(beginning)
    hold(None)
    assert cancelled(beginning)
    peer.expect(wire.LockReleased)
    assert end_capture(STREAM) == 0
    take_lock(peer)
    turn_ends(peer)


def held_back(server: LockServer) -> None:
    """A thread that is held back because too much is queued: captures begin, and drains end."""
    peer = use_device(server)
    take_lock(peer)
    DRIVER.spy_busy(True)
    launching = thread("cuLaunchKernel", *LAUNCH, times=1000)
    cancel(launching)
    assert cancelled(launching)
    DRIVER.spy_busy(False)
    assert start(lambda: begin_capture(STREAM)).result() == 0
    assert start(lambda: end_capture(STREAM)).result() == 0
    turn_ends(peer)


def at_a_closed_gate(server: LockServer) -> None:
    """A thread that is to be cancelled already when it comes to a closed gate asks for the lock like any other."""
    peer = use_device(server)
    launching = thread("cuLaunchKernel", *LAUNCH, begin=False)
    poll_until(lambda: THREADS.cancelled_number(launching), "the thread runs")
    cancel(launching)
    peer.expect(wire.ReqLock)
    peer.grant()
    assert cancelled(launching)
    assert call("cuLaunchKernel", *LAUNCH) == 0
    assert launch(0) == 0
    turn_ends(peer)


def falls_asleep(peer: Peer) -> None:
    """The door is closed: nobody is in the driver."""
    peer.send(wire.Sleep(1))
    peer.expect(wire.Asleep)


def in_a_call_that_submits_nothing(server: LockServer) -> None:
    """A thread that is cancelled in any call has left the driver: the process may sleep."""
    peer = use_device(server)
    started = in_driver("cuStreamSynchronize", STREAM)
    peer.send(wire.Sleep(1))
    peer.expect(wire.NotAsleep)
    cancel(started)
    assert cancelled(started)
    falls_asleep(peer)
    peer.send(wire.Awake())


def at_the_door(server: LockServer) -> None:
    """A thread that is cancelled at the closed door ends once it is open, and keeps nobody from closing it again."""
    peer = use_device(server)
    started = thread("cuStreamSynchronize", STREAM, begin=False)
    poll_until(lambda: THREADS.cancelled_number(started), "the thread is ready")
    falls_asleep(peer)
    cancel(started)
    peer.expect(wire.Wake)
    peer.send(wire.Awake())
    assert cancelled(started)
    falls_asleep(peer)
    peer.send(wire.Awake())


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
