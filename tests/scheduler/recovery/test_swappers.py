"""Processes with memory that swaps, without a connection."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.recovery import swappers
from nvshare.scheduler.recovery.awaited import Process
from nvshare.scheduler.recovery.record import Recorded
from nvshare.scheduler.recovery.swappers import Departed, Returning
from tests.polling import until

DEVICE, OTHER = "GPU-a", "GPU-b"
ME = Process(DEVICE, os.getpid(), start_time(os.getpid()))

MakeReturning = Callable[..., Returning]
MakeDeparted = Callable[..., Departed]


@pytest.fixture
def told() -> list[int]:
    """The numbers of those that are awaited no longer, or whose memory is free."""
    return []


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with its stdin."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


@pytest.fixture
def returning(told: list[int]) -> MakeReturning:
    """Awaits these, with these devices measured, and what is called to have them measured soon."""
    log = structlog.wrap_logger(structlog.testing.CapturingLogger())

    def make(*former: Recorded, measured: tuple[str, ...] = (), soon: Callable[[], None] = lambda: None) -> Returning:
        return Returning(former, asyncio.get_running_loop(), log, measured.__contains__, soon, told.append)

    return make


@pytest.fixture
def departed(told: list[int]) -> MakeDeparted:
    """With these devices measured, and what is called to have them measured soon."""

    def make(measured: tuple[str, ...] = (DEVICE,), soon: Callable[[], None] = lambda: None) -> Departed:
        return Departed(asyncio.get_running_loop(), measured.__contains__, soon, told.append)

    return make


def recorded(number: int, pid: int, device: str = DEVICE) -> Recorded:
    return Recorded(device, number, pid, start_time(pid), "test")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_who_is_back_or_dead_is_awaited_no_longer(
    returning: MakeReturning, told: list[int], process: subprocess.Popen[bytes]
) -> None:
    """On its device, and as the process that it was."""
    hidden = Recorded(DEVICE, 6, 0, 0, "")
    awaited = returning(recorded(3, ME.pid), recorded(4, ME.pid, OTHER), recorded(5, process.pid), hidden)
    assert (awaited.pids(DEVICE, now()), awaited.pids(OTHER, now())) == ({ME.pid, process.pid, 0}, {ME.pid})
    assert awaited.devices == {DEVICE, OTHER}
    awaited.back(Process(DEVICE, ME.pid, ME.started + 1))
    awaited.back(Process(DEVICE, 0, 0))
    assert told == []
    awaited.back(ME)
    assert told == [3]
    process.kill()
    await until(lambda: told == [3, 5], "the death is seen")
    awaited.stop()


async def test_who_is_back_is_watched_no_more(
    returning: MakeReturning, told: list[int], process: subprocess.Popen[bytes]
) -> None:
    """No descriptor is left, and its end is no news."""
    before = open_descriptors()
    awaited = returning(recorded(5, process.pid))
    awaited.back(Process(DEVICE, process.pid, start_time(process.pid)))
    assert told == [5]
    assert open_descriptors() == before
    awaited.stop()


async def test_nobody_is_awaited_for_long(
    returning: MakeReturning, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that lives, nor one that can't be seen."""
    monkeypatch.setattr(swappers, "RETURN_SECONDS", 0.01)
    returning(recorded(3, ME.pid), Recorded(DEVICE, 4, 0, 0, ""))
    await until(lambda: told == [3, 4], "both are given up")


async def test_what_one_has_that_is_given_up_is_measured_first(
    returning: MakeReturning, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is foreign in a measurement that begins afterwards, and counts as awaited until that is done."""
    monkeypatch.setattr(swappers, "RETURN_SECONDS", 0.01)
    asked: list[float] = []
    before = now()
    awaited = returning(recorded(3, ME.pid), measured=(DEVICE,), soon=lambda: asked.append(now()))
    await until(lambda: asked, "it is given up")
    assert awaited.pids(DEVICE, before) == {ME.pid}
    awaited.measured(DEVICE, before)
    awaited.measured(OTHER, now())
    assert told == []
    assert awaited.devices == {DEVICE}
    assert awaited.pids(DEVICE, now()) == set()
    awaited.measured(DEVICE, now())
    assert told == [3]
    assert not awaited.devices


async def test_who_comes_back_late_is_back_at_once(
    returning: MakeReturning, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it was given up, and nobody has measured anything yet."""
    monkeypatch.setattr(swappers, "RETURN_SECONDS", 0.01)
    asked: list[float] = []
    awaited = returning(recorded(3, ME.pid), measured=(DEVICE,), soon=lambda: asked.append(now()))
    await until(lambda: asked, "it is given up")
    awaited.back(ME)
    assert told == [3]
    awaited.measured(DEVICE, now())
    assert told == [3]


async def test_a_pid_that_is_used_again_is_another_process(returning: MakeReturning, told: list[int]) -> None:
    """It has ended before."""
    returning(Recorded(DEVICE, 3, ME.pid, ME.started - 1, ""))
    await until(lambda: told == [3], "it is known to be dead")


async def test_memory_is_free_when_a_later_measurement_says_so(
    departed: MakeDeparted, told: list[int], process: subprocess.Popen[bytes]
) -> None:
    """One that began before the process had ended may have been too early; one is asked for when it has."""
    asked: list[float] = []
    gone = departed(soon=lambda: asked.append(now()))
    gone.left(7, Process(DEVICE, process.pid, start_time(process.pid)))
    gone.measured(DEVICE, now())
    assert gone.pids(DEVICE, now()) == {process.pid}
    assert gone.devices == {DEVICE}
    before = now()
    process.kill()
    await until(lambda: asked, "its end is seen")
    gone.measured(DEVICE, before)
    gone.measured(OTHER, now())
    assert told == []
    gone.measured(DEVICE, now())
    assert told == [7]
    assert not gone.devices


async def test_one_that_lives_on_is_no_client_any_more(departed: MakeDeparted, told: list[int]) -> None:
    """What it has is foreign then, in the same measurement."""
    gone = departed()
    gone.left(7, ME)
    soon, later = now(), now() + swappers.RETURN_SECONDS + 1
    assert gone.pids(DEVICE, soon) == {ME.pid}
    gone.measured(DEVICE, soon)
    assert told == []
    assert gone.pids(DEVICE, later) == set()
    gone.measured(DEVICE, later)
    assert told == [7]


async def test_the_memory_of_one_that_ended_late_is_measured_after_its_end(
    departed: MakeDeparted, told: list[int], process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement that began while it lived on says nothing of what is free now."""
    monkeypatch.setattr(swappers, "RETURN_SECONDS", 0)
    asked: list[float] = []
    gone = departed(soon=lambda: asked.append(now()))
    gone.left(7, Process(DEVICE, process.pid, start_time(process.pid)))
    lived = now()
    process.kill()
    await until(lambda: asked, "its end is seen")
    assert gone.pids(DEVICE, lived) == {process.pid}
    gone.measured(DEVICE, lived)
    assert told == []
    gone.stop()


async def test_one_that_is_back_has_its_memory_as_another_client(departed: MakeDeparted, told: list[int]) -> None:
    """It must not count twice."""
    gone = departed()
    gone.left(7, ME)
    gone.left(8, Process(OTHER, ME.pid, ME.started))
    gone.left(9, Process(DEVICE, 0, 0))
    gone.back(ME)
    assert told == [7]
    gone.back(Process(DEVICE, 0, 0))
    assert told == [7], "these may be different ones"
    assert gone.pids(DEVICE, now()) == {0}
    gone.stop()


async def test_where_nobody_measures(
    departed: MakeDeparted, told: list[int], process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment after its end, and after its leaving where its end can't be seen."""
    monkeypatch.setattr(swappers, "_FREEING_SECONDS", 0.01)
    gone = departed(())
    gone.left(7, Process(DEVICE, process.pid, start_time(process.pid)))
    gone.left(8, Process(DEVICE, 0, 0))
    await until(lambda: told == [8], "the one that can't be seen is over")
    process.kill()
    await until(lambda: told == [8, 7], "the other one is over")
