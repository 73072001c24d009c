"""Cases of captures, each in a fresh process: capture_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import sys

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import (
    DRIVER,
    OTHER_STREAM,
    STREAM,
    begin_capture,
    call,
    count,
    end_capture,
    enters,
    fail,
    hold,
    launch,
    start,
    take_lock,
    use_device,
)
from tests.shim.thread_state import client_waits


def capture_without_lock(server: LockServer) -> None:
    """A capture needs no lock; other streams and the launch of the graph do."""
    peer = use_device(server)
    assert begin_capture(STREAM) == 0
    assert launch(STREAM) == 0
    other = start(lambda: launch(OTHER_STREAM))
    peer.expect(wire.ReqLock)
    assert launch(STREAM) == 0
    assert end_capture(STREAM) == 0
    graph = start(lambda: call("cuGraphLaunch", 0, STREAM))
    other.waits()
    graph.waits()
    peer.grant()
    assert other.result() == graph.result() == 0


def revoked_while_capturing(server: LockServer) -> None:
    """The drain waits for the capture's end without synchronizing, and everything passes until then."""
    peer = use_device(server)
    take_lock(peer)
    assert begin_capture(STREAM) == 0
    peer.revoke()
    client_waits(peer)
    for _ in range(100):
        assert launch(STREAM) == 0
        assert start(lambda: launch(OTHER_STREAM)).result() == 0
    assert begin_capture(OTHER_STREAM) == 0
    assert end_capture(OTHER_STREAM) == 0
    client_waits(peer)
    assert count("cuCtxSynchronize") == 0
    assert end_capture(STREAM) == 0
    peer.expect(wire.LockReleased)
    assert count("cuCtxSynchronize") == 1


def capture_waits_for_synchronization(server: LockServer) -> None:
    """No capture begins while the drain synchronizes: the driver would end it with an error."""
    peer = use_device(server)
    take_lock(peer)
    hold("cuCtxSynchronize")
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize") == 1, "the drain synchronizes")
    capture = start(lambda: begin_capture(STREAM))
    waiting = start(lambda: launch(OTHER_STREAM))
    capture.waits()
    assert count("cuStreamBeginCapture_v2") == 0
    hold(None)
    peer.expect(wire.LockReleased)
    assert capture.result() == 0
    waiting.waits()


def capture_ends_with_its_stream(server: LockServer) -> None:
    """Whoever destroys a stream ends its capture; a destruction that fails does not."""
    peer = use_device(server)
    for symbol in ("cuStreamDestroy", "cuStreamDestroy_v2"):
        take_lock(peer)
        assert begin_capture(STREAM) == 0
        peer.revoke()
        fail(symbol)
        assert call(symbol, STREAM) != 0
        client_waits(peer)
        fail(None)
        DRIVER.spy_capture(None)
        assert call(symbol, STREAM) == 0
        peer.expect(wire.LockReleased)


def capture_that_fails_to_begin(server: LockServer) -> None:
    """The driver refuses to begin: no capture goes on."""
    peer = use_device(server)
    take_lock(peer)
    fail("cuStreamBeginCapture_v2")
    assert call("cuStreamBeginCapture_v2", STREAM, 0) != 0
    peer.take_back()


def capture_ends_with_its_thread(server: LockServer) -> None:
    """What a thread captures in its own default stream ends with it; what another thread does goes on."""
    peer = use_device(server)
    take_lock(peer)
    assert call("cuStreamBeginCapture_v2_ptsz", 0, 0) == 0
    other = start(lambda: call("cuStreamBeginCapture_v2_ptsz", 0, 0))
    assert other.result() == 0
    other.ends()
    peer.revoke()
    client_waits(peer)
    assert call("cuStreamEndCapture_ptsz", 0, 0) == 0
    peer.expect(wire.LockReleased)


def end_of_capture_waits_for_captured_calls(server: LockServer) -> None:
    """A call that passed the closed gate because it is captured ends before the capture, so it is never submitted."""
    use_device(server)
    for symbol, arguments in (
        ("cuStreamEndCapture", (STREAM, 0)),
        ("cuStreamDestroy", (STREAM,)),
        ("cuStreamDestroy_v2", (STREAM,)),
    ):
        assert begin_capture(STREAM) == 0
        hold("cuLaunchKernel")
        captured = enters("cuLaunchKernel", lambda: launch(STREAM))
        ending = start(lambda symbol=symbol, arguments=arguments: call(symbol, *arguments))
        ending.waits()
        assert count(symbol) == 0
        DRIVER.spy_capture(None)
        hold(None)
        assert captured.result() == ending.result() == 0


def call_waits_for_the_end_of_its_capture(server: LockServer) -> None:
    """While the driver ends a capture, a call of its stream does not pass the closed gate as captured."""
    peer = use_device(server)
    assert begin_capture(STREAM) == 0
    hold("cuStreamEndCapture")
    ending = enters("cuStreamEndCapture", lambda: call("cuStreamEndCapture", STREAM, 0))
    late = start(lambda: launch(STREAM))
    late.waits()
    DRIVER.spy_capture(None)
    hold(None)
    assert ending.result() == 0
    peer.expect(wire.ReqLock)
    late.waits()
    assert count("cuLaunchKernel") == 0
    peer.grant()
    assert late.result() == 0


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
