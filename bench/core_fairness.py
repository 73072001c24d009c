"""How evenly the core shares a device, in simulated time: Jain's index of the time held.

    python bench/core_fairness.py

Equal clients want the device all the time (or with pauses) and answer a Revoke after a drain of 5 ms. The index is 1
when all held it for the same time, and 1/n when one of n had it all.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from nvshare.scheduler.core.actions import Action, Grant, Revoke
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    Event,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.settings import Settings

DEVICE = "GPU-0"
GIB = 1 << 30
DEVICE_BYTES = 16 * GIB
QUANTUM = 30.0
DRAIN = 0.005


@dataclass(frozen=True, slots=True)
class Program:
    """A client that works until it is asked to leave, leaves, pauses, and asks again."""

    footprint_bytes: int
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait for the lock: how many were in the queue before, and how long it took."""

    ahead: int
    seconds: float


class Simulation:
    """Programs on one device, from the moment when all of them ask; clients are numbered in the programs' order."""

    def __init__(self, programs: Sequence[Program], policy: Policy) -> None:
        self.waits: list[Wait] = []
        self._programs = programs
        self._core = Core(Settings(policy, QUANTUM))
        self._now = 0.0
        self._coming: list[tuple[float, int, Event]] = []
        self._planned = 0
        self._asked: dict[int, tuple[int, float]] = {}
        self._handle(DeviceSeen(DEVICE, DEVICE_BYTES))
        for client, program in enumerate(programs):
            self._handle(ClientRegistered(client, DEVICE, program.footprint_bytes, ClaimedState.IDLE))
            self._plan(0.0, LockRequested(client))

    def run(self, end: float) -> None:
        """Lets everything happen that happens before ``end``."""
        while True:
            deadline = self._core.deadline()
            event_at = self._coming[0][0] if self._coming else end
            now = event_at if deadline is None else min(event_at, deadline)
            if now >= end:
                self._now = end
                return
            self._now = now
            if now == deadline:
                self._react(self._core.handle_timer(now))
            else:
                self._handle(heapq.heappop(self._coming)[2])

    def held_seconds(self) -> list[float]:
        """How long each client has held the device so far."""
        (device,) = self._core.snapshot(self._now)
        return [client.held_seconds for client in device.clients]

    def _plan(self, seconds: float, event: Event) -> None:
        self._planned += 1
        heapq.heappush(self._coming, (self._now + seconds, self._planned, event))

    def _handle(self, event: Event) -> None:
        if isinstance(event, LockRequested):
            self._asked[event.client] = len(self._asked), self._now
        self._react(self._core.handle(event, self._now))

    def _react(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Grant():
                    ahead, asked_at = self._asked.pop(action.client)
                    self.waits.append(Wait(ahead, self._now - asked_at))
                case Revoke():
                    self._plan(DRAIN, LockReleased(action.client, action.grant))
                    self._plan(DRAIN + self._programs[action.client].pause_seconds, LockRequested(action.client))
                case _:
                    pass


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def held_seconds(clients: int, quanta: int, policy: Policy, program: Program) -> list[float]:
    """How long each of some equal clients held the device within ``quanta`` quanta."""
    simulation = Simulation([program] * clients, policy)
    simulation.run(quanta * (QUANTUM + DRAIN))
    return simulation.held_seconds()


def main() -> None:
    print(f"{'scenario':44}{'clients':>9}{'quanta':>9}{'index':>9}{'least held':>13}{'most held':>12}")
    for name, policy, program in (
        ("exclusive, always busy", Policy.EXCLUSIVE, Program(GIB)),
        ("exclusive, a pause of 10 s after each turn", Policy.EXCLUSIVE, Program(GIB, 10.0)),
        ("auto, one fits at a time", Policy.AUTO, Program(12 * GIB)),
        ("auto, two fit at a time", Policy.AUTO, Program(5 * GIB)),
    ):
        for clients in (2, 3, 7, 16):
            held = held_seconds(clients, 100, policy, program)
            print(f"{name:44}{clients:>9}{100:>9}{jain(held):>9.4f}{min(held):>11.1f} s{max(held):>10.1f} s")


if __name__ == "__main__":
    main()
