"""In a process with the library and the counting driver: calls every gated symbol before and after a grant.

Each is called with zeros while the lock is somebody else's: the client asks for the lock, the call waits and the
driver was not entered. After the grant the call returns, and the driver was entered once.
"""

from __future__ import annotations

from nvshare.cuda.entrypoints import EntryPoint
from nvshare.protocol import wire
from tests.shim.entrypoints import entry_points, is_gated
from tests.shim.lock_server import LockServer, Peer
from tests.shim.programs.driver_calls import call, count, start, use_device


def main() -> None:
    peer = use_device(LockServer())
    gated = [point for point in entry_points() if is_gated(point)]
    for point in gated:
        check(point, peer)
    print(len(gated))


def check(point: EntryPoint, peer: Peer) -> None:
    before = count(point.symbol)
    calling = start(lambda: call(point.symbol, *(0 for _ in point.parameters)))
    peer.expect(wire.ReqLock)
    calling.waits()
    assert count(point.symbol) == before, f"{point.symbol} reached the driver without the lock"
    peer.grant()
    calling.result()
    assert count(point.symbol) == before + 1, f"{point.symbol} did not reach the driver"
    peer.take_back()


main()
