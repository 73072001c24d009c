"""Cases of contexts that end, each in a fresh process: context_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import sys

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer, Peer
from tests.shim.programs.driver_calls import (
    DRIVER,
    STREAM,
    begin_capture,
    call,
    count,
    end_capture,
    enters,
    hold,
    release,
    retain,
    start,
    take_lock,
    use_device,
)
from tests.shim.thread_state import client_waits

# Their argument is the context.
DESTROY = ("cuCtxDestroy", "cuCtxDestroy_v2", "cuCtxDetach")
# Their argument is the device; each ends its primary context when that was retained once.
END_PRIMARY = (
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxReset_v2",
)


def create() -> int:
    """A context of the first device that is not its primary one."""
    context = ctypes.c_void_p()
    assert DRIVER.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert context.value
    return context.value


def use_without_primary(server: LockServer) -> Peer:
    """Uses the first device by a context that does not stay, and meets its client."""
    context = create()
    peer = server.accept()
    assert call("cuCtxDestroy_v2", context) == 0
    return peer


def stream_of(context: int) -> int:
    """A stream of the context."""
    return 0x100 * (context - 0xFFF) + 0x10


def captures_end(peer: Peer, stream: int, symbol: str, argument: int) -> None:
    """The end of the stream's context ends its capture: the drain has nothing to wait for."""
    take_lock(peer)
    assert begin_capture(stream) == 0
    DRIVER.spy_capture(None)
    assert call(symbol, argument) == 0
    peer.take_back()


def drain_waits(peer: Peer, symbol: str, argument: int) -> None:
    """A drain waits for an end that is in the driver, which may take as long as the context's work."""
    take_lock(peer)
    hold(symbol)
    ending = enters(symbol, lambda: call(symbol, argument))
    peer.revoke()
    client_waits(peer)
    hold(None)
    assert ending.result() == 0
    peer.expect(wire.LockReleased)


def end_waits(peer: Peer, symbol: str, argument: int) -> None:
    """An end waits while the context is synchronized: the driver would not survive both at once."""
    take_lock(peer)
    hold("cuCtxSynchronize")
    synchronized, ended = count("cuCtxSynchronize"), count(symbol)
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize") > synchronized, "the drain synchronizes")
    ending = start(lambda: call(symbol, argument))
    ending.waits()
    assert count(symbol) == ended
    hold(None)
    assert ending.result() == 0
    peer.expect(wire.LockReleased)


def destroyed_context_ends_its_captures(server: LockServer) -> None:
    """By every call that destroys one."""
    peer = use_without_primary(server)
    for symbol in DESTROY:
        context = create()
        captures_end(peer, stream_of(context), symbol, context)


def ended_primary_context_ends_its_captures(server: LockServer) -> None:
    """By every call that can end it."""
    peer = use_device(server)
    for symbol in END_PRIMARY:
        captures_end(peer, STREAM, symbol, 0)
        retain()


def captures_of_other_contexts_go_on(server: LockServer) -> None:
    """A context that is destroyed, or a primary one that is released but not by all, ends no capture but its own."""
    peer = use_device(server)
    retain()
    other = create()
    take_lock(peer)
    assert begin_capture(STREAM) == 0
    assert call("cuCtxDestroy_v2", other) == 0
    assert call("cuDevicePrimaryCtxRelease_v2", 0) == 0
    peer.revoke()
    client_waits(peer)
    assert count("cuCtxSynchronize") == 0
    assert end_capture(STREAM) == 0
    peer.expect(wire.LockReleased)


def drain_waits_for_the_end_of_a_context(server: LockServer) -> None:
    """By every call that destroys one."""
    peer = use_without_primary(server)
    for symbol in DESTROY:
        drain_waits(peer, symbol, create())


def drain_waits_for_the_end_of_a_primary_context(server: LockServer) -> None:
    """By every call that can end it."""
    peer = use_device(server)
    for symbol in END_PRIMARY:
        drain_waits(peer, symbol, 0)
        retain()


def drain_waits_for_the_end_of_an_unknown_primary_context(server: LockServer) -> None:
    """Also where nobody has seen the context begin."""
    peer = use_without_primary(server)
    for symbol in END_PRIMARY:
        drain_waits(peer, symbol, 0)


def context_that_ends_beside_the_synchronization(server: LockServer) -> None:
    """A context that begins to end while the drain synchronizes another one is waited for as well.

    It is not in the list of contexts any more, and the driver waits for its work.
    """
    context = create()
    peer = server.accept()
    retain()
    call("cuCtxSetCurrent", 0x1000)
    take_lock(peer)
    hold("cuCtxSynchronize")
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize") == 1, "the drain synchronizes the newer context")
    hold("cuCtxDestroy_v2")
    ending = enters("cuCtxDestroy_v2", lambda: call("cuCtxDestroy_v2", context))
    release("cuCtxSynchronize")
    client_waits(peer)
    hold(None)
    assert ending.result() == 0
    peer.expect(wire.LockReleased)


def context_ends_without_the_lock(server: LockServer) -> None:
    """An end does not wait for the gate."""
    use_device(server)
    context = create()
    assert start(lambda: call("cuCtxDestroy_v2", context)).result() == 0
    assert start(lambda: call("cuDevicePrimaryCtxRelease_v2", 0)).result() == 0


def end_of_a_context_waits_for_its_synchronization(server: LockServer) -> None:
    """By every call that destroys one."""
    peer = use_without_primary(server)
    for symbol in DESTROY:
        end_waits(peer, symbol, create())


def end_of_a_primary_context_waits_for_its_synchronization(server: LockServer) -> None:
    """By every call that can end it."""
    peer = use_device(server)
    for symbol in END_PRIMARY:
        end_waits(peer, symbol, 0)
        retain()


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
