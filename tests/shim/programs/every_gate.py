"""In a process with the library and the counting driver: calls every gated symbol before and after a grant.

Each is called with zeros while the lock is somebody else's: the client asks for the lock, the call has not returned and
the driver was not entered. After the grant the call returns, and the driver was entered once.
"""

from __future__ import annotations

import ctypes
import threading

from nvshare.cuda.entrypoints import EntryPoint
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.entrypoints import entry_points, is_gated
from tests.shim.lock_server import PATIENCE, LockServer, Peer

DRIVER = ctypes.CDLL("libcuda.so.1")


def main() -> None:
    server = LockServer()
    context = ctypes.c_void_p()
    assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert DRIVER.cuCtxSetCurrent(context) == 0
    peer = server.accept()
    gated = [point for point in entry_points() if is_gated(point)]
    for point in gated:
        check(point, peer)
    print(len(gated))


def count(symbol: str) -> int:
    return int(DRIVER.spy_count(symbol.encode()))


def check(point: EntryPoint, peer: Peer) -> None:
    before = count(point.symbol)
    call = threading.Thread(target=invoke, args=(point,), daemon=True)
    call.start()
    peer.expect(wire.ReqLock)
    assert call.is_alive(), f"{point.symbol} did not wait"
    assert count(point.symbol) == before, f"{point.symbol} reached the driver without the lock"
    peer.grant()
    poll_until(lambda: not call.is_alive(), f"{point.symbol} returns after the grant", timeout=PATIENCE)
    assert count(point.symbol) == before + 1, f"{point.symbol} did not reach the driver"
    peer.take_back()


def invoke(point: EntryPoint) -> None:
    function = DRIVER[point.symbol]
    function.argtypes = [argument_type(parameter.type) for parameter in point.parameters]
    function(*(kind() for kind in function.argtypes))


def argument_type(written: str) -> type:
    """Something zero of a fitting size; structures by value have eight bytes."""
    return ctypes.c_uint if written in ("unsigned int", "int", "unsigned char", "unsigned short") else ctypes.c_size_t


main()
