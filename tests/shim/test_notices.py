"""What a process says of itself: once on stderr, and to every scheduler that knows such frames."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, silent

Start = Callable[..., ControlledProgram]
PEER_ACCESS = wire.Notice("peer access is on: kernels of one GPU may use another GPU without its lock")


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[FakeScheduler]:
    """Listens where the program looks."""
    with FakeScheduler(run_dir.client_socket) as fake:
        yield fake


@pytest.fixture
def program(start: Start) -> ControlledProgram:
    """One of them."""
    return start()


def enable_peer_access(program: ControlledProgram) -> None:
    """Lets the current context's kernels use another device's memory."""
    assert program.do("symbol cuCtxEnablePeerAccess 4097 0") == "0"


def test_said_again_to_the_next_scheduler(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """The first scheduler hears it when it happens, the next one when it registers the client; stderr has it once."""
    peer = scheduler.serve(program)
    enable_peer_access(program)
    assert peer.expect(wire.Notice) == PEER_ACCESS
    enable_peer_access(program)
    scheduler.die()
    scheduler.listen()
    again = scheduler.register(epoch=2)
    assert again.expect(wire.Notice) == PEER_ACCESS
    program.client_waits(again)
    assert sum(PEER_ACCESS.text in line for line in program.errors) == 1


def test_not_said_to_an_older_scheduler(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """One that does not know the frame does not get it."""
    assert program.do("use") == "0"
    peer = scheduler.accept()
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=0))
    enable_peer_access(program)
    program.said(PEER_ACCESS.text)
    program.begin("launch")
    assert peer.expect(wire.ReqLock) == wire.ReqLock()


def test_not_said_in_a_gang(start: Start, scheduler: FakeScheduler) -> None:
    """Whose GPU is held together with those of others reaches no GPU without its lock."""
    program = start(**{paths.GANG: "trainers"})
    peer = scheduler.serve(program)
    join = peer.expect(wire.Join)
    peer.send(wire.Joined(join.request))
    enable_peer_access(program)
    assert silent(peer, 0.1)
    assert not program.errors


def test_said_in_a_gang_without_a_scheduler_for_it(start: Start, scheduler: FakeScheduler) -> None:
    """One that knows no gangs holds nothing together."""
    program = start(**{paths.GANG: "trainers"})
    assert program.do("use") == "0"
    peer = scheduler.accept()
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=0))
    program.client_waits(peer)
    enable_peer_access(program)
    program.said(PEER_ACCESS.text)


def test_a_forked_child_says_what_it_does_itself(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """What its parent did is not said of a child."""
    parent = scheduler.serve(program)
    enable_peer_access(program)
    assert parent.expect(wire.Notice) == PEER_ACCESS
    pid = int(program.do("fork use"))
    try:
        child = scheduler.register(epoch=2)
        child.expect_wanting()
        child.grant()
        child.take_back()
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("access", "said"), [("1,1,3", True), ("1,0,3", False), ("1,1,0", False), ("2,1,3", False), ("1,0,3,1,1,1", True)]
)
def test_access_to_pools(program: ControlledProgram, scheduler: FakeScheduler, access: str, said: bool) -> None:
    """Another device may use a pool's memory: that is the same. Its own may, the host may, or no more: that is not."""
    peer = scheduler.serve(program)
    assert program.do(f"symbol cuMemPoolSetAccess 5 *{access} {access.count(',') // 2}") == "0"
    if said:
        assert peer.expect(wire.Notice) == PEER_ACCESS
    else:
        assert silent(peer, 0.1)
        assert not program.errors
