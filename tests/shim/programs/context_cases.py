"""Cases of contexts that end, each in a fresh process: context_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

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
    fail,
    hold,
    launch,
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
    before = count("cuCtxSynchronize")
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize") > before, "the drain synchronizes")
    ended = count(symbol)
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


def failed_end_changes_nothing(server: LockServer) -> None:
    """A context that could not be destroyed, also a primary one, stays what it was."""
    peer = use_device(server)
    other = create()
    for symbol in DESTROY:
        fail(symbol)
        assert call(symbol, 0x1000) != 0
        assert call(symbol, other) != 0
    fail(None)
    end_waits(peer, "cuCtxDestroy_v2", other)
    end_waits(peer, "cuDevicePrimaryCtxRelease_v2", 0)
    before = synchronized(0x1000)
    take_lock(peer)
    peer.take_back()
    assert synchronized(0x1000) == before


def ends_at_once(server: LockServer) -> None:
    """Several threads end a context at the same time; drains wait for all of them, and go on afterwards."""
    peer = use_device(server)
    retain()
    take_lock(peer)
    hold("cuDevicePrimaryCtxRelease_v2")
    ending = [enters("cuDevicePrimaryCtxRelease_v2", lambda: call("cuDevicePrimaryCtxRelease_v2", 0)) for _ in range(2)]
    peer.revoke()
    client_waits(peer)
    hold(None)
    assert [one.result() for one in ending] == [0, 0]
    peer.expect(wire.LockReleased)
    take_lock(peer)
    peer.take_back()


def errors_leave_nothing_behind(server: LockServer) -> None:
    """A context that the driver does not let us synchronize can be ended, and later drains synchronize the others."""
    peer = use_device(server)
    other = create()
    for symbol in ("cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRetain"):
        take_lock(peer)
        fail(symbol)
        peer.take_back()
        fail(None)
    before = synchronized(0x1000)
    end_waits(peer, "cuCtxDestroy_v2", other)
    assert synchronized(0x1000) > before
    end_waits(peer, "cuDevicePrimaryCtxRelease_v2", 0)


def synchronized(context: int) -> int:
    """How often the context was synchronized."""
    return int(DRIVER.spy_synchronized(ctypes.c_void_p(context)))


def drain_synchronizes(peer: Peer, context: int) -> None:
    """A drain that begins now synchronizes the context."""
    before = synchronized(context)
    peer.take_back()
    assert synchronized(context) == before + 1


def submits_in(context: int) -> int:
    """Submits in a context that was made current around the hooks."""
    DRIVER.spy_make_current(ctypes.c_void_p(context))
    return launch(0)


def context_made_elsewhere_is_synchronized(server: LockServer) -> None:
    """A context that no hook saw made or made current, at a thread's first submission."""
    peer = use_device(server)
    take_lock(peer)
    assert start(lambda: submits_in(0x1100)).result() == 0
    drain_synchronizes(peer, 0x1100)


def context_that_ended_elsewhere_is_left_alone(server: LockServer) -> None:
    """A context whose end no hook saw is not made current any more: the driver would not survive that."""
    peer = use_device(server)
    take_lock(peer)
    assert start(lambda: submits_in(0x1100)).result() == 0
    DRIVER.spy_end(ctypes.c_void_p(0x1100))
    drain_synchronizes(peer, 0x1000)
    assert synchronized(0x1100) == 0


def context_found_at_a_closed_gate(server: LockServer) -> None:
    """The same in a thread that has submitted before, when it comes to a closed gate."""
    peer = use_device(server)
    take_lock(peer)
    assert launch(0) == 0
    peer.take_back()
    DRIVER.spy_make_current(ctypes.c_void_p(0x1100))
    assert begin_capture(STREAM) == 0
    assert launch(STREAM) == 0
    assert end_capture(STREAM) == 0
    take_lock(peer)
    drain_synchronizes(peer, 0x1100)


def context_made_current_is_synchronized(server: LockServer) -> None:
    """A context that no hook saw made, by every call that makes it current."""
    peer = use_device(server)
    for number, symbol in enumerate(("cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPushCurrent_v2")):
        context = 0x1100 + 0x10 * number

        def submit(symbol: str = symbol, context: int = context) -> int:
            assert launch(0) == 0
            DRIVER.spy_make_current(ctypes.c_void_p(context))
            assert call(symbol, context) == 0
            return launch(0)

        take_lock(peer)
        assert start(submit).result() == 0
        drain_synchronizes(peer, context)


def context_made_current_brings_its_device(server: LockServer) -> None:
    """A context that no hook saw made, on a device that was not used so far, is not taken for one of the first."""
    first = use_device(server)
    take_lock(first)

    def submit() -> int:
        assert call("cuCtxSetCurrent", 0x1101) == 0
        return launch(0)

    waiting = start(submit)
    second = server.accept()
    assert second.register.device_uuid == b"b" * 16
    second.expect_wanting()
    waiting.waits()
    second.grant()
    assert waiting.result() == 0


def primary_context_made_elsewhere_is_synchronized(server: LockServer) -> None:
    """One that no hook saw retained, as long as it has users."""
    peer = use_without_primary(server)
    take_lock(peer)
    DRIVER.spy_retain(0)
    drain_synchronizes(peer, 0x1000)
    assert call("cuDevicePrimaryCtxRelease_v2", 0) == 0
    take_lock(peer)
    before = synchronized(0x1000)
    peer.take_back()
    assert synchronized(0x1000) == before


def attached_context_outlives_its_detachment(server: LockServer) -> None:
    """A context has as many users as were attached, and one more."""
    peer = use_without_primary(server)
    context = create()
    attached = ctypes.c_void_p()
    assert DRIVER.cuCtxAttach(ctypes.byref(attached), 0) == 0
    assert attached.value == context
    assert call("cuCtxDetach", context) == 0
    take_lock(peer)
    drain_synchronizes(peer, context)
    assert call("cuCtxDetach", context) == 0
    take_lock(peer)
    before = synchronized(context)
    peer.take_back()
    assert synchronized(context) == before


def green_context_ends(server: LockServer) -> None:
    """The context that stands for a green one is not touched after the green one's end, and a drain waits for that."""
    peer = use_device(server)
    assert call("cuCtxSetCurrent", 0x1100) == 0
    take_lock(peer)
    drain_synchronizes(peer, 0x1100)
    drain_waits(peer, "cuGreenCtxDestroy", 0x1100)
    take_lock(peer)
    before = synchronized(0x1100)
    peer.take_back()
    assert synchronized(0x1100) == before


def context_that_is_never_found_is_told(server: LockServer) -> None:
    """Where something was submitted and no context is to be found, one line says so, once."""
    peer = use_without_primary(server)
    take_lock(peer)
    with tempfile.TemporaryFile() as errors:
        stderr = os.dup(2)
        os.dup2(errors.fileno(), 2)
        for _ in range(3):
            peer.take_back()
            take_lock(peer)
        os.dup2(stderr, 2)
        errors.seek(0)
        assert errors.read().count(b"in a context that the library has not seen") == 1


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
