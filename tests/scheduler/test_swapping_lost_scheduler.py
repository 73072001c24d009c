"""The scheduler dies while a program's allocation waits for its answer: real programs, on a simulated GPU."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import Program, Serve, Start, ask, line, programs, tell
from tests.shim.thread_state import asleep, unread_in_pipe
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "4GiB", "--reserve", "32MiB")
GROWS = """
import sys
from tests.simgpu.device import Device, allocate, call
device = Device.open()
blocks = [allocate(300 << 20)]
device.fill(blocks[0], 1.0, 200)
call("cuCtxSynchronize")
print("written", flush=True)
sys.stdin.readline()
blocks.append(allocate(int(sys.argv[1]) << 20))
print("grown", flush=True)
device.fill(blocks[1], 2.0, 200)
assert [device.floats(block, 200) for block in blocks] == [[1.0] * 200, [2.0] * 200]
print("right", flush=True)
"""


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a program on a device that is full with two."""
    with programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield begin


def waits(program: Program) -> bool:
    """It has read what it was told and sleeps."""
    assert program.stdin is not None
    return not unread_in_pipe(program.stdin.buffer) and asleep(program.pid, program.pid)


def hears_of_the_death(program: Program) -> None:
    """Its client has said so."""
    assert program.stderr is not None
    assert any("lost the scheduler" in text for text in iter(program.stderr.readline, ""))


@pytest.mark.parametrize("holds", [True, False], ids=["holder", "other"])
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
def test_growth_whose_scheduler_dies(serve: Serve, start: Start, tmp_path: Path, holds: bool, seen: bool) -> None:
    """The next one is asked for what the driver has not; ``seen``: the program does without one for a while."""
    gpu = simgpu.environment(tmp_path / "simgpu", DEVICES)
    scheduler = serve(*SERVED, environment=gpu)
    first = start(700, 2, asked=True)
    assert line(first) == "written"
    grows = start(500, 1, script=GROWS)
    assert line(grows) == "written"
    if not holds:
        assert ask(first) == "round 0"
    poll_until(lambda: scheduler.states()[2] == ("holding" if holds else "idle"), "who holds is settled", 20)
    stop(scheduler.process.pid)
    tell(grows)
    poll_until(lambda: waits(grows), "the allocation waits", 20)
    scheduler.kill()
    if seen:
        hears_of_the_death(grows)
        poll_until(lambda: waits(grows), "the allocation waits without a scheduler", 20)
        assert grows.stdout is not None
        assert not select.select([grows.stdout], [], [], 0)[0]
    serve(*SERVED, environment=gpu)
    assert [line(grows), line(grows)] == ["grown", "right"]
    assert grows.wait(60) == 0
    first.communicate("\n\n", timeout=60)
    assert first.returncode == 0
