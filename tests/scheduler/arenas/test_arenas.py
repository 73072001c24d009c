"""GrowArena is carried out: a segment goes to the client, and the core hears what became of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from nvshare.scheduler.arenas import arenas as arenas_module
from nvshare.scheduler.arenas import segment
from nvshare.scheduler.arenas.arenas import Arenas, workers_for
from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.events import ArenaGrown, HostMemorySet
from nvshare.scheduler.core.snapshot import HostMemory
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.registered_client import Delivery, RegisteredClient
from tests.polling import until

MIB = 1 << 20
GIB = 1 << 30
SEGMENT_BYTES = 8 * MIB
"""The most that is one segment, where a test makes several."""

NEAR = frozenset({max(os.sched_getaffinity(0))})
"""The CPUs near their GPU."""


class Clients:
    """Some clients, the memory of their machine, and what the core hears."""

    def __init__(self) -> None:
        self.room = 1 << 40
        self.used = 0
        self.received: list[tuple[int, int]] = []
        """Size and descriptor."""
        self.on_sent: list[Callable[[Delivery], None]] = []
        self.heard: list[ArenaGrown | HostMemorySet] = []
        self.numbers = [1, 2]
        self.lines = structlog.testing.CapturingLogger()
        self.arenas = Arenas(
            asyncio.get_running_loop(),
            structlog.wrap_logger(self.lines, processors=[]),
            self,  # type: ignore[arg-type]
            4 * GIB,
            self._known,
            lambda: HostMemory(4 * GIB, self.used),
            self.heard.append,
            {"GPU-a": NEAR}.__getitem__,
        )

    def _known(self) -> dict[int, RegisteredClient]:
        nobody = Description(0, "", Identity())
        return {number: RegisteredClient(self, "GPU-a", 2, "swap", 1, nobody) for number in self.numbers}  # type: ignore[arg-type]

    def room_bytes(self) -> int:
        """See ``MemoryLimits``."""
        return self.room

    def send_arena(self, descriptor: int, segment_bytes: int, done: Callable[[Delivery], None]) -> None:
        """See ``ActionReceiver``."""
        self.received.append((segment_bytes, descriptor))
        self.on_sent.append(done)

    def grow(self, client: int, segment_bytes: int) -> None:
        self.used += segment_bytes
        self.arenas.grow(GrowArena(client, segment_bytes))


def is_open(descriptor: int) -> bool:
    """Whether it is a descriptor of a segment."""
    try:
        return "nvshare-arena" in str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return False


@pytest.fixture
async def clients() -> Clients:
    return Clients()


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several of one client without much memory."""
    monkeypatch.setattr(arenas_module, "SEGMENT_BYTES", SEGMENT_BYTES)


@pytest.fixture(autouse=True)
def _closed(clients: Clients) -> Iterator[None]:
    yield
    clients.arenas.stop()
    for done in clients.on_sent:
        done(Delivery.NEVER)


async def test_the_core_hears_of_it_when_the_client_has_it(clients: Clients) -> None:
    """Not before, because a client that does not read is not to be sent another."""
    clients.grow(1, 4 * MIB)
    await until(lambda: clients.received, "it is filled")
    size, descriptor = clients.received[0]
    assert (size, os.fstat(descriptor).st_blocks * 512) == (4 * MIB, 4 * MIB)
    assert clients.heard == []
    clients.on_sent.pop()(Delivery.WENT)
    assert not is_open(descriptor)
    await until(lambda: clients.heard, "the core hears of it")
    assert clients.heard == [ArenaGrown(1, 4 * MIB)]


async def test_memory_is_made_near_the_gpu(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the client that asks for it."""
    ran_on = []
    fill = segment.fill

    def observed(descriptor: int, start: int, size_bytes: int, *, huge: bool) -> None:
        ran_on.append(os.sched_getaffinity(0))
        fill(descriptor, start, size_bytes, huge=huge)

    monkeypatch.setattr(segment, "fill", observed)
    clients.grow(1, 2 * MIB)
    await until(lambda: clients.received, "it is filled")
    assert ran_on == [NEAR]


async def test_a_client_that_goes_meanwhile(clients: Clients) -> None:
    """Nothing is sent to it, and the core, which does not know it any more, hears nothing."""
    clients.grow(1, GIB)
    clients.arenas.forget(1)
    clients.grow(2, 2 * MIB)
    await until(lambda: clients.received, "another one's is filled")
    clients.numbers.remove(2)
    clients.arenas.forget(2)
    clients.on_sent.pop()(Delivery.NEVER)
    clients.numbers.append(3)
    clients.grow(3, 2 * MIB)
    await until(lambda: len(clients.received) == 2, "another one's is filled")
    clients.on_sent.pop()(Delivery.WENT)
    await until(lambda: clients.heard, "the core hears of it")
    assert clients.heard == [ArenaGrown(3, 2 * MIB)]


async def test_what_does_not_go_is_given_back(clients: Clients) -> None:
    """Its client's connection ended while its socket was full."""
    clients.grow(1, 4 * MIB)
    await until(lambda: clients.received, "it is filled")
    clients.on_sent.pop()(Delivery.NEVER)
    await until(lambda: not is_open(clients.received[0][1]), "it is closed")
    assert clients.heard == []


async def test_less_than_was_meant(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core hears what there is, one line says so, and later it is tried again with all."""
    monkeypatch.setattr(arenas_module, "_TRY_AGAIN_SECONDS", 0.05)
    clients.used, clients.room = GIB, 30 * MIB
    clients.grow(1, GIB)
    clients.grow(2, 512 * MIB)
    await until(lambda: len(clients.heard) >= 4, "the core hears of both")
    assert clients.heard[:2] == [HostMemorySet(GIB + 512 * MIB + 30 * MIB), ArenaGrown(1, 0)]
    assert clients.heard[3] == ArenaGrown(2, 0)
    assert len(clients.lines.calls) == 1
    assert clients.lines.calls[0].kwargs["reason"] == "no more can be had"
    await until(lambda: clients.heard[-1] == HostMemorySet(4 * GIB), "it is tried again")


async def test_much_comes_in_several_segments(clients: Clients, small_segments: None) -> None:
    """Each is sent when it is filled, and the core hears once, when the client has them all."""
    clients.grow(1, 34 * MIB)
    await until(lambda: len(clients.received) == 5, "all are filled")
    assert sorted(size for size, _ in clients.received) == [2 * MIB, *[SEGMENT_BYTES] * 4]
    while len(clients.on_sent) > 1:
        clients.on_sent.pop()(Delivery.WENT)
    clients.grow(2, 2 * MIB)
    await until(lambda: len(clients.on_sent) == 2, "another one's is filled")
    clients.on_sent.pop()(Delivery.WENT)
    await until(lambda: clients.heard, "the core hears of that")
    clients.on_sent.pop()(Delivery.WENT)
    await until(lambda: len(clients.heard) == 2, "the core hears of the first")
    assert clients.heard == [ArenaGrown(2, 2 * MIB), ArenaGrown(1, 34 * MIB)]


async def test_what_can_not_go_now_goes_later(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same segment; unless its client goes meanwhile."""
    monkeypatch.setattr(arenas_module, "_SEND_AGAIN_SECONDS", 0.01)
    clients.grow(1, 4 * MIB)
    clients.grow(2, 4 * MIB)
    await until(lambda: len(clients.received) == 2, "both are filled")
    (_, descriptor), (_, other) = clients.received
    for done in (clients.on_sent.pop(), clients.on_sent.pop()):
        done(Delivery.NOT_NOW)
    clients.arenas.forget(2)
    await until(lambda: len(clients.received) == 3, "it is sent again")
    await until(lambda: not is_open(other), "the other one is closed")
    assert clients.received[2] == (4 * MIB, descriptor)
    assert clients.heard == []
    clients.on_sent.pop()(Delivery.WENT)
    await until(lambda: clients.heard, "the core hears of it")
    assert clients.heard == [ArenaGrown(1, 4 * MIB)]


async def test_less_than_was_meant_after_a_part_of_it(clients: Clients, small_segments: None) -> None:
    """The client keeps what it has, and the core hears how much that is."""
    clients.used = GIB
    clients.grow(1, 2 * GIB)
    await until(lambda: clients.received, "a first segment is filled")
    clients.room = 0
    await until(lambda: clients.heard, "no more can be had")
    while clients.on_sent:
        clients.on_sent.pop()(Delivery.WENT)
    await until(lambda: len(clients.heard) == 2, "the core hears what went")
    went = len(clients.received) * SEGMENT_BYTES
    budget, grown = clients.heard
    assert grown == ArenaGrown(1, went)
    assert isinstance(budget, HostMemorySet)
    assert GIB + went <= budget.host_bytes < 3 * GIB


def test_half_of_the_cpus_and_four_at_most_fill() -> None:
    """The others are for programs; one thread there is always."""
    assert [workers_for(cpus) for cpus in (1, 2, 3, 4, 7, 8, 64)] == [1, 1, 1, 2, 3, 4, 4]
