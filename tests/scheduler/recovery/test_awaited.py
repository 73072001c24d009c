"""Who of the recorded holders is not back yet, and who is none of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import structlog

from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.recovery import awaited as awaited_module
from nvshare.scheduler.recovery import process_end
from nvshare.scheduler.recovery.allowance import Allowances
from nvshare.scheduler.recovery.awaited import Awaited, Process, Standing
from nvshare.scheduler.recovery.record import Recorded
from tests.polling import until

DEVICE = "GPU-a"
NOBODY = Standing(None, doubted=False)

Make = Callable[..., Awaited]


@pytest.fixture
def died() -> list[int]:
    """The grants of those that will not come back."""
    return []


@pytest.fixture
def make(died: list[int]) -> Make:
    """Awaits these holders."""
    return lambda *holders: Awaited(
        holders,
        asyncio.get_running_loop(),
        structlog.wrap_logger(structlog.testing.CapturingLogger()),
        Allowances(lambda _client: (0, 0)),
        died.append,
    )


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with its stdin."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def holder_of(pid: int, grant: int = 7) -> Recorded:
    """The process as the record has it."""
    return Recorded(DEVICE, grant, pid, start_time(pid), "test")


async def test_the_death_of_a_process_is_seen(make: Make, died: list[int], process: subprocess.Popen[bytes]) -> None:
    """Nobody has to look again and again; its parent need not have taken note of it."""
    awaited = make(holder_of(process.pid))
    assert [holder.pid for holder in awaited.on(DEVICE)] == [process.pid]
    await asyncio.sleep(0)
    process.kill()
    await until(lambda: died == [7], "the death is seen")
    assert awaited.on(DEVICE) == []


async def test_a_pid_that_is_used_again_is_another_process(make: Make, died: list[int]) -> None:
    """This process runs, but it did not hold: it began at another time."""
    mine = holder_of(os.getpid())
    make(Recorded(DEVICE, 7, mine.pid, mine.started - 1, ""))
    await until(lambda: died == [7], "it is known to be dead")


async def test_who_is_back_is_awaited_no_longer(make: Make, died: list[int], process: subprocess.Popen[bytes]) -> None:
    """In whatever state; its death is its connection's affair then."""
    holder = holder_of(process.pid)
    awaited = make(holder, holder_of(os.getpid(), 8))
    await asyncio.sleep(0)
    me = Process(DEVICE, holder.pid, holder.started)
    assert awaited.standing(Process("GPU-b", holder.pid, holder.started), None) == NOBODY
    assert awaited.standing(Process(DEVICE, holder.pid, holder.started + 1), 7) == NOBODY
    assert awaited.standing(me, 7) == Standing(7, doubted=False)
    process.kill()
    process.wait()
    assert awaited.standing(Process(DEVICE, os.getpid(), start_time(os.getpid())), None) == Standing(8, doubted=False)
    assert awaited.on(DEVICE) == []
    await asyncio.sleep(0)
    assert died == []


async def test_a_second_claim_without_a_record_is_doubted(make: Make) -> None:
    """On that device, of that process."""
    awaited = make()
    me = Process(DEVICE, 100, 1)
    assert awaited.standing(me, 5) == NOBODY
    assert awaited.standing(me, None) == NOBODY
    assert awaited.standing(me, 0) == Standing(None, doubted=True)
    assert awaited.standing(Process("GPU-b", 100, 1), 5) == NOBODY
    assert awaited.standing(Process(DEVICE, 100, 2), 5) == NOBODY


async def test_one_that_cannot_be_seen_is_waited_for_a_while(
    make: Make, died: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number proves who it is, as far as that goes; without a process to look at there must be an end."""
    monkeypatch.setattr(awaited_module, "RETURN_SECONDS", 0.01)
    hidden = Process(DEVICE, 0, 0)
    awaited = make(Recorded(DEVICE, 7, 0, 0, ""), Recorded(DEVICE, 8, 0, 0, ""))
    assert awaited.standing(hidden, None) == NOBODY
    assert awaited.standing(hidden, 7) == Standing(7, doubted=False)
    await until(lambda: died == [8], "the other one is waited for no longer")


async def test_without_descriptors_it_is_looked_at_again(
    make: Make, died: list[int], process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is no death."""
    looked: list[int] = []

    def none_left(pid: int) -> int:
        looked.append(pid)
        raise OSError(24, "too many open files")

    monkeypatch.setattr(process_end, "_LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(os, "pidfd_open", none_left)
    make(holder_of(process.pid))
    await until(lambda: len(looked) > 2, "it is looked at again")
    assert died == []
    process.kill()
    process.wait()
    await until(lambda: died == [7], "the death is seen")
