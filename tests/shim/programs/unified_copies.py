"""On two simulated devices, under the library: a copy between their memory in a stream of one waits for both locks."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_size_t, c_ulonglong, c_void_p

from nvshare.protocol import wire
from tests.shim.lock_server import LockServer, Peer

BYTES, MIDDLE = 1 << 20, 1 << 19
DRIVER = ctypes.CDLL("libcuda.so.1")


def check(result: int) -> None:
    """The driver has done it."""
    assert result == 0, result


class Place:
    """A device with its primary context, some memory, and its client."""

    def __init__(self, server: LockServer, ordinal: int) -> None:
        self.context, memory = c_void_p(), c_ulonglong()
        check(DRIVER.cuDevicePrimaryCtxRetain(byref(self.context), ordinal))
        self.peer: Peer = server.accept()
        check(DRIVER.cuCtxSetCurrent(self.context))
        check(DRIVER.cuMemAlloc_v2(byref(memory), c_size_t(BYTES)))
        self.middle = c_ulonglong(memory.value + MIDDLE)


def copy(stream_of: Place, to: Place, source: Place) -> threading.Thread:
    """A copy in the default stream of a device, in a thread of its own."""

    def run() -> None:
        check(DRIVER.cuCtxSetCurrent(stream_of.context))
        check(DRIVER.cuMemcpyDtoDAsync_v2(to.middle, source.middle, c_size_t(1), c_void_p()))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def main() -> None:
    """Copies in both directions, with each device's stream."""
    check(DRIVER.cuInit(0))
    server = LockServer()
    places = Place(server, 0), Place(server, 1)
    for here, there, to, source in ((0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1), (1, 0, 1, 0)):
        copying = copy(places[here], places[to], places[source])
        # The gates are looked at in the order of the devices; none is passed before all are open.
        for place in places:
            place.peer.expect(wire.ReqLock)
            assert copying.is_alive(), f"a stream of {here} did not wait for {there}"
            place.peer.grant()
        copying.join()
        for place in places:
            place.peer.take_back()


main()
