"""In a process with the library and the counting driver: calls in threads of their own, and what the driver saw."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import TIMEOUT, LockServer, Peer
from tests.shim.thread_state import asleep, exists, ticks

DRIVER = ctypes.CDLL("libcuda.so.1", use_errno=True)
STREAM, OTHER_STREAM, SECOND_DEVICE_STREAM = 0x110, 0x120, 0x210
COMPUTING = 3
"""Ticks of processor time after which a call counts as one that waits by looking again and again."""


class Caller(ctypes.Structure):
    """What spy_call says about a thread."""

    _fields_ = (("thread", ctypes.c_int), ("calls", ctypes.c_int))


class _Here(threading.local):
    def __init__(self) -> None:
        self.caller = Caller()


_here = _Here()
Words = ctypes.c_size_t * 20


def count(symbol: str) -> int:
    """How often the driver's function was entered."""
    return int(DRIVER.spy_count(symbol.encode()))


def hold(symbol: str | None) -> None:
    """From now on the driver's function of that name does not return; None: all do."""
    DRIVER.spy_hold(symbol.encode() if symbol else None)


def release(symbol: str) -> None:
    """From now on the driver's function of that name, which was held, returns."""
    DRIVER.spy_release(symbol.encode())


def fail(symbol: str | None) -> None:
    """From now on the driver's function of that name fails."""
    DRIVER.spy_fail(symbol.encode() if symbol else None)


def call(symbol: str, *arguments: int) -> int:
    """Calls a function of the driver in this thread; all arguments are words."""
    return int(DRIVER.spy_call(DRIVER[symbol], Words(*arguments), ctypes.byref(_here.caller)))


def launch(stream: int) -> int:
    """Launches a kernel."""
    return call("cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)


def begin_capture(stream: int) -> int:
    """Begins to capture, also as the driver sees it."""
    result = call("cuStreamBeginCapture_v2", stream, 0)
    DRIVER.spy_capture(ctypes.c_void_p(stream))
    return result


def end_capture(stream: int) -> int:
    """Ends what begin_capture began."""
    DRIVER.spy_capture(None)
    return call("cuStreamEndCapture", stream, 0)


@dataclass(slots=True)
class Calling:
    """A call, or several, that go on in another thread."""

    function: Callable[[], int]
    ordinal: int
    thread: threading.Thread = field(init=False)
    caller: Caller = field(default_factory=Caller)
    results: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        _here.caller = self.caller
        call("cuCtxSetCurrent", 0x1000 + self.ordinal)
        self.results.append(self.function())

    def result(self) -> int:
        """Waits until it returns."""
        poll_until(lambda: not self.thread.is_alive(), "the call returns", timeout=TIMEOUT)
        return self.results[0]

    def ends(self) -> None:
        """Waits until its thread is gone, with all that is done at its end."""
        number = self.thread.native_id
        assert number
        poll_until(lambda: not exists("self", number), "the thread ends")

    def waits(self) -> None:
        """Waits until it is in a call that does not go on: the thread sleeps, or computes without an end."""
        begun: dict[int, int] = {}

        def stands_still() -> bool:
            calls, thread = self.caller.calls, self.caller.thread
            if not thread:
                return False
            used = ticks("self", thread)
            still = asleep("self", thread) or used - begun.setdefault(calls, used) >= COMPUTING
            return still and (self.caller.calls, self.caller.thread) == (calls, thread)

        poll_until(lambda: stands_still() or not self.thread.is_alive(), "the call waits", timeout=TIMEOUT)
        assert self.thread.is_alive(), "the call did not wait"


def start(function: Callable[[], int], ordinal: int = 0) -> Calling:
    """Runs a function in another thread, with the device's primary context current."""
    return Calling(function, ordinal)


def enters(symbol: str, function: Callable[[], int]) -> Calling:
    """Runs a function in another thread until the driver's function of that name, which is held, has been entered."""
    before = count(symbol)
    calling = start(function)
    poll_until(lambda: count(symbol) > before, f"the driver's {symbol} is entered", timeout=TIMEOUT)
    return calling


def ends_at_once(function: Callable[[], None]) -> None:
    """Runs a case whose process may be asleep at its end, where exit would wait for its own scheduler."""
    try:
        function()
    except Exception:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def use_device(server: LockServer, ordinal: int = 0) -> Peer:
    """Retains the device's context, makes it current, and meets its client."""
    retain(ordinal)
    call("cuCtxSetCurrent", 0x1000 + ordinal)
    return server.accept()


def retain(ordinal: int = 0) -> None:
    """Retains the device's primary context."""
    context = ctypes.c_void_p()
    assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0


def take_lock(peer: Peer) -> None:
    """Launches something, for which the client asks for the lock and gets it."""
    launched = start(lambda: launch(STREAM))
    peer.expect(wire.ReqLock)
    peer.grant()
    assert launched.result() == 0
