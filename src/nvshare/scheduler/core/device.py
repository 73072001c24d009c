"""The arbitration of one device: who holds, who waits, who must leave.

The rules, which hold after every event:

- Waiters are admitted first come, first served, without overtaking: the first waiter is granted as soon as it fits
  beside everybody who holds; those behind it wait for it. So a large client is never starved by small ones.
- *Fits*: under ``off`` always. Under ``exclusive`` alone. Under ``auto`` alone, or when every footprint is known and
  the footprints of all holders and the pinned memory of all clients (idle ones keep their contexts) together fit
  the memory that other processes leave free. So a client that is larger than the device holds it alone.
- When the first waiter does not fit, the holders that have held longest, and only as many of them as must leave for
  it, are *blocking*: they are told so, and are revoked together when the last of them has had its quantum.
  (Revoking one of them sooner would leave the device to fewer holders without helping the waiter.)
- The one case in which a holder is revoked though nobody waits: holders no longer fit together, because footprints
  grew, others' memory grew, the policy changed or a client came back holding. Then the most recent holder is revoked,
  until the rest fit. Assumed pinned memory does not count here: an assumption alone takes no lock away.
- While a recorded holder of the scheduler before this one is neither back nor dead, nothing is granted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from nvshare.scheduler.core.actions import Action, Grant, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.client import Client, Group
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.snapshot import DeviceSnapshot, Line, Totals, Turn
from nvshare.scheduler.core.transitions import ClientState, Step


class Device:
    """One device and its clients. After a method that changes something, call ``reconcile``."""

    def __init__(self, uuid: str, policy: Policy, quantum_seconds: float, grace_seconds: float) -> None:
        self.uuid = uuid
        self.policy = policy
        self.quantum_seconds = quantum_seconds
        self.total_bytes = 0
        self.foreign_bytes = 0
        self.deadline: float | None = None
        """When ``reconcile`` has something to do if nothing happens before; None: never."""
        self.awaited = 0
        """How many recorded holders are not back: while there are any, nothing is granted and no holder is blocking."""
        self._grace_seconds = grace_seconds
        self._clients: dict[int, Client] = {}
        self._waiting: OrderedDict[int, Client] = OrderedDict()
        # Every holder is in one of these. _blocking followed by _staying is in the order of the grants.
        self._blocking = Group()
        self._staying = Group()
        self._leaving = Group()
        self._unresponsive = Group()
        self._pinned_bytes = 0
        self._measured_pinned_bytes = 0
        # The seconds are those of clients that are gone.
        self._grants = self._revokes = self._overdue = 0
        self._held_seconds = self._waited_seconds = 0.0

    # What happened.

    def add(self, client: Client, revokes: int) -> None:
        """A client appeared, in whatever state; ``revokes``: how often it was asked to leave because of that."""
        self._revokes += revokes
        self._clients[client.number] = client
        self._pinned_bytes += client.pinned_bytes
        match client.state:
            case ClientState.WAITING:
                self._waiting[client.number] = client
            case ClientState.HOLDING:
                self._staying.append(client)
            case ClientState.LEAVING:
                self._leaving.append(client)
            case _:
                pass

    def remove(self, client: Client, now: float) -> None:
        """A client is gone, and what it had is free."""
        last = client.snapshot(now)
        self._held_seconds += last.held_seconds
        self._waited_seconds += last.waited_seconds
        if client.holds:
            self._group(client).remove(client)
        elif client.state is ClientState.WAITING:
            del self._waiting[client.number]
        self._pinned_bytes -= client.pinned_bytes
        if client.pinned_measured:
            self._measured_pinned_bytes -= client.pinned_bytes
        del self._clients[client.number]

    def request(self, client: Client, now: float) -> None:
        """An idle client wants the lock."""
        client.advance(Step.REQUESTED)
        client.since = now
        self._waiting[client.number] = client

    def release(self, client: Client, now: float) -> None:
        """A holder gave its grant back."""
        self._group(client).remove(client)
        client.crossed_grant = None if client.state is ClientState.HOLDING else client.grant
        client.advance(Step.RELEASED)
        client.blocking = client.told = False
        client.held_seconds += now - client.since
        client.since = now

    def resize(self, client: Client, footprint_bytes: int) -> None:
        """A client's footprint changed."""
        if client.holds:
            self._group(client).resize(client, footprint_bytes)
        else:
            client.footprint_bytes = footprint_bytes

    def measure(self, client: Client, pinned_bytes: int) -> None:
        """A client's pinned memory was measured."""
        self._pinned_bytes += pinned_bytes - client.pinned_bytes
        self._measured_pinned_bytes += pinned_bytes - (client.pinned_bytes if client.pinned_measured else 0)
        client.pinned_bytes = pinned_bytes
        client.pinned_measured = True

    # What is to be done.

    def reconcile(self, now: float, new_grant: Callable[[], int]) -> list[Action]:
        """Makes the state follow the rules again; returns the actions that this takes."""
        actions: list[Action] = []
        self._revoke_surplus(now, actions)
        if not self.awaited:
            self._admit(now, new_grant, actions)
        moved = self._find_blocking()
        if self._blocking.count and now >= self._quantum_end():
            self._revoke_blocking(now, actions)
        _tell(moved, len(self._waiting), actions)
        self._report_unresponsive(now, actions)
        self.deadline = self._next_deadline()
        return actions

    def snapshot(self, now: float) -> DeviceSnapshot:
        """The device and its clients at ``now``."""
        lines = {client.number: line for client, line in self._lines(now)}
        clients = tuple(client.snapshot(now, lines.get(client.number)) for client in self._clients.values())
        return DeviceSnapshot(
            device=self.uuid,
            total_bytes=self.total_bytes,
            foreign_bytes=self.foreign_bytes,
            policy=self.policy,
            quantum_seconds=self.quantum_seconds,
            quantum_left_seconds=max(0.0, self._quantum_end() - now) if self._blocking.count else None,
            recovering=self.awaited > 0,
            clients=clients,
            totals=Totals(
                grants=self._grants,
                revokes=self._revokes,
                unresponsive=self._overdue,
                held_seconds=self._held_seconds + sum(client.held_seconds for client in clients),
                waited_seconds=self._waited_seconds + sum(client.waited_seconds for client in clients),
            ),
        )

    def line(self, client: Client, now: float) -> Line | None:
        """Where a client waits at ``now``; None: it does not."""
        return next((line for waiter, line in self._lines(now) if waiter is client), None)

    def _lines(self, now: float) -> Iterator[tuple[Client, Line]]:
        groups = (self._unresponsive, self._leaving, self._blocking)
        behind = tuple(Turn(client.number, now - client.since) for group in groups for client in group.clients())
        for position, client in enumerate(self._waiting.values(), start=1):
            yield client, Line(position, len(self._waiting), now - client.since, behind, self.awaited > 0)

    def _revoke_surplus(self, now: float, actions: list[Action]) -> None:
        holders = (self._staying, self._blocking)
        while not self._fits(holders, (), self._measured_pinned_bytes):
            newest = (self._staying if self._staying.count else self._blocking).last()
            self._revoke(newest, now, actions)

    def _admit(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        holders = (self._staying, self._blocking, self._leaving, self._unresponsive)
        while self._waiting:
            client = next(iter(self._waiting.values()))
            if not self._fits(holders, (client,), self._pinned_bytes):
                return
            del self._waiting[client.number]
            client.advance(Step.GRANTED)
            client.grant = new_grant()
            client.grants += 1
            self._grants += 1
            client.waited_seconds += now - client.since
            client.since = now
            self._staying.append(client)
            actions.append(Grant(client.number, client.grant))

    def _find_blocking(self) -> list[Client]:
        """Finds anew which holders block the first waiter; returns those for which the answer changed."""
        moved: list[Client] = []
        first = None if self.awaited or not self._waiting else next(iter(self._waiting.values()))
        staying = (self._staying,)
        while self._blocking.count:
            client = self._blocking.last()
            if first is not None and not self._fits(staying, (client, first), self._pinned_bytes):
                break
            self._blocking.remove(client)
            self._staying.prepend(client)
            client.blocking = False
            moved.append(client)
        while first is not None and self._staying.count and not self._fits(staying, (first,), self._pinned_bytes):
            client = self._staying.first()
            self._staying.remove(client)
            self._blocking.append(client)
            client.blocking = True
            moved.append(client)
        return moved

    def _revoke_blocking(self, now: float, actions: list[Action]) -> None:
        while self._blocking.count:
            self._revoke(self._blocking.first(), now, actions)

    def _revoke(self, client: Client, now: float, actions: list[Action]) -> None:
        self._group(client).remove(client)
        client.advance(Step.REVOKED)
        client.revoked_at = now
        self._revokes += 1
        self._leaving.append(client)
        actions.append(Revoke(client.number, client.grant))

    def _report_unresponsive(self, now: float, actions: list[Action]) -> None:
        while self._leaving.count:
            client = self._leaving.first()
            if now < client.revoked_at + self._grace_seconds:
                return
            self._leaving.remove(client)
            client.advance(Step.OVERDUE)
            self._overdue += 1
            self._unresponsive.append(client)
            actions.append(ReportUnresponsive(client.number, client.grant, now - client.revoked_at))

    def _quantum_end(self) -> float:
        return self._blocking.last().since + self.quantum_seconds

    def _next_deadline(self) -> float | None:
        quantum_end = self._quantum_end() if self._blocking.count else None
        if not self._leaving.count:
            return quantum_end
        grace_end = self._leaving.first().revoked_at + self._grace_seconds
        return grace_end if quantum_end is None else min(quantum_end, grace_end)

    def _group(self, client: Client) -> Group:
        match client.state:
            case ClientState.HOLDING:
                return self._blocking if client.blocking else self._staying
            case ClientState.LEAVING:
                return self._leaving
            case _:
                return self._unresponsive

    def _fits(self, holders: tuple[Group, ...], others: tuple[Client, ...], pinned_bytes: int) -> bool:
        """Whether these holders and the others may hold together while ``pinned_bytes`` are pinned."""
        policy = self.policy
        if policy is Policy.OFF:
            return True
        count, unknown, needed = len(others), 0, pinned_bytes
        for group in holders:
            count += group.count
            unknown += group.unknown
            needed += group.footprint_bytes
        if count <= 1:
            return True
        if policy is Policy.EXCLUSIVE or unknown:
            return False
        for client in others:
            if client.footprint_bytes is None:
                return False
            needed += client.footprint_bytes
        return needed <= self.total_bytes - self.foreign_bytes


def _tell(moved: list[Client], waiters: int, actions: list[Action]) -> None:
    for client in moved:
        if client.state is ClientState.HOLDING and client.blocking is not client.told:
            client.told = client.blocking
            actions.append(TellWaiters(client.number, waiters if client.blocking else 0))
