"""What a program that waits for long says on its stderr."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler


@pytest.fixture
def program(children: Children) -> Iterator[ControlledProgram]:
    """A program with the counting driver that says at once what it says otherwise when it lasts."""
    controlled = ControlledProgram(children.environment | {paths.MEMORY: "native", "NVSHARE_DEBUG": "1"})
    yield controlled
    controlled.end()


def test_reason_of_the_scheduler(program: ControlledProgram, run_dir: paths.RunDir) -> None:
    """The scheduler is asked why, and its answer is shown, without what would be an order to the terminal."""
    with FakeScheduler(run_dir.client_socket) as scheduler:
        peer = scheduler.serve(program)
        program.said("SCHED_ON: link up")
        program.begin("launch")
        peer.expect(wire.ReqLock)
        peer.expect(wire.AskReason)
        peer.send(wire.Reason("behind pid 7 \x1b[2J"))
        assert "for the lock: behind pid 7 ?[2J" in program.said("threads have waited")
        peer.grant()
        assert program.answer() == "0"


def test_no_scheduler(program: ControlledProgram, run_dir: paths.RunDir) -> None:
    """Without a scheduler, the line names its socket."""
    program.do("use")
    program.begin("launch")
    assert str(run_dir.client_socket) in program.said("there is no scheduler at")
    with FakeScheduler(run_dir.client_socket) as late:
        late.register().grant()
        assert program.answer() == "0"
