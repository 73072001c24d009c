"""Programs whose stderr nobody reads: what the library has to say must not do them harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler

Start = Callable[..., ControlledProgram]


def test_its_end_is_none_of_the_program(start: Start, fake_scheduler: FakeScheduler) -> None:
    """A line of ours ends no program that SIGPIPE would end, and leaves no signal behind."""
    program = start(**{paths.SINGLE_OVERSUB: "perhaps"})
    program.do("end_by_sigpipe")
    program.do("lose_stderr gone")
    peer = fake_scheduler.serve(program)
    program.begin("launch")
    peer.expect_wanting()
    peer.grant()
    assert program.answer() == "0"


@pytest.mark.parametrize("reader", ["gone", "idle"])
def test_client_goes_on(start: Start, fake_scheduler: FakeScheduler, reader: str) -> None:
    """A client that can't say that it lost the scheduler comes back to the next one all the same."""
    program = start()
    peer = fake_scheduler.serve(program)
    program.begin("launch")
    peer.expect_wanting()
    peer.grant()
    assert program.answer() == "0"
    program.do(f"lose_stderr {reader}")
    fake_scheduler.die()
    fake_scheduler.listen()
    assert fake_scheduler.register(epoch=2).register.state is wire.State.HOLDING
