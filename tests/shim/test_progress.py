"""What a client says of how its work goes on: only to a scheduler that asks, and only while it holds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up, silent
from tests.shim.lock_server import Peer

SELDOM = 600_000_000
"""Microseconds: not in this test."""


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[FakeScheduler]:
    """Listens where the program looks."""
    with FakeScheduler(run_dir.client_socket) as fake:
        yield fake


@pytest.fixture
def program(children: Children) -> Iterator[ControlledProgram]:
    """A program with the counting driver and native memory."""
    controlled = ControlledProgram(children.environment | {paths.MEMORY: "native"})
    yield controlled
    controlled.end()


def reach_waiting(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """A launch waits."""
    peer = scheduler.serve(program)
    program.begin("launch")
    peer.expect(wire.ReqLock)
    return peer


def reach_holding(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """A launch has been let through."""
    peer = reach_waiting(program, scheduler)
    peer.grant()
    assert program.answer() == "0"
    return peer


def test_a_watched_turn(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """It says how far it is as the gate opens and when all has completed; what it submitted lies between the two."""
    peer = reach_waiting(program, scheduler)
    peer.send(wire.Watch(SELDOM))
    program.client_waits(peer)
    begun = time.monotonic_ns() // 1000
    peer.grant()
    opened = peer.expect(wire.Progress)
    assert program.answer() == "0"
    for _ in range(4):
        assert program.do("launch") == "0"
    peer.revoke()
    drained = peer.expect(wire.Progress)
    peer.expect(wire.LockReleased)
    assert drained.submissions - opened.submissions == 5
    assert begun <= opened.at_microseconds <= drained.at_microseconds <= time.monotonic_ns() // 1000


def test_in_intervals_while_it_holds(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """A holder that is asked says it at once and then again and again, idle or not; after the turn it says nothing."""
    peer = reach_holding(program, scheduler)
    peer.send(wire.Watch(20_000))
    first = peer.expect(wire.Progress)
    assert first.submissions == 1
    second, third = peer.expect(wire.Progress), peer.expect(wire.Progress)
    assert second.at_microseconds >= first.at_microseconds + 20_000
    assert third.at_microseconds >= second.at_microseconds + 20_000
    assert program.do("launch") == "0"
    peer.revoke()
    frame = peer.receive()
    while isinstance(frame, wire.Progress):
        last, frame = frame, peer.receive()
    assert frame == wire.LockReleased(1)
    assert last.submissions == 2
    assert silent(peer, 0.2)


def test_no_more(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """An interval of 0 ends it: then a turn is as that of one that was never watched."""
    peer = reach_holding(program, scheduler)
    peer.send(wire.Watch(SELDOM))
    peer.expect(wire.Progress)
    peer.send(wire.Watch(0))
    program.client_waits(peer)
    peer.take_back()
    program.begin("launch")
    peer.expect(wire.ReqLock)
    peer.grant()
    assert program.answer() == "0"
    peer.take_back()
    assert silent(peer, 0.1)


def test_no_flood(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """An interval that is too short for a thread of a program is taken for a longer one."""
    peer = reach_holding(program, scheduler)
    peer.send(wire.Watch(1))
    first, second = peer.expect(wire.Progress), peer.expect(wire.Progress)
    assert second.at_microseconds >= first.at_microseconds + 10_000


def test_the_next_scheduler_asks_for_itself(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """What one scheduler asked for is not said to the next one."""
    peer = reach_holding(program, scheduler)
    peer.send(wire.Watch(20_000))
    peer.expect(wire.Progress)
    scheduler.die()
    scheduler.listen()
    again = scheduler.register(epoch=2)
    assert again.register.state is wire.State.HOLDING
    program.client_waits(again)
    assert silent(again, 0.1)


def test_a_scheduler_that_can_not_ask(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """One that does not know the frame, by its level, is no scheduler when it sends it."""
    assert program.do("use") == "0"
    peer = scheduler.accept()
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=2))
    peer.send(wire.Watch(SELDOM))
    assert hung_up(peer)


def test_looks_are_counted(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """Pacing's looks at a driver whose work has always completed find nothing left to do."""
    peer = reach_holding(program, scheduler)
    peer.send(wire.Watch(SELDOM))
    before = peer.expect(wire.Progress)
    for _ in range(200):
        assert program.do("launch") == "0"
    peer.send(wire.Watch(SELDOM))
    after = peer.expect(wire.Progress)
    assert after.submissions - before.submissions == 200
    assert after.looks > before.looks
    assert after.empty_looks - before.empty_looks == after.looks - before.looks
