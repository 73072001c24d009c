"""Which holders block the first waiter, until when, and what they are told of it. The rules are in lock.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nvshare.scheduler.core.actions import Action, TellWaiters
from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.gang import Gang
from nvshare.scheduler.core.holders import Holders
from nvshare.scheduler.core.leaving import must_leave
from nvshare.scheduler.core.residency import Residency
from nvshare.scheduler.core.transitions import ClientState
from nvshare.scheduler.core.turns import Turns

IDLE_SECONDS: Final = 0.02
"""How long a holder that others wait for is idle before it releases: about what a hand-over without swapping costs."""

QUANTUM_STALLS: Final = 24
"""No quantum is shorter than so many times what the hand-over at its end costs: with drain and changes below 5 %."""

_FoundFor = tuple[Client, bool, int, Policy, int, Gang | None]
"""First waiter, whether its footprint is known, the bytes it lacks, the policy, the ``changes`` of the longest holders,
the gang for which it needs the device alone.

Where all are the same, so are the blocking ones.
"""


class Blocking:
    """The blocking holders of one device."""

    def __init__(self, holders: Holders, residency: Residency, turns: Turns) -> None:
        self.clients: list[Client] = []
        """Those of the longest that must leave, in their order."""
        self._holders = holders
        self._residency = residency
        self._turns = turns
        self.gang: Gang | None = None
        """The first waiter's, if that is on several devices."""
        self._found_for: _FoundFor | None = None
        """What they were found for."""
        self._stall_bytes = 0
        """What has to move for the first waiter when they have left."""

    def forget(self) -> None:
        """Nobody blocks any more."""
        self._set(None, [])

    def tell(self, moved: Sequence[Client], waiters: int, actions: list[Action]) -> None:
        """Tells those for whom ``find`` may have changed the answer, where it did."""
        idle_seconds = self.idle_seconds
        for client in moved:
            if client.gang is None and client.state is ClientState.HOLDING and client.blocking is not client.told:
                client.told = client.blocking
                if client.blocking:
                    actions.append(TellWaiters(client.number, waiters, idle_seconds))
                else:
                    actions.append(TellWaiters(client.number, 0, 0.0))

    def find(self, first: Client | None) -> Sequence[Client]:
        """Finds anew which holders block the first waiter; returns all for which the answer may have changed."""
        self._holders.arrange(first)
        self.gang = first.gang if first is not None and first.is_wide else None
        if first is None or not self._holders.longest.count:
            self._stall_bytes = 0
            return self._set(None, [])
        lacking = self._holders.lacking_bytes(first) + self._holders.squeeze_bytes(first)
        known, changes = first.account.is_known, self._holders.longest.changes
        found_for = (first, known, lacking, self._holders.rule, changes, self.gang)
        if found_for == self._found_for:
            return ()
        self._stall_bytes = 0
        if first.swap is not None:
            self._stall_bytes = min(lacking, first.account.movable_bytes)
        elif self._residency.clients:
            self._stall_bytes = min(lacking, self._holders.longest.movable_bytes - self._holders.longest.paging_bytes)
        return self._set(found_for, must_leave(self._holders.rule, list(self._holders.longest), lacking, first))

    def _set(self, found_for: _FoundFor | None, blocking: list[Client]) -> list[Client]:
        # Those that left meanwhile block no more.
        moved = [client for client in reversed(self.clients) if client.blocking]
        for client in moved:
            client.blocking = False
        for client in blocking:
            client.blocking = True
        self._found_for = found_for
        self.clients = blocking
        moved += blocking
        return moved

    def _stall_seconds(self) -> float:
        """How long the hand-over to the first waiter will take, as far as nothing can be moved before it."""
        return self._residency.traffic.seconds(self._stall_bytes)

    def quantum_end(self, quantum_seconds: float) -> float:
        """When the blocking ones have had their quantum; there are some."""
        if self._stall_bytes:
            quantum_seconds = max(quantum_seconds, QUANTUM_STALLS * self._stall_seconds())
        holders = list(self._holders.longest)
        if self.gang is not None:
            holders = [client for client in holders if self.gang not in client.borrowed]
        return self._turns.end(holders, quantum_seconds) if holders else float("-inf")

    @property
    def idle_seconds(self) -> float:
        """How long a blocking one is to be idle before it leaves by itself."""
        return max(IDLE_SECONDS, self._stall_seconds())
