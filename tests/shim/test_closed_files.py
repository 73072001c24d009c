"""Programs that close every descriptor, or put their own files in the place of those that they don't know."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

import pytest

from nvshare.protocol import wire
from tests.closing import CLOSERS
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.lock_server import Peer

Start = Callable[..., ControlledProgram]

LOST = "this program closed the connection to the scheduler"
WAYS = [*(f"close_all {way}" for way in CLOSERS if way != "cloexec"), "take_places file", "take_places socket"]


def holding(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """A launch was let through."""
    peer = scheduler.serve(program)
    program.do("beside launch")
    peer.expect_wanting()
    peer.grant()
    assert program.do("joined") == "0"
    return peer


def back(program: ControlledProgram, scheduler: FakeScheduler, peer: Peer) -> Peer:
    """The client, once it has come back, with the grants that it had.

    Where it sleeps on a socket whose number is another file's now, the scheduler's next word shows it that.
    """
    with contextlib.suppress(BrokenPipeError):
        peer.revoke()
    assert hung_up(peer)
    after = scheduler.register()
    after.grants = peer.grants
    program.said(LOST)
    return after


@pytest.mark.parametrize("way", WAYS)
def test_idle(start: Start, fake_scheduler: FakeScheduler, way: str) -> None:
    """Who has the GPU no more comes back, and is granted it when it needs it."""
    program = start()
    peer = holding(program, fake_scheduler)
    peer.take_back()
    assert int(program.do(way)) >= 3
    peer = back(program, fake_scheduler, peer)
    assert peer.register.state is wire.State.IDLE
    program.begin("launch")
    peer.expect_wanting()
    peer.grant()
    assert program.answer() == "0"
    assert program.do("altered") == ""


@pytest.mark.parametrize("way", WAYS)
def test_waiting(start: Start, fake_scheduler: FakeScheduler, way: str) -> None:
    """A launch that waits is not forgotten."""
    program = start()
    peer = holding(program, fake_scheduler)
    peer.take_back()
    program.do("beside launch")
    peer.expect(wire.ReqLock)
    program.do(way)
    peer = back(program, fake_scheduler, peer)
    assert peer.register.state is wire.State.WAITING
    peer.grant()
    assert program.do("joined") == "0"
    assert program.do("altered") == ""


@pytest.mark.parametrize("way", WAYS)
def test_holding(start: Start, fake_scheduler: FakeScheduler, way: str) -> None:
    """Who holds goes on meanwhile, says that it holds, and gives back what it is asked for."""
    program = start()
    peer = holding(program, fake_scheduler)
    program.do(way)
    assert program.do("launch") == "0"
    peer = back(program, fake_scheduler, peer)
    assert (peer.register.state, peer.register.grant) == (wire.State.HOLDING, 1)
    peer.take_back()
    assert program.do("altered") == ""


def test_again_and_again(start: Start, fake_scheduler: FakeScheduler) -> None:
    """Every connection may be closed, and what the program has at the numbers stays its own each time."""
    program = start()
    peer = holding(program, fake_scheduler)
    for way in WAYS * 2:
        program.do(way)
        peer = back(program, fake_scheduler, peer)
        assert program.do("launch") == "0"
        assert program.do("altered") == ""


def test_before_there_is_a_scheduler(start: Start, fake_scheduler: FakeScheduler) -> None:
    """Who waits for one, and closes what will wake it, is woken none the less."""
    fake_scheduler.die()
    program = start()
    assert program.do("use") == "0"
    program.do("close_all close_range")
    program.do("beside launch")
    program.said("no scheduler at")
    fake_scheduler.listen()
    peer = fake_scheduler.register()
    assert peer.register.state is wire.State.WAITING
    peer.grant()
    assert program.do("joined") == "0"


def test_cloexec_changes_nothing(start: Start, fake_scheduler: FakeScheduler) -> None:
    """What is to be closed by exec was so before."""
    program = start()
    peer = holding(program, fake_scheduler)
    program.do("close_all cloexec")
    peer.take_back()
    program.begin("launch")
    peer.expect(wire.ReqLock)
    peer.grant()
    assert program.answer() == "0"


@pytest.mark.parametrize("way", [way for way in CLOSERS if way != "cloexec"])
def test_daemon(start: Start, fake_scheduler: FakeScheduler, way: str) -> None:
    """A daemon's double fork with its loop, before it uses the GPU and after: a client of its own."""
    program = start()
    parent = holding(program, fake_scheduler)
    parent.take_back()
    daemon = int(program.do(f"fork_daemon {way}"))
    try:
        poll_until(lambda: served(fake_scheduler, daemon), "the daemon has the lock")
    finally:
        os.kill(daemon, signal.SIGKILL)
    program.begin("launch")
    parent.expect(wire.ReqLock)
    parent.grant()
    assert program.answer() == "0"


def served(scheduler: FakeScheduler, pid: int) -> bool:
    """The next client is that process, and has been given the lock; false: it closed that connection, too."""
    with contextlib.suppress(ConnectionError):
        peer = scheduler.register()
        assert peer.register.pid == pid
        peer.expect_wanting()
        peer.grant()
        return True
    return False
