"""Cases of pacing in the whole library, each in a fresh process: pacing_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import os
import sys

from nvshare.protocol import wire
from nvshare.protocol.gang import head
from tests.polling import poll_until
from tests.shim.gang_scheduler import page_file, send_page
from tests.shim.lock_server import TIMEOUT, LockServer
from tests.shim.programs.driver_calls import (
    DRIVER,
    STREAM,
    begin_capture,
    call,
    count,
    end_capture,
    enters,
    hold,
    launch,
    retain,
    start,
    take_lock,
    use_device,
)

FIRST_WINDOW = 8
"""Launches that may be queued before any of them has completed."""
SHORT_WINDOW = 2
"""And when the device has to be shared."""
GANG_WINDOW = 256
"""And by a member of a gang when the device has to be shared, however short the kernels are."""
SELDOM = 600_000_000
"""Microseconds: not in a case."""


def launch_many() -> int:
    """Enough to be looked after several times; the number of those that failed."""
    return sum(launch(STREAM) != 0 for _ in range(300))


def make_context() -> int:
    """A context beside the device's primary one."""
    context = ctypes.c_void_p()
    assert DRIVER.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    return context.value or 0


def held_back_while_too_much_is_queued(server: LockServer) -> None:
    """A program whose launches don't complete goes on when some do."""
    take_lock(use_device(server))
    DRIVER.spy_busy(ctypes.c_bool(True))
    before = count("cuLaunchKernel")
    launching = start(launch_many)
    launching.waits()
    assert 0 < count("cuLaunchKernel") - before <= FIRST_WINDOW
    DRIVER.spy_busy(ctypes.c_bool(False))
    assert launching.result() == 0


def held_back_sooner_by_who_has_to_share(server: LockServer) -> None:
    """Of a program that had to give the lock to another one, one kernel runs and one is queued."""
    peer = use_device(server)
    take_lock(peer)
    peer.take_back()
    again = start(lambda: launch(STREAM))
    peer.expect_wanting()
    peer.grant()
    assert again.result() == 0
    DRIVER.spy_busy(ctypes.c_bool(True))
    before = count("cuLaunchKernel")
    launching = start(launch_many)
    launching.waits()
    assert 0 < count("cuLaunchKernel") - before <= SHORT_WINDOW
    DRIVER.spy_busy(ctypes.c_bool(False))
    assert launching.result() == 0


def queued_at_most() -> int:
    """How many launches pass while none completes."""
    DRIVER.spy_busy(ctypes.c_bool(True))
    before = count("cuLaunchKernel")
    launching = start(launch_many)
    launching.waits()
    passed = count("cuLaunchKernel") - before
    DRIVER.spy_busy(ctypes.c_bool(False))
    assert launching.result() == 0
    return passed


def told_while_it_waits_that_all_run_together(server: LockServer) -> None:
    """Who had to share, and is told that all hold at the same time now, queues as much as one alone."""
    peer = use_device(server)
    take_lock(peer)
    peer.take_back()
    again = start(lambda: launch(STREAM))
    peer.expect_wanting()
    peer.send(wire.Watch(SELDOM, together=1))
    peer.grant()
    assert again.result() == 0
    assert SHORT_WINDOW < queued_at_most() <= FIRST_WINDOW


def told_while_it_holds_that_all_run_together(server: LockServer) -> None:
    """The same of one that holds already."""
    peer = use_device(server)
    take_lock(peer)
    peer.take_back()
    again = start(lambda: launch(STREAM))
    peer.expect_wanting()
    peer.grant()
    assert again.result() == 0
    again.ends()
    peer.send(wire.Watch(SELDOM, together=1))
    peer.expect(wire.Progress)
    # What one thread has learned while it had to share, the next one begins with: until something has completed.
    start(lambda: launch(STREAM)).ends()
    assert SHORT_WINDOW < queued_at_most() <= FIRST_WINDOW


def most_ahead() -> int:
    """How many of many launches on a slow device had not completed at most."""
    DRIVER.spy_most_ahead()
    assert sum(launch(STREAM) != 0 for _ in range(3000)) == 0
    return int(DRIVER.spy_most_ahead())


def not_far_ahead_as_a_member_of_a_gang(server: LockServer) -> None:
    """Others may have to submit as much before all can leave: it is so from when it becomes one to when it is none."""
    peer = use_device(server)
    take_lock(peer)
    peer.send(wire.Waiters(1, SELDOM))
    DRIVER.spy_slow()
    poll_until(lambda: most_ahead() > 2 * GANG_WINDOW, "alone it goes far ahead", timeout=TIMEOUT)
    page = page_file()
    os.pwrite(page, head(2), 0)
    send_page(peer, page, 0, 2)
    # Once could be by chance: who is interrupted for long is not far ahead either for a while.
    poll_until(lambda: max(most_ahead() for _ in range(20)) <= GANG_WINDOW, "it does not any more", timeout=TIMEOUT)
    peer.connection.close()
    peer = server.accept()
    peer.send(wire.Waiters(1, SELDOM))
    peer.send(wire.Watch(SELDOM))
    # Now it has heard that somebody waits.
    peer.expect(wire.Progress)
    poll_until(lambda: most_ahead() > 2 * GANG_WINDOW, "of no gang it does again", timeout=TIMEOUT)


def events_are_kept_when_other_contexts_end(server: LockServer) -> None:
    """Nor are they made anew when a primary context is given back by one of its users, and goes on."""
    take_lock(use_device(server))
    assert launch_many() == 0
    made = count("cuEventCreate")
    assert made > 0
    for _ in range(100):
        assert call("cuCtxDestroy_v2", make_context()) == 0
        retain()
        assert call("cuDevicePrimaryCtxRelease_v2", 0) == 0
        call("cuCtxSetCurrent", 0x1000)
        assert launch_many() == 0
    assert count("cuEventCreate") == made
    assert count("cuEventDestroy_v2") == 0


def looks_in_relaxed_mode_after_the_first_capture(server: LockServer) -> None:
    """Pacing changes the capture mode around its questions, and gives it back, once a capture has ever begun."""
    take_lock(use_device(server))
    assert launch_many() == 0
    assert count("cuEventRecord") > 0
    assert count("cuThreadExchangeStreamCaptureMode") == 0
    assert begin_capture(STREAM) == end_capture(STREAM) == 0
    looked = count("cuEventRecord")
    assert launch_many() == 0
    assert count("cuEventRecord") > looked
    assert count("cuThreadExchangeStreamCaptureMode") == 2 * (count("cuEventRecord") - looked)


def first_capture_waits_for_questions(server: LockServer) -> None:
    """A thread that asks about an event in its own mode has its answer before the first capture begins.

    The driver would end the capture.
    """
    take_lock(use_device(server))
    hold("cuEventQuery")
    asking = enters("cuEventQuery", launch_many)
    capture = start(lambda: begin_capture(STREAM))
    capture.waits()
    assert count("cuStreamBeginCapture_v2") == 0
    hold(None)
    assert capture.result() == asking.result() == 0


def end_of_a_context_waits_for_questions(server: LockServer) -> None:
    """A thread that asks about an event has its answer before the event can be gone with its context."""
    take_lock(use_device(server))
    for end, argument in (("cuCtxDestroy_v2", make_context()), ("cuDevicePrimaryCtxRelease_v2", 0)):
        before = count(end)
        hold("cuEventQuery")
        asking = enters("cuEventQuery", launch_many)
        ending = start(lambda end=end, argument=argument: call(end, argument))  # type: ignore[misc]
        ending.waits()
        assert count(end) == before
        hold(None)
        assert ending.result() == asking.result() == 0
        assert count(end) == before + 1


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
