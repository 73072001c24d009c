"""The oracle's picture of a device and its clients: plain lists, and the rules of what fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from nvshare.scheduler.core.events import Backend, Policy
from nvshare.scheduler.core.memory.ledger import OUTGROWN_BYTES, OUTGROWN_SHARE


@dataclass(slots=True, eq=False)
class Turn:
    """One grant in one client's hands."""

    grant: int
    began: float
    revoked_at: float | None = None
    reported: bool = False
    killed: bool = False
    told: bool = False


@dataclass(slots=True, eq=False)
class ModelClient:
    """One client of a device."""

    number: int
    backend: Backend
    footprint_bytes: int | None
    claimed_bytes: int
    pinned_bytes: int
    measured: bool = False
    turn: Turn | None = None
    asked_at: float = 0.0
    held_seconds: float = 0.0
    """In turns that are over."""
    waited_seconds: float = 0.0
    """In waits that are over."""
    grants: int = 0


@dataclass(slots=True, eq=False)
class ModelDevice:
    """One device."""

    policy: Policy
    quantum_seconds: float
    measured_bytes: int = 0
    foreign_bytes: int = 0
    clients: list[ModelClient] = field(default_factory=list)
    queue: list[ModelClient] = field(default_factory=list)
    holders: list[ModelClient] = field(default_factory=list)
    """In the order in which they began to hold."""
    awaited: set[int] = field(default_factory=set)
    """The grants of recorded holders that are not back."""
    rejoin_end: float = float("-inf")
    """Until then none of those who came back holding is one too many: they may say that they are one."""

    def total_bytes(self) -> int:
        """NVML's word, else the smallest claim of those who are here."""
        claims = [client.claimed_bytes for client in self.clients if client.claimed_bytes]
        return self.measured_bytes or min(claims, default=0)

    def needed(self, holders: list[ModelClient], *, assumed: bool = True) -> int:
        """What must be on the device while these hold; without ``assumed`` only measured pinned memory counts."""
        pinned = [client.pinned_bytes for client in self.clients if assumed or client.measured]
        stay = [client for client in self.clients if client.backend is Backend.NATIVE or client in holders]
        return sum(pinned) + sum(client.footprint_bytes or 0 for client in stay)

    def fit(self, holders: list[ModelClient]) -> bool:
        """Whether these may hold together."""
        if self.policy is Policy.OFF or len(holders) <= 1:
            return True
        if self.policy is Policy.EXCLUSIVE or any(client.footprint_bytes is None for client in holders):
            return False
        return self.needed(holders) <= self.total_bytes() - self.foreign_bytes

    def outgrown(self, slack: int) -> list[ModelClient]:
        """The holders that may be asked to leave because those who stay outgrew the device by more than ``slack``."""
        staying = self.staying()
        if self.policy is Policy.OFF or len(staying) <= 1:
            return []
        if self.policy is Policy.EXCLUSIVE:
            return staying
        free = [client for client in staying if client.backend is not Backend.NATIVE and client.footprint_bytes != 0]
        unknown = any(client.footprint_bytes is None for client in staying)
        too_much = self.needed(staying, assumed=False) > self.total_bytes() - self.foreign_bytes + slack
        return free if unknown or too_much else []

    def slack(self) -> int:
        """How much too much is let pass; none while nobody knows how much there is."""
        return max(OUTGROWN_BYTES, int(self.total_bytes() * OUTGROWN_SHARE)) if self.total_bytes() else 0

    def staying(self) -> list[ModelClient]:
        """The holders that were not asked to leave."""
        return [client for client in self.holders if client.turn and client.turn.revoked_at is None]

    def stuck(self) -> list[ModelClient]:
        """The unresponsive holders."""
        return [client for client in self.holders if client.turn and client.turn.reported]

    def first(self) -> ModelClient | None:
        """The first waiter that is not kept out by the unresponsive holders alone."""
        return next((client for client in self.queue if self.fit([*self.stuck(), client])), None)

    def blocking(self) -> list[ModelClient]:
        """Who must leave for the first waiter.

        The fewest of those that have had their quantum when the waiter can come in; the choice with the longest ones.
        """
        staying, stuck, first = self.staying(), self.stuck(), self.first()
        if first is None:
            return []
        counts = range(len(staying) + 1)
        soon = staying[: next(count for count in counts if self.fit([*stuck, *staying[count:], first]))]
        for count in counts:
            for leaving in combinations(soon, count):
                stay = [client for client in staying if client not in leaving]
                if self.fit([*stuck, *stay, first]):
                    return list(leaving)
        raise AssertionError("the first waiter does not fit though all leave")

    def may_pass(self, client: ModelClient) -> bool:
        """Whether a waiter behind the first may come in before it."""
        first, stuck = self.first(), self.stuck()
        if first is None or not self.fit([*self.holders, client]):
            return False
        blocking = self.blocking()
        then = [*stuck, *(each for each in self.staying() if each not in blocking), first]
        before, together = [first], True
        for other in self.queue[self.queue.index(first) + 1 : self.queue.index(client)]:
            if not self.fit([*stuck, other]):
                continue
            if together and self.fit([*then, other]):
                then.append(other)
            elif not self.fit([*then, other]) and not any(self.fit([*stuck, each, other]) for each in before):
                together = False
            else:
                return False
            before.append(other)
        return self.fit([*then, client])

    def to_kill(self) -> list[ModelClient]:
        """The fewest unresponsive holders that must go for the first in the queue, of those not killed yet.

        Of several choices the one with the longest ones.
        """
        stuck = [(client.turn, client) for client in self.stuck() if client.turn and not client.turn.killed]
        stuck.sort(key=lambda turn_client: (turn_client[0].began, turn_client[0].grant))
        alive = [client for _, client in stuck]
        for count in range(len(alive) + 1):
            for gone in combinations(alive, count):
                if not self.queue or self.fit([*(each for each in alive if each not in gone), self.queue[0]]):
                    return list(gone)
        raise AssertionError("a waiter does not fit alone")
