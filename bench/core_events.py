"""What an event costs in the scheduler's core, alone: no sockets, simulated time.

    python bench/core_events.py [--events 200000] [--table clients|ties|swapping]

Each scenario keeps one device busy with many clients and makes the calls that the server makes: one ``record`` for each
event, one ``plan`` and one ``deadline`` for those that are read together, and ``handle_timer`` when that time has come
(counted as an event too). Each is measured twice: when every message is read alone, and when those are read together
that several clients sent.

The second table: hand-overs of two clients beside others that say a key each which nobody else says.

The third: clients whose memory swaps, each as large as half of the device, that all want it; and ten of them beside
others that are idle and have nothing on it, as such and as clients that can sleep. They do at once as they are told,
and say so: most events are that.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nvshare.scheduler.core.actions import Action, Allot, Evict, Grant, GrowArena, Revoke
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ArenaGrown,
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Event,
    FootprintChanged,
    GangJoined,
    GrowthRequested,
    LockReleased,
    LockRequested,
    PinnedMeasured,
    Policy,
    ResidencyReported,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.sleep_events import SleepOffered

DEVICE = "GPU-0"
GIB = 1 << 30
CONTEXT_BYTES = 500 << 20
MOVED_BYTES = GIB
"""A message says so much more, or less, of a client that swaps."""
SIZES = (100, 1_000, 10_000)
TIED = (0, 128, 1_000)
"""How many say a key."""
SWAPPING = (10, 50, 200)
IDLE_BESIDE = (0, 990)
"""How many more are idle beside ten that swap and want the device."""
AT_ONCE = 16
"""So many clients' messages are read together."""
ROUNDS = 3


Told = TypeVar("Told", Grant, Revoke)


class Bench:
    """A core, its clients' answers, and a clock that only the scenario moves."""

    def __init__(self, policy: Policy, clients: int, total_bytes: int, footprint_bytes: int, at_once: int = 1) -> None:
        """``at_once``: of so many clients messages are read together."""
        self.core = Core(Settings(policy=policy, host_bytes=2 * clients * footprint_bytes))
        self.now = 0.0
        self.calls = 0
        self.clients = clients
        self.footprint_bytes = footprint_bytes
        self.at_once = at_once
        self.granted: deque[Grant] = deque()
        self.revoked: deque[Revoke] = deque()
        self.others: deque[Action] = deque()
        self.read(DeviceSeen(DEVICE, total_bytes))

    def register_all(self, *, request: bool) -> None:
        """All clients come; ``request``: and ask for the lock."""
        for client in range(self.clients):
            self.read(self.registered(client))
        for client in range(self.clients) if request else ():
            self.read(LockRequested(client))

    def registered(self, client: int) -> ClientRegistered:
        return ClientRegistered(client, DEVICE, self.footprint_bytes, ClaimedState.IDLE)

    def read(self, *events: Event) -> None:
        """These are read together, or one by one where nothing is."""
        for event in events:
            self.calls += 1
            self.core.record(event, self.now)
            if self.at_once == 1:
                self._keep(self.core.plan(self.now))
                self.core.deadline()
        if self.at_once > 1:
            self._keep(self.core.plan(self.now))
            self.core.deadline()

    def pass_deadline(self) -> None:
        """Lets the time until the next deadline pass."""
        deadline = self.core.deadline()
        assert deadline is not None
        self.now = deadline
        self.calls += 1
        self._keep(self.core.handle_timer(self.now))
        self.core.deadline()

    def some(self, told: deque[Told]) -> list[Told]:
        """What the first of those did that were told so: of as many as are read together."""
        return [told.popleft() for _ in range(min(self.at_once, len(told)))]

    def _keep(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Grant():
                    self.granted.append(action)
                case Revoke():
                    self.revoked.append(action)
                case _:
                    self.others.append(action)


def again(told: Sequence[Grant | Revoke]) -> list[Event]:
    """These clients give the lock back and ask for it again."""
    return [event for one in told for event in (LockReleased(one.client, one.grant), LockRequested(one.client))]


def turns(clients: int, at_once: int) -> Iterator[Bench]:
    """All clients want the device all the time and take turns: timer, release, request."""
    bench = Bench(Policy.EXCLUSIVE, clients, 16 * GIB, GIB, at_once)
    bench.register_all(request=True)
    yield bench
    while True:
        bench.pass_deadline()
        bench.read(*again(bench.some(bench.revoked)))
        bench.others.clear()
        yield bench


def bursts(clients: int, at_once: int) -> Iterator[Bench]:
    """Half of the clients wait; the holder gives way by itself and another client asks."""
    bench = Bench(Policy.EXCLUSIVE, clients, 16 * GIB, GIB, at_once)
    bench.register_all(request=False)
    idle = deque(range(clients))
    for _ in range(clients // 2):
        bench.read(LockRequested(idle.popleft()))
    yield bench
    while True:
        grant = bench.granted.popleft()
        idle.append(grant.client)
        bench.read(LockReleased(grant.client, grant.grant), LockRequested(idle.popleft()))
        bench.others.clear()
        yield bench


def together(clients: int, at_once: int) -> Iterator[Bench]:
    """Everybody fits and holds; each in turn gives the lock back and asks again."""
    bench = Bench(Policy.AUTO, clients, clients * 2 * GIB, GIB, at_once)
    bench.register_all(request=True)
    yield bench
    while True:
        bench.read(*again(bench.some(bench.granted)))
        bench.others.clear()
        yield bench


def crowded(clients: int, at_once: int) -> Iterator[Bench]:
    """Half of the clients fit together: holders that block are revoked, and footprints change all the time."""
    bench = Bench(Policy.AUTO, clients, clients * (640 << 20) + clients // 2 * GIB, GIB, at_once)
    bench.register_all(request=True)
    yield bench
    resized = 0
    while True:
        bench.pass_deadline()
        while bench.revoked:
            bench.read(*again(bench.some(bench.revoked)))
        for footprint_bytes in (GIB // 2, GIB):
            numbers = range(resized, resized + at_once)
            bench.read(*(FootprintChanged(number % clients, footprint_bytes) for number in numbers))
        resized += at_once
        bench.others.clear()
        yield bench


def allocations(clients: int, at_once: int) -> Iterator[Bench]:
    """One holds and the others wait; everybody allocates and frees."""
    bench = Bench(Policy.AUTO, clients, 16 * GIB, 12 * GIB, at_once)
    bench.register_all(request=True)
    yield bench
    while True:
        for first in range(0, clients, at_once):
            numbers = range(first, min(clients, first + at_once))
            bench.read(*(FootprintChanged(client, 12 * GIB + client) for client in numbers))
        bench.others.clear()
        yield bench


def comings(clients: int, at_once: int) -> Iterator[Bench]:
    """Clients come, ask and go, all of the device's clients over and over."""
    bench = Bench(Policy.EXCLUSIVE, clients, 16 * GIB, GIB, at_once)
    bench.register_all(request=True)
    yield bench
    number = clients
    while True:
        bench.read(ClientGone(number - clients), bench.registered(number), LockRequested(number))
        number += 1
        bench.others.clear()
        yield bench


def swapping(clients: int, at_once: int, idle: int = 0, *, can_sleep: bool = False) -> Iterator[Bench]:
    """All want the device, and two fit: at each turn's end memory leaves and comes, a chunk a message."""
    bench = Swapping(clients, idle, at_once, can_sleep=can_sleep)
    yield bench
    while True:
        bench.pass_deadline()
        bench.obey()
        yield bench


def swapping_beside(idle: int, at_once: int) -> Iterator[Bench]:
    """Ten of these beside so many that are idle."""
    return swapping(10, at_once, idle)


def sleepers_beside(idle: int, at_once: int) -> Iterator[Bench]:
    """The same where the processes of all can sleep, and nobody lacks room."""
    return swapping(10, at_once, idle, can_sleep=True)


class Swapping(Bench):
    """Clients whose memory swaps."""

    def __init__(self, clients: int, idle: int, at_once: int, *, can_sleep: bool) -> None:
        total_bytes = 80 * GIB + (clients + idle) * CONTEXT_BYTES
        super().__init__(Policy.AUTO, clients + idle, total_bytes, 30 * GIB, at_once)
        self._can_sleep = can_sleep
        self.memory = {number: _Memory() for number in range(self.clients)}
        for number in (*range(clients, clients + idle), *range(clients)):
            self._begin(number)
        for number in range(clients):
            self.read(LockRequested(number))
            self.obey()

    def obey(self) -> None:
        """All do what they were told."""
        while self.others or self.revoked:
            while self.others:
                self._do_next()
            self.read(*again(self.some(self.revoked)))

    def _do_next(self) -> None:
        """The next client does the next thing that it was told, a step at a time."""
        match self.others.popleft():
            case GrowArena(client, segment_bytes):
                self.memory[client].arena_bytes += segment_bytes
                self.read(ArenaGrown(client, segment_bytes), self.memory[client].said(client))
            case Allot(client, order, allotted_bytes, admitted_bytes):
                self.memory[client].admitted_bytes = admitted_bytes
                self._move(client, order, allotted_bytes)
            case Evict(client, order, allotted_bytes):
                self._move(client, order, allotted_bytes)
            case _:
                pass

    def _move(self, client: int, order: int, allotted_bytes: int) -> None:
        memory = self.memory[client]
        memory.order, memory.allotted_bytes = order, allotted_bytes
        self.read(memory.said(client))
        while lacking := min(memory.footprint_bytes, memory.allotted_bytes) - memory.resident_bytes:
            self.now += 0.02
            memory.resident_bytes += max(-MOVED_BYTES, min(MOVED_BYTES, lacking))
            self.read(memory.said(client))

    def _begin(self, number: int) -> None:
        """It comes and allocates; whoever comes later moves that out."""
        self.read(ClientRegistered(number, DEVICE, 0, ClaimedState.IDLE, backend=Backend.SWAP))
        self.read(self.memory[number].said(number))
        self.read(GrowthRequested(number, 1, self.footprint_bytes, 0))
        self.obey()
        memory = self.memory[number]
        memory.footprint_bytes = memory.resident_bytes = self.footprint_bytes
        self._move(number, memory.order, memory.allotted_bytes)
        self.now += 20.0
        self.read(PinnedMeasured(number, CONTEXT_BYTES))
        if self._can_sleep:
            self.read(SleepOffered(number, number))
        self.obey()


@dataclass(slots=True)
class _Memory:
    """What one client has."""

    order: int = 0
    footprint_bytes: int = 0
    resident_bytes: int = 0
    allotted_bytes: int = 0
    admitted_bytes: int = 0
    arena_bytes: int = 0

    def said(self, client: int) -> ResidencyReported:
        return ResidencyReported(
            client,
            self.order,
            self.footprint_bytes,
            self.resident_bytes,
            admitted_bytes=self.admitted_bytes,
            arena_bytes=self.arena_bytes,
            usable_bytes=self.arena_bytes,
            out_bytes=self.footprint_bytes - self.resident_bytes,
        )


def handovers(tied: int, at_once: int) -> Iterator[Bench]:
    """Two take turns beside so many that were tied a while ago and are idle."""
    bench = Bench(Policy.EXCLUSIVE, tied + 2, 16 * GIB, GIB, at_once)
    bench.register_all(request=False)
    for client in range(tied):
        bench.read(GangJoined(client, f"key {client}", 0, 1))
    bench.now = 60.0
    for client in (tied, tied + 1):
        bench.read(LockRequested(client))
    yield bench
    while True:
        bench.read(*again([bench.granted.popleft()]))
        bench.others.clear()
        yield bench


def joins(tied: int, at_once: int) -> Iterator[Bench]:
    """The same, and after each hand-over one more of the others (without any: of the two) says a key of its own."""
    steps = handovers(tied, at_once)
    bench = next(steps)
    yield bench
    for count, _ in enumerate(steps):
        client = count % (tied or 2)
        bench.read(GangJoined(client, f"key {client}", 0, 1))
        yield bench


Scenario = Callable[[int, int], Iterator[Bench]]
TABLES: Mapping[str, tuple[tuple[int, ...], tuple[Scenario, ...]]] = {
    "clients": (SIZES, (turns, bursts, together, crowded, allocations, comings)),
    "ties": (TIED, (handovers, joins)),
    "swapping": (SWAPPING, (swapping,)),
    "idle beside": (IDLE_BESIDE, (swapping_beside, sleepers_beside)),
}


def cost(scenario: Scenario, size: int, at_once: int, events: int) -> float:
    """Microseconds of processor time an event; the best of ROUNDS, because others use the machine too."""
    steps = scenario(size, at_once)
    bench = next(steps)
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        before, start = bench.calls, time.process_time()
        while bench.calls - before < events:
            next(steps)
        best = min(best, (time.process_time() - start) / (bench.calls - before))
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000, help="events a scenario, size and round")
    parser.add_argument("--table", choices=[*TABLES], help="this one alone")
    arguments = parser.parse_args()
    for name in [arguments.table] if arguments.table else TABLES:
        _table(name, *TABLES[name], arguments.events)


def _table(name: str, sizes: tuple[int, ...], scenarios: tuple[Scenario, ...], events: int) -> None:
    print(f"{name:18}{'read':>10}" + "".join(f"{n:>24}" for n in sizes) + f"{'last / first':>16}")
    for scenario in scenarios:
        for at_once, how in ((1, "alone"), (AT_ONCE, "together")):
            found = [cost(scenario, size, at_once, events) for size in sizes]
            cells = "".join(f"{f'{us:.2f} us, {1e6 / us:,.0f}/s':>24}" for us in found)
            print(f"{scenario.__name__:18}{how:>10}{cells}{found[-1] / found[0]:>16.2f}", flush=True)


if __name__ == "__main__":
    main()
