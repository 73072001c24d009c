"""What an event costs in the scheduler's core, alone: no sockets, simulated time.

    python bench/core_events.py [--events 200000]

Each scenario keeps one device busy with many clients and makes the calls that the server makes: one ``handle`` and one
``deadline`` for each event, and ``handle_timer`` when that time has come (counted as an event too).

A second table: hand-overs of two clients beside others that say a key each which nobody else says.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nvshare.scheduler.core.actions import Action, Grant, Revoke
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Event,
    FootprintChanged,
    GangJoined,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.settings import Settings

DEVICE = "GPU-0"
GIB = 1 << 30
SIZES = (100, 1_000, 10_000)
TIED = (0, 128, 1_000)
"""How many say a key."""
ROUNDS = 3


class Bench:
    """A core, its clients' answers, and a clock that only the scenario moves."""

    def __init__(
        self, policy: Policy, clients: int, total_bytes: int, footprint_bytes: int, register: bool = True
    ) -> None:
        self.core = Core(Settings(policy=policy))
        self.now = 0.0
        self.calls = 0
        self.clients = clients
        self.footprint_bytes = footprint_bytes
        self.granted: deque[Grant] = deque()
        self.revoked: deque[Revoke] = deque()
        self.handle(DeviceSeen(DEVICE, total_bytes))
        for client in range(clients):
            self.register(client)

    def register(self, client: int) -> None:
        self.handle(ClientRegistered(client, DEVICE, self.footprint_bytes, ClaimedState.IDLE))

    def handle(self, event: Event) -> None:
        self.calls += 1
        self._keep(self.core.handle(event, self.now))
        self.core.deadline()

    def pass_deadline(self) -> None:
        """Lets the time until the next deadline pass."""
        deadline = self.core.deadline()
        assert deadline is not None
        self.now = deadline
        self.calls += 1
        self._keep(self.core.handle_timer(self.now))
        self.core.deadline()

    def _keep(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Grant():
                    self.granted.append(action)
                case Revoke():
                    self.revoked.append(action)
                case _:
                    pass


def turns(clients: int) -> Iterator[Bench]:
    """All clients want the device all the time and take turns: timer, release, request."""
    bench = Bench(Policy.EXCLUSIVE, clients, 16 * GIB, GIB)
    for client in range(clients):
        bench.handle(LockRequested(client))
    yield bench
    while True:
        bench.pass_deadline()
        revoke = bench.revoked.popleft()
        bench.handle(LockReleased(revoke.client, revoke.grant))
        bench.handle(LockRequested(revoke.client))
        yield bench


def bursts(clients: int) -> Iterator[Bench]:
    """Half of the clients wait; the holder gives way by itself and another client asks."""
    bench = Bench(Policy.EXCLUSIVE, clients, 16 * GIB, GIB)
    idle = deque(range(clients))
    for _ in range(clients // 2):
        bench.handle(LockRequested(idle.popleft()))
    yield bench
    while True:
        grant = bench.granted.popleft()
        bench.handle(LockReleased(grant.client, grant.grant))
        idle.append(grant.client)
        bench.handle(LockRequested(idle.popleft()))
        yield bench


def together(clients: int) -> Iterator[Bench]:
    """Everybody fits and holds; each in turn gives the lock back and asks again."""
    bench = Bench(Policy.AUTO, clients, clients * 2 * GIB, GIB)
    for client in range(clients):
        bench.handle(LockRequested(client))
    yield bench
    while True:
        grant = bench.granted.popleft()
        bench.handle(LockReleased(grant.client, grant.grant))
        bench.handle(LockRequested(grant.client))
        yield bench


def crowded(clients: int) -> Iterator[Bench]:
    """Half of the clients fit together: holders that block are revoked, and footprints change all the time."""
    bench = Bench(Policy.AUTO, clients, clients * (640 << 20) + clients // 2 * GIB, GIB)
    for client in range(clients):
        bench.handle(LockRequested(client))
    yield bench
    resized = 0
    while True:
        bench.pass_deadline()
        while bench.revoked:
            revoke = bench.revoked.popleft()
            bench.handle(LockReleased(revoke.client, revoke.grant))
            bench.handle(LockRequested(revoke.client))
        for footprint_bytes in (GIB // 2, GIB):
            bench.handle(FootprintChanged(resized % clients, footprint_bytes))
        resized += 1
        yield bench


def allocations(clients: int) -> Iterator[Bench]:
    """One holds and the others wait; everybody allocates and frees."""
    bench = Bench(Policy.AUTO, clients, 16 * GIB, 12 * GIB)
    for client in range(clients):
        bench.handle(LockRequested(client))
    yield bench
    while True:
        for client in range(clients):
            bench.handle(FootprintChanged(client, 12 * GIB + client))
            yield bench


def comings(clients: int) -> Iterator[Bench]:
    """Clients come, ask and go, all of the device's clients over and over."""
    bench = Bench(Policy.EXCLUSIVE, clients, 16 * GIB, GIB)
    for client in range(clients):
        bench.handle(LockRequested(client))
    yield bench
    number = clients
    while True:
        bench.handle(ClientGone(number - clients))
        bench.register(number)
        bench.handle(LockRequested(number))
        number += 1
        yield bench


def handovers(tied: int) -> Iterator[Bench]:
    """Two take turns beside so many that were tied a while ago and are idle."""
    bench = Bench(Policy.EXCLUSIVE, tied + 2, 16 * GIB, GIB)
    for client in range(tied):
        bench.handle(GangJoined(client, f"key {client}", 0, 1))
    bench.now = 60.0
    for client in (tied, tied + 1):
        bench.handle(LockRequested(client))
    yield bench
    while True:
        grant = bench.granted.popleft()
        bench.handle(LockReleased(grant.client, grant.grant))
        bench.handle(LockRequested(grant.client))
        yield bench


def joins(tied: int) -> Iterator[Bench]:
    """The same, and after each hand-over one more of the others (without any: of the two) says a key of its own."""
    steps = handovers(tied)
    bench = next(steps)
    yield bench
    for count, _ in enumerate(steps):
        client = count % (tied or 2)
        bench.handle(GangJoined(client, f"key {client}", 0, 1))
        yield bench


Scenario = Callable[[int], Iterator[Bench]]
SCENARIOS: tuple[Scenario, ...] = (turns, bursts, together, crowded, allocations, comings)
WITH_TIES: tuple[Scenario, ...] = (handovers, joins)


@dataclass(frozen=True, slots=True)
class Row:
    """The cost of an event in one scenario: microseconds by number of clients, or of those that are tied."""

    name: str
    microseconds: dict[int, float]


def cost(scenario: Scenario, clients: int, events: int) -> float:
    """Microseconds an event; the best of ROUNDS, because others use the machine too."""
    steps = scenario(clients)
    bench = next(steps)
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        before, start = bench.calls, time.perf_counter()
        while bench.calls - before < events:
            next(steps)
        best = min(best, (time.perf_counter() - start) / (bench.calls - before))
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000, help="events a scenario, size and round")
    parser.add_argument("--ties", action="store_true", help="the second table alone")
    arguments = parser.parse_args()
    if not arguments.ties:
        _table("clients", SIZES, SCENARIOS, arguments.events)
    _table("tied", TIED, WITH_TIES, arguments.events)


def _table(what: str, sizes: tuple[int, ...], scenarios: tuple[Scenario, ...], events: int) -> None:
    rows = [Row(s.__name__, {size: cost(s, size, events) for size in sizes}) for s in scenarios]
    print(f"{'scenario':12}" + "".join(f"{f'{n} {what}':>24}" for n in sizes) + f"{'last / first':>16}")
    for row in rows:
        cells = "".join(f"{f'{us:.2f} us, {1e6 / us:,.0f}/s':>24}" for us in row.microseconds.values())
        print(f"{row.name:12}{cells}{row.microseconds[sizes[-1]] / row.microseconds[sizes[0]]:>16.2f}")


if __name__ == "__main__":
    main()
