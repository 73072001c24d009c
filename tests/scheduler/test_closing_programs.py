"""Programs that close all descriptors that they don't know, again and again: the real scheduler, the real library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import RunDir
from nvshare.simgpu import record, transfers
from nvshare.simgpu.turns import overlaps
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import PROGRAM, Serve, Start, ask, device, ends_well, line, programs, tell

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "4GiB", "--reserve", "32MiB")
CLOSES = """
import os, threading, time
from tests.closing import CLOSERS, OwnFile, numbers
ways = [CLOSERS["close_range"], CLOSERS["loop"], CLOSERS["closefrom"]]
def close():
    for at in range(CLOSINGS):
        time.sleep(0.15)
        ways[at % 3]()
        own = OwnFile.take(numbers(), socket_first=bool(at % 2))
        time.sleep(0.15)
        found = own.altered()
        if found:
            print(found, flush=True)
            os._exit(1)
        own.close()
threading.Thread(target=close).start()
"""


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a program with so many MiB that does so many rounds."""
    with programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield begin


def test_whenever_they_close(serve: Serve, start: Start, tmp_path: Path) -> None:
    """Waiting, holding, draining or with memory on its way: each finds its memory and its files as they were."""
    serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    script = CLOSES.replace("CLOSINGS", "12") + PROGRAM
    ends_well(*[start(700, 12, script=script) for _ in range(2)])
    assert overlaps(transfers.work(record.read(tmp_path / "simgpu", 0))) == []


@pytest.mark.parametrize("way", ["close_range", "loop", "closefrom"])
def test_idle_and_out(serve: Serve, start: Start, way: str) -> None:
    """Its memory was brought out for another's; it closes all, and still gets its turn, and its memory."""
    scheduler = serve(*SERVED)
    closing = f"""
import sys, threading
from tests.closing import CLOSERS
class Closes:
    def readline(self):
        said = before.readline()
        if said == "close\\n":
            CLOSERS["{way}"]()
            print("closed", flush=True)
            return self.readline()
        return said
before, sys.stdin = sys.stdin, Closes()
"""
    idle, busy = start(700, 1, asked=True, script=closing + PROGRAM), start(700, 3, asked=True)
    assert [line(idle), line(busy)] == ["written", "written"]
    assert ask(busy) == "round 0"
    assert idle.stdin
    idle.stdin.write("close\n")
    idle.stdin.flush()
    assert line(idle) == "closed"
    tell(idle)
    assert line(idle) == "round 0"
    assert [ask(busy), ask(busy)] == ["round 1", "round 2"]
    poll_until(lambda: len(device(scheduler).clients) >= 1, "they are known")
    ends_well(idle, busy)
