"""In which order, and how often, it is looked who clients are."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from nvshare.scheduler.clients.descriptions import Descriptions
from nvshare.scheduler.pods.description import Description, Hints
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.pods.peer import Peer
from nvshare.scheduler.worker import Worker
from tests.polling import until


class Looks:
    """Looks that wait until the test lets them go on."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.work: Callable[[], None] = lambda: None
        """What a look does when it may go on."""
        self.pids: list[int] = []
        self.go_on = threading.Event()
        self.described: dict[int, int] = {}
        """The pid that was found, by the client's number."""
        self._descriptions = Descriptions(loop, Worker(loop, "looks"), self._look)

    def ask(self, number: int, pid: int) -> None:
        self._descriptions.ask(number, Peer(pid, 0, outside_pods=True), Hints(number), partial(self._found, number))

    def forget(self, number: int, pid: int) -> None:
        self._descriptions.forget(number, pid)

    def _look(self, peer: Peer, hints: Hints) -> Description:
        self.pids.append(peer.pid)
        assert self.go_on.wait(10)
        self.work()
        return Description(peer.pid or hints.pid, "", Identity())

    def _found(self, number: int, description: Description) -> None:
        self.described[number] = description.pid


@pytest.fixture
async def looks() -> Looks:
    return Looks()


async def test_one_look_for_all_clients_of_a_process(looks: Looks) -> None:
    """Those that come while others are looked at wait together, and a flood of them delays no other process."""
    looks.ask(1, 10)
    await until(lambda: looks.pids == [10], "the first look began")
    for number in range(2, 1000):
        looks.ask(number, 20)
    looks.ask(1000, 30)
    looks.go_on.set()
    await until(lambda: len(looks.described) == 1000, "everybody is described")
    assert looks.pids == [10, 20, 30]
    assert looks.described == {1: 10, 1000: 30} | dict.fromkeys(range(2, 1000), 20)


async def test_nobody_looks_for_who_has_left(looks: Looks) -> None:
    """A process that registers and leaves without end makes no work pile up."""
    looks.ask(1, 10)
    await until(lambda: looks.pids == [10], "the first look began")
    for number in range(2, 1000):
        looks.ask(number, number)
        looks.forget(number, number)
    looks.ask(1000, 30)
    looks.go_on.set()
    await until(lambda: len(looks.described) == 2, "the last one is described")
    assert looks.pids == [10, 30]


async def test_processes_that_cannot_be_told_apart(looks: Looks) -> None:
    """Where pids are hidden each client is looked at by itself."""
    looks.go_on.set()
    for number in (1, 2, 3):
        looks.ask(number, 0)
    await until(lambda: len(looks.described) == 3, "everybody is described")
    assert looks.described == {1: 1, 2: 2, 3: 3}


def compute() -> None:
    """Takes 50 ms of the processor."""
    began = time.thread_time()
    while time.thread_time() - began < 0.05:
        pass


@pytest.mark.parametrize(("work", "least", "most"), [(lambda: time.sleep(0.5), 0.0, 0.2), (compute, 0.2, 2.0)])
async def test_the_pause_goes_by_the_processor(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, work: Callable[[], None], least: float, most: float
) -> None:
    """A look that waits, for the processor or for a file, delays nobody after it; one that computes does."""
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def noted(delay: float, callback: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        if isinstance(getattr(callback, "__self__", None), Descriptions):
            pauses.append(delay)
        return call_later(delay, callback, *arguments)

    monkeypatch.setattr(loop, "call_later", noted)
    looks.work = work
    looks.go_on.set()
    looks.ask(1, 10)
    await until(lambda: 1 in looks.described, "it is described")
    (pause,) = pauses
    assert least <= pause <= most
