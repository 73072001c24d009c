"""Programs with more memory than the device: the real scheduler and the real library on a simulated GPU."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import RunDir
from nvshare.simgpu import record, transfers
from nvshare.simgpu.turns import overlaps
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import (
    CHUNK,
    MIB,
    Program,
    Serve,
    Start,
    ask,
    device,
    ends_well,
    line,
    programs,
    swapped_bytes,
)
from tests.scheduler.wire_client import Scheduler
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "2x1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "6GiB", "--reserve", "32MiB")


@pytest.fixture
def served(serve: Serve, tmp_path: Path) -> Callable[[], Scheduler]:
    """Starts a scheduler that sees the simulated GPUs."""
    seen = simgpu.environment(tmp_path / "simgpu", DEVICES)
    return lambda *options: serve(*SERVED, *options, environment=seen)  # type: ignore[misc]


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a program with so many MiB that does so many rounds; ``asked``: each when it is told to."""
    with programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield begin


def test_two_programs_of_three_quarters(served: Serve, start: Start, tmp_path: Path) -> None:
    """They take turns, each finds its memory as it was, and never does one run beside the other."""
    served()
    several = [start(700, 5) for _ in range(2)]
    ends_well(*several)
    assert overlaps(record.read(tmp_path / "simgpu", 0)) == []


def test_four_programs_on_two_devices(serve: Serve, start: Start, tmp_path: Path) -> None:
    """Two on each; what is swapped on one device is of no concern to the other."""
    serve(*SERVED)
    ends_well(*[start(600, 3, ordinal) for ordinal in (0, 1, 0, 1)])
    assert [overlaps(record.read(tmp_path / "simgpu", ordinal)) for ordinal in (0, 1)] == [[], []]


def test_four_times_the_device(served: Serve, start: Start) -> None:
    """Eight programs of half of the device each."""
    served("--policy", "exclusive")
    ends_well(*[start(450, 2) for _ in range(8)])


def test_an_idle_program_makes_room_and_comes_back(serve: Serve, start: Start) -> None:
    """Its memory goes out for another's, and is what it was when it goes on."""
    scheduler = serve(*SERVED)
    idle = start(700, 3, asked=True)
    assert line(idle) == "written"
    busy = start(700, 3, asked=True)
    assert line(busy) == "written"
    poll_until(lambda: swapped_bytes(scheduler) >= 300 * MIB, "the idle one was pushed out", 20)
    assert ask(idle) == "round 0"
    assert ask(busy) == "round 0"
    assert [ask(idle), ask(busy), ask(idle), ask(busy)] == ["round 1", "round 1", "round 2", "round 2"]
    ends_well(idle, busy)


def test_scheduler_is_killed_again_and_again(served: Serve, start: Start, tmp_path: Path) -> None:
    """In whatever step of a transfer that is."""
    scheduler = served()
    # So much that none has ended before the last kill, even where one began long before the others.
    several = [start(700, 72) for _ in range(3)]
    for _ in range(3):
        poll_until(lambda scheduler=scheduler: swapped_bytes(scheduler) > 0, "something is out", 30)  # type: ignore[misc]
        scheduler.kill()
        scheduler = served()
    ends_well(*several)
    assert overlaps(transfers.work(record.read(tmp_path / "simgpu", 0))) == []


@pytest.mark.parametrize("way", ["leaving_bytes", "coming_bytes"])
def test_neighbour_is_killed(serve: Serve, start: Start, way: str) -> None:
    """In the middle of a transfer: what it had is free again, and those who are left go on."""
    scheduler = serve(*SERVED)
    stays = start(700, 80)
    neighbour = start(700, 1000)
    assert line(neighbour) == "written"

    def moves() -> bool:
        return any(
            getattr(client.swap, way) > CHUNK
            for each in scheduler.status().devices
            for client in each.clients
            if client.pid == neighbour.pid
        )

    poll_until(moves, way, 60)
    neighbour.kill()
    neighbour.wait()
    ends_well(stays)


def test_holder_is_stopped(serve: Serve, start: Start) -> None:
    """Its memory can't leave: who fits beside it goes on, who does not waits until it runs again."""
    scheduler = serve(*SERVED, "--grace", "1")
    stopped = start(600, 30)
    assert line(stopped) == "written"
    stop(stopped.pid)
    waits = start(600, 1)
    poll_until(
        lambda: any(client.state == "unresponsive" for client in device(scheduler).clients), "it has not left", 60
    )
    ends_well(start(20, 2))
    assert waits.poll() is None
    stopped.send_signal(signal.SIGCONT)
    ends_well(stopped, waits)


def cpu_ticks(program: Program) -> int:
    """Processor time of all its threads so far."""
    fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_who_is_out_costs_no_processor(serve: Serve, start: Start) -> None:
    """While another works for rounds on end."""
    scheduler = serve(*SERVED)
    idle, busy = [start(600, 1, asked=True), start(600, 20, asked=True)]
    assert [line(idle), line(busy)] == ["written", "written"]
    assert ask(busy) == "round 0"
    poll_until(
        lambda: all(client.swap.usable_host_bytes == client.swap.host_bytes for client in device(scheduler).clients),
        "host memory is registered",
        30,
    )
    before = cpu_ticks(idle)
    for done in range(1, 20):
        assert ask(busy) == f"round {done}"
    assert cpu_ticks(idle) - before <= 2
    assert ask(idle) == "round 0"
    ends_well(idle, busy)


def test_no_host_memory(serve: Serve, start: Start) -> None:
    """An allocation that could never be served beside the others is refused at once; nobody else hears of it."""
    serve("--quantum", "0.3", "--host-memory", "64MiB", "--reserve", "32MiB")
    first = start(700, 6, asked=True)
    assert line(first) == "written"
    second = start(700, 6)
    _, errors = second.communicate(timeout=60)
    assert second.returncode != 0
    assert "CUDA_ERROR_OUT_OF_MEMORY" in errors
    assert "host memory to swap" in errors
    assert ask(first) == "round 0"
    first.communicate("\n" * 5, timeout=60)
    assert first.returncode == 0


def test_eight_start_at_once_on_a_full_device(served: Serve, start: Start) -> None:
    """A context needs room that nobody asks for: it is made before the driver is called."""
    scheduler = served()
    full = [start(450, 2, asked=True) for _ in range(2)]
    assert [line(program) for program in full] == ["written"] * 2
    many = [start(64, 2) for _ in range(8)]
    ends_well(*many)
    assert len(device(scheduler).clients) >= 2
    for program in full:
        program.communicate("\n" * 2, timeout=60)
        assert program.returncode == 0


def test_program_itself_needs_no_memory_for_what_is_out(serve: Serve, start: Start) -> None:
    """The pages are the scheduler's: a pod's memory limit has nothing to do with them."""
    scheduler = serve(*SERVED)
    idle = start(700, 1, asked=True)
    assert line(idle) == "written"

    def anonymous() -> int:
        text = Path(f"/proc/{idle.pid}/status").read_text()
        return int(text.partition("RssAnon:")[2].split()[0]) << 10

    before = anonymous()
    busy = start(700, 1, asked=True)
    assert line(busy) == "written"
    poll_until(lambda: swapped_bytes(scheduler) >= 300 * MIB, "the idle one was pushed out", 20)
    assert anonymous() - before < 50 * MIB
    assert ask(idle) == "round 0"
    assert ask(busy) == "round 0"
    ends_well(idle, busy)
