"""In a process with the library and the counting driver: calls in threads of their own, and what the driver saw."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import PATIENCE, LockServer, Peer

DRIVER = ctypes.CDLL("libcuda.so.1", use_errno=True)
NOT_READY, CAPTURE_IMPLICIT = 802, 906
STREAM, OTHER_STREAM, SECOND_DEVICE_STREAM = 0x110, 0x120, 0x210


def count(symbol: str) -> int:
    """How often the driver's function was entered."""
    return int(DRIVER.spy_count(symbol.encode()))


def hold(symbol: str | None) -> None:
    """From now on the driver's function of that name does not return."""
    DRIVER.spy_hold(symbol.encode() if symbol else None)


def call(symbol: str, *arguments: int) -> int:
    """Calls a function of the driver in this thread; all arguments are words."""
    return int(DRIVER[symbol](*map(ctypes.c_size_t, arguments)))


def launch(stream: int) -> int:
    """Launches a kernel."""
    return call("cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)


@dataclass(frozen=True, slots=True)
class Calling:
    """A call that goes on in another thread."""

    thread: threading.Thread
    results: list[int]

    @property
    def over(self) -> bool:
        """It has returned."""
        return not self.thread.is_alive()

    def result(self) -> int:
        """Waits until it returns."""
        poll_until(lambda: self.over, "the call returns", timeout=PATIENCE)
        return self.results[0]


def start(function: Callable[[], int], ordinal: int = 0) -> Calling:
    """Runs a function in another thread, with the device's context current."""
    results: list[int] = []

    def run() -> None:
        call("cuCtxSetCurrent", 0x1000 + ordinal)
        results.append(function())

    calling = Calling(threading.Thread(target=run, daemon=True), results)
    calling.thread.start()
    return calling


def use_device(server: LockServer, ordinal: int = 0) -> Peer:
    """Retains the device's context, makes it current, and meets its client."""
    context = ctypes.c_void_p()
    assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0
    call("cuCtxSetCurrent", 0x1000 + ordinal)
    return server.accept()


def take_lock(peer: Peer) -> None:
    """Launches something, for which the client asks for the lock and gets it."""
    launched = start(lambda: launch(STREAM))
    peer.expect(wire.ReqLock)
    peer.grant()
    assert launched.result() == 0
