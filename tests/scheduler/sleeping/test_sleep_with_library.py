"""Real programs with the real library: they sleep when they are idle, and the next call wakes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nvshare.scheduler.core.sleep.sharing import LEAST_BYTES
from tests.polling import poll_until
from tests.scheduler.situations import MIB, allocates, calls, opens
from tests.scheduler.sleeping.sleepy import CHECKPOINTED, OPTIONS, state_of
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler
from tests.shim.controlled_program import ControlledProgram

SIZE = 96 * MIB
"""Of one program's data: host memory has room for two."""

CONTEXT = 600 * MIB
"""Of each program, as ``devices`` has it."""

ROUNDS = 5
"""That each program that computes all the time has at least."""

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
            # What its context took when it was measured.
            ((*_process, size),) = json.loads(scheduler.run_dir.contexts.read_text())
            assert size == CONTEXT
        calls(program, "cuCtxSynchronize")
    calls(program, "cuMemAlloc_v2 &memory 67108864", "cuMemsetD8_v2 memory 7 67108864", "cuCtxSynchronize")


def test_more_data_than_host_memory(
    serve: Callable[..., Scheduler], devices: dict[str, str], start_calling: StartProgram, tmp_path: Path
) -> None:
    """It goes to files and comes back as it was, whoever the scheduler is."""
    options = (*OPTIONS, "--host-memory", "352MiB", "--swap-dir", str(tmp_path), "--swap-size", "1GiB")
    scheduler = serve(*options, environment=devices)
    programs = [start_calling() for _ in range(3)]
    for seed, program in enumerate(programs):
        opens(program)
        allocates(program, "data", SIZE, seed)
        _sleeps(program, devices)
    _has_files(scheduler)
    _are_right(programs)
    scheduler.kill()
    scheduler = serve(*options, environment=devices)
    _has_files(scheduler)
    _are_right(programs)
    assert not [line for line in scheduler.log() if line["level"] == "error"]


def test_programs_that_are_never_idle(
    serve: Callable[..., Scheduler], devices: dict[str, str], start_calling: StartProgram
) -> None:
    """Four compute all the time where three contexts fit: each has its turns, for which others sleep."""
    scheduler = serve("--quantum", "1", environment=devices)
    programs = [start_calling() for _ in range(4)]
    for seed, program in enumerate(programs):
        opens(program)
        allocates(program, "data", SIZE, seed)
    before, rounds, failed = _slept(scheduler), [0] * len(programs), threading.Event()

    def compute(seed: int) -> None:
        while not failed.is_set() and (min(rounds) < ROUNDS or _slept(scheduler) < before + len(programs)):
            programs[seed].begin(f"wrong data {SIZE} {seed}")
            # On a busy machine three others have their turns, and sleep, before it has its own.
            if not programs[seed].answered(3 * TIMEOUT_SECONDS) or programs[seed].answer() != "0":
                failed.set()
            rounds[seed] += 1

    with ThreadPoolExecutor(len(programs)) as pool:
        for done in [pool.submit(compute, seed) for seed in range(len(programs))]:
            done.result(timeout=4 * TIMEOUT_SECONDS)
    assert not failed.is_set(), f"no answer, or a wrong one, after so many rounds of each: {rounds}"


def _slept(scheduler: Scheduler) -> int:
    return sum(client.sleeps for device in scheduler.status().devices for client in device.clients)


def test_equal_data_is_kept_once(
    serve: Callable[..., Scheduler], devices: dict[str, str], start_calling: StartProgram
) -> None:
    """Of four programs, and comes back as it was, whoever the scheduler is."""
    options = (*OPTIONS, "--host-memory", "704MiB")
    scheduler = serve(*options, environment=devices)
    programs = [start_calling() for _ in range(4)]
    for number, program in enumerate(programs):
        opens(program)
        allocates(program, "data", SIZE, 7)
        _sleeps(program, devices)
        if number >= 2:
            _have_in_packs(scheduler, number + 1)
    assert scheduler.status().packs_bytes == SIZE
    for program in programs:
        assert program.do(f"wrong data {SIZE} 7") == "0"
    # While one of them is awake there may be room for a smaller pack alone.
    _have_in_packs(scheduler, 3, LEAST_BYTES)
    scheduler.kill()
    scheduler = serve(*options, environment=devices)
    _have_in_packs(scheduler, 3, LEAST_BYTES)
    for program in programs:
        assert program.do(f"wrong data {SIZE} 7") == "0"
    assert not [line for line in scheduler.log() if line["level"] == "error"]


def _have_in_packs(scheduler: Scheduler, count: int, size: int = SIZE) -> None:
    """So many have so much of their data there."""
    poll_until(lambda: scheduler.status().shared_blocks_bytes >= count * size, "it is in a pack", TIMEOUT_SECONDS)


def _sleeps(program: ControlledProgram, devices: dict[str, str]) -> None:
    poll_until(lambda: _is_checkpointed(program, devices), "it sleeps", TIMEOUT_SECONDS)


def _has_files(scheduler: Scheduler) -> None:
    poll_until(lambda: scheduler.status().swap_file_used_bytes, "some data is in a file", TIMEOUT_SECONDS)


def _are_right(programs: list[ControlledProgram]) -> None:
    for seed, program in enumerate(programs):
        _is_right(program, seed)


def _is_right(program: ControlledProgram, seed: int) -> None:
    assert program.do(f"wrong data {SIZE} {seed}") == "0"
