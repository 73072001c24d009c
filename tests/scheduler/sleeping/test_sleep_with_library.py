"""Real programs with the real library: they sleep when they are idle, and the next call wakes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.polling import poll_until
from tests.scheduler.situations import calls, opens
from tests.scheduler.sleeping.sleepy import CHECKPOINTED, OPTIONS, state_of
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler
from tests.shim.controlled_program import ControlledProgram

StartProgram = Callable[..., ControlledProgram]


@pytest.fixture
def small_devices(devices: dict[str, str]) -> dict[str, str]:
    """Of the programs that are started here: the same as everybody's."""
    return devices


def _is_checkpointed(program: ControlledProgram, devices: dict[str, str]) -> bool:
    return state_of(program.process.pid, devices) == CHECKPOINTED


def test_it_sleeps_and_works_on(
    serve: Callable[..., Scheduler], devices: dict[str, str], start_calling: StartProgram
) -> None:
    """As often as it is idle, whoever the scheduler is: the next one finds it asleep, and wakes it."""
    scheduler = serve(*OPTIONS, environment=devices)
    program = start_calling()
    opens(program)
    for turn in range(3):
        poll_until(lambda: _is_checkpointed(program, devices), "it sleeps", TIMEOUT_SECONDS)
        if turn == 1:
            scheduler.kill()
            scheduler = serve(*OPTIONS, environment=devices)
        calls(program, "cuCtxSynchronize")
    calls(program, "cuMemAlloc_v2 &memory 67108864", "cuMemsetD8_v2 memory 7 67108864", "cuCtxSynchronize")
