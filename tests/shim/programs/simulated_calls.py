"""In a process with the library and the simulated driver: work that takes as long as the test wants, and threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from nvshare.protocol import wire
from nvshare.simgpu import KERNELS_PTX
from tests.polling import poll_until
from tests.shim.lock_server import TIMEOUT, LockServer, Peer

DRIVER = ctypes.CDLL("libcuda.so.1")
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NON_BLOCKING = 1


def call(symbol: str, *arguments: object) -> None:
    """Calls a function of the driver, which must succeed."""
    result = DRIVER[symbol](*arguments)
    assert result == 0, f"{symbol} answered {result}"


@dataclass(slots=True)
class Device:
    """The first device, its primary context current in this thread."""

    context: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    spin_kernel: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    word: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)
    """Device memory: 4 bytes, which are 0."""
    functions: list[object] = field(default_factory=list)
    """Host functions: they must live for as long as the driver may call them."""

    def __post_init__(self) -> None:
        module = ctypes.c_void_p()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.use()
        call("cuModuleLoadData", ctypes.byref(module), KERNELS_PTX.read_bytes() + b"\0")
        call("cuModuleGetFunction", ctypes.byref(self.spin_kernel), module, b"nvs_spin")
        call("cuMemAlloc_v2", ctypes.byref(self.word), ctypes.c_size_t(4))

    def use(self) -> None:
        """Makes its context current in this thread."""
        call("cuCtxSetCurrent", self.context)

    def stream(self) -> ctypes.c_void_p:
        """A stream that waits for no other."""
        stream = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        return stream

    def spin(self, seconds: float, stream: ctypes.c_void_p) -> None:
        """A kernel that takes so long."""
        nanoseconds = ctypes.c_uint64(int(seconds * 1e9))
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(nanoseconds))
        call("cuLaunchKernel", self.spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    def host_function(self, stream: ctypes.c_void_p, function: Callable[[], object]) -> None:
        """The stream calls it and goes on when it has returned."""
        called = HOST_FUNCTION(lambda _: function() and None)
        self.functions.append(called)
        call("cuLaunchHostFunc", stream, called, None)

    def wait_value(self, stream: ctypes.c_void_p) -> None:
        """The stream waits until the word is 1."""
        call("cuStreamWaitValue32_v2", stream, self.word, 1, 0)

    def write_value(self, stream: ctypes.c_void_p) -> None:
        """The stream writes 1 to the word."""
        call("cuStreamWriteValue32_v2", stream, self.word, 1, 0)

    def start(self, function: Callable[[], object]) -> threading.Thread:
        """Runs a function in another thread, with the context current."""

        def run() -> None:
            self.use()
            function()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


def ends(thread: threading.Thread) -> None:
    """Waits until it ends."""
    poll_until(lambda: not thread.is_alive(), "the thread ends", timeout=TIMEOUT)


def hold_lock(server: LockServer, device: Device) -> Peer:
    """The process's client, which has the lock; nothing runs."""
    peer = server.accept()
    launched = device.start(lambda: device.spin(0, device.stream()))
    peer.expect_wanting()
    peer.grant()
    ends(launched)
    call("cuCtxSynchronize")
    return peer


def expect_steps(peer: Peer) -> None:
    """The drain is reported to step, and ends with the lock given back."""
    assert peer.expect(wire.DrainReport) == wire.DrainReport(peer.grants, wire.Drain.STEPPING)
    assert peer.expect(wire.LockReleased).grant == peer.grants
