"""Scheduler, leaver and comer are killed in each step of a hand-over: real programs, a slow simulated bus.

The *leaver* has its memory on the device, and some of it has to leave for the *comer*. Whoever is left finds its memory
as it was, and of the dead nothing stays: neither host memory nor device memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nvshare import simgpu
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.simgpu import record, transfers
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import CHUNK, Program, Serve, Start, ends_well, line, programs, tell
from tests.scheduler.wire_client import Scheduler
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "512MiB/32MiB@100MB/s"
"""A chunk takes 0.6 s, so that each step lasts until it was seen."""
SERVED = ("--quantum", "10", "--host-memory", "2GiB", "--reserve", "32MiB")
"""So slow a bus is not measured, and a quantum that is shorter than a hand-over would be over before it is used."""
EACH = 300
"""MiB, of which a third has to leave when the other comes in."""
NEARLY_ALL = 400
"""MiB for one that is alone."""
ROUNDS = 2
PATIENCE = 60.0


@dataclass(slots=True)
class Scene:
    """A hand-over."""

    folder: Path
    """Of the device."""
    serve: Callable[[], Scheduler]
    start: Start
    scheduler: Scheduler
    leaver: Program
    comer: Program
    stopped: int = 0
    """The pid of who was stopped by the step, and goes on when somebody was killed."""

    def clients(self) -> dict[int, admin_pb2.Swap]:
        """What the status says, by pid."""
        return {client.pid: client.swap for device in self.scheduler.status().devices for client in device.clients}

    def is_settled(self) -> bool:
        """Nothing is on its way, but for less than a chunk, and all host memory is where it belongs."""
        status = self.scheduler.status()
        swaps = [client.swap for device in status.devices for client in device.clients]
        return status.host_memory_used_bytes == sum(swap.usable_host_bytes for swap in swaps) and not any(
            swap.coming_bytes + swap.leaving_bytes >= CHUNK for swap in swaps
        )

    def adds_up(self, left: list[Program]) -> bool:
        """All that is shown is theirs, and they have memory with all its parts."""
        status = self.scheduler.status()
        clients = [client for device in status.devices for client in device.clients]
        return (
            {client.pid for client in clients} == {program.pid for program in left}
            and all(client.footprint_bytes >= EACH << 20 for client in clients)
            and all(sum_of(client.swap) == client.footprint_bytes for client in clients)
            and status.host_memory_used_bytes == sum(client.swap.host_bytes for client in clients) > 0
        )

    def left(self) -> int:
        """Bytes of the leaver that were copied out."""
        return sum(
            span.bytes
            for span in record.read(self.folder, 0)
            if span.pid == self.leaver.pid and span.name == transfers.TO_HOST and transfers.swaps(span)
        )


def sum_of(swap: admin_pb2.Swap) -> int:
    """All that a program has, wherever it is."""
    return swap.resident_bytes + swap.swapped_bytes + swap.fixed_bytes


def meet(scene: Scene) -> None:
    """Both have memory with contents, and the leaver has all of its own on the device."""
    scene.comer, scene.leaver = scene.leaver, scene.start(EACH, ROUNDS, asked=True)
    assert line(scene.leaver) == "written"
    poll_until(scene.is_settled, "both have come to rest", PATIENCE)
    assert not scene.clients()[scene.leaver.pid].swapped_bytes
    assert scene.clients()[scene.comer.pid].swapped_bytes


def begin(scene: Scene) -> int:
    """The comer is to come in; how much the leaver is told to bring out."""
    meet(scene)
    tell(scene.comer)
    poll_until(lambda: scene.clients()[scene.leaver.pid].leaving_bytes, "it is told", PATIENCE)
    swap = scene.clients()[scene.leaver.pid]
    return sum_of(swap) - swap.allotted_bytes


def is_told(scene: Scene) -> None:
    """The leaver is to leave, and has hardly begun."""
    begin(scene)
    stop(scene.leaver.pid)
    scene.stopped = scene.leaver.pid
    assert scene.clients()[scene.leaver.pid].leaving_bytes > CHUNK


def moves_out(scene: Scene) -> None:
    """Some of the leaver's memory is out, some is to follow."""
    begin(scene)

    def is_half_out() -> bool:
        swap = scene.clients()[scene.leaver.pid]
        return bool(swap.leaving_bytes and swap.swapped_bytes)

    poll_until(is_half_out, "some has left", PATIENCE)


def is_out(scene: Scene) -> None:
    """All that had to leave has left, but the scheduler has not told the comer so."""
    leaving_bytes = begin(scene)
    stop(scene.scheduler.process.pid)
    scene.stopped = scene.scheduler.process.pid
    poll_until(lambda: scene.left() >= leaving_bytes, "all has left", PATIENCE)


def moves_in(scene: Scene) -> None:
    """Some of the comer's memory is in, some is to follow."""
    meet(scene)
    before = scene.clients()[scene.comer.pid].swapped_bytes
    tell(scene.comer)

    def is_half_in() -> bool:
        swap = scene.clients()[scene.comer.pid]
        return bool(swap.coming_bytes and 0 < swap.swapped_bytes < before)

    poll_until(is_half_in, "some has come in", PATIENCE)


def gets_host_memory(scene: Scene) -> None:
    """The first client is to leave for the second: host memory is being made for them."""
    scene.comer = scene.start(EACH, ROUNDS, asked=True)

    def is_caught() -> bool:
        if not scene.scheduler.open_arenas():
            return False
        stop(scene.scheduler.process.pid)
        if scene.scheduler.open_arenas():
            return True
        scene.scheduler.process.send_signal(signal.SIGCONT)
        return False

    poll_until(is_caught, "host memory is being made", PATIENCE, 0.0005)
    scene.stopped = scene.scheduler.process.pid


def kill(scene: Scene, victim: str) -> list[Program]:
    """Kills one of them; those programs that are left."""
    victims: dict[str, subprocess.Popen[Any]] = {
        "leaver": scene.leaver,
        "comer": scene.comer,
        "scheduler": scene.scheduler.process,
    }
    victims[victim].kill()
    victims[victim].wait()
    if scene.stopped not in (0, victims[victim].pid):
        os.kill(scene.stopped, signal.SIGCONT)
    if victim == "scheduler":
        scene.scheduler = scene.serve()
    return [program for program in (scene.comer, scene.leaver) if program.poll() is None]


@pytest.fixture
def scene(serve: Serve, libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Scene]:
    """With one program so far."""
    folder = tmp_path / "simgpu"
    seen = simgpu.environment(folder, DEVICES)

    def serve_one() -> Scheduler:
        return serve(*SERVED, environment=seen)

    with programs(libraries, run_dir, folder, DEVICES) as start:
        scheduler = serve_one()
        first = start(EACH, ROUNDS, asked=True)
        assert line(first) == "written"
        yield Scene(folder, serve_one, start, scheduler, first, first)


STEPS: dict[str, Callable[[Scene], None]] = {
    "told": is_told,
    "moves out": moves_out,
    "is out": is_out,
    "moves in": moves_in,
    "host memory": gets_host_memory,
}


@pytest.mark.parametrize("victim", ["scheduler", "leaver", "comer"])
@pytest.mark.parametrize("step", STEPS)
def test_death(scene: Scene, step: str, victim: str) -> None:
    """Contents are right, nobody waits for ever, and nothing stays charged for who is dead."""
    STEPS[step](scene)
    left = kill(scene, victim)
    assert len(left) == (2 if victim == "scheduler" else 1)
    poll_until(lambda: scene.adds_up(left), "the status shows what those have who are left", PATIENCE)
    for program in left:
        for _ in range(ROUNDS):
            tell(program)
    ends_well(*left)
    poll_until(lambda: not scene.clients(), "all have gone", PATIENCE)
    poll_until(lambda: not scene.scheduler.status().host_memory_used_bytes, "host memory is given back", PATIENCE)
    alone = scene.start(NEARLY_ALL, 1, asked=True)
    assert line(alone) == "written"
    (swap,) = scene.clients().values()
    assert not swap.swapped_bytes
    assert swap.resident_bytes > NEARLY_ALL << 20
