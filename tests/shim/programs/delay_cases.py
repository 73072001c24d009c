"""Cases of threads that stand still at unlucky moments, each in a fresh process: delay_cases.py NAME DELAYS.SO."""

from __future__ import annotations

import ctypes
import sys

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import (
    OTHER_STREAM,
    STREAM,
    Calling,
    begin_capture,
    end_capture,
    launch,
    start,
    take_lock,
    use_device,
)
from tests.shim.thread_state import asleep

DELAYS = ctypes.CDLL(sys.argv[2])


def stands() -> bool:
    """Whether the thread stands still that was told to."""
    return bool(DELAYS.delay_stands())


def a_turn_between_the_wish_and_the_sleep(server: LockServer) -> None:
    """A thread that has asked for the lock and loses the processor is not forgotten when a whole turn passes."""
    peer = use_device(server)

    def launch_slowly() -> int:
        DELAYS.delay_behind_wake()
        return launch(STREAM)

    launched = start(launch_slowly)
    peer.expect(wire.ReqLock)
    poll_until(stands, "the thread has asked and does not go on")
    peer.grant()
    peer.take_back()
    DELAYS.delay_ends()
    peer.expect(wire.ReqLock)
    peer.grant()
    assert launched.result() == 0


def capture_begins_while_the_gate_closes(server: LockServer, before_lock: int) -> None:
    """A capture begins, and needs another thread's launch to end, while a drain begins: both get through.

    The drain stands still before one of its locks.
    """
    peer = use_device(server)
    take_lock(peer)
    DELAYS.delay_before_lock(before_lock)
    peer.revoke()
    poll_until(stands, "the drain does not go on")
    launched = start(lambda: launch(OTHER_STREAM))
    comes_to_rest(launched)

    def capture() -> int:
        return begin_capture(STREAM) or launched.result() or end_capture(STREAM)

    captured = start(capture)
    comes_to_rest(captured)
    DELAYS.delay_ends()
    peer.expect(wire.LockReleased)
    if launched.thread.is_alive():
        peer.expect(wire.ReqLock)
        peer.grant()
    assert captured.result() == launched.result() == 0


def comes_to_rest(calling: Calling) -> None:
    """Waits until it has returned, or waits in a call or for another one."""
    poll_until(lambda: not calling.thread.is_alive() or stands_still(calling), "the thread comes to rest")


def stands_still(calling: Calling) -> bool:
    """It sleeps."""
    return calling.caller.calls > 0 and bool(calling.thread.native_id) and asleep("self", calling.thread.native_id or 0)


def capture_begins_before_the_gate_is_closing(server: LockServer) -> None:
    """As above, before the drain's first lock."""
    capture_begins_while_the_gate_closes(server, 1)


def capture_begins_when_the_gate_is_closing(server: LockServer) -> None:
    """As above, before its second lock."""
    capture_begins_while_the_gate_closes(server, 2)


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
