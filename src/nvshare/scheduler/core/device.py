"""The arbitration of one device: who holds, who waits, who must leave.

The rules, which hold after every event:

- *Fits*: under ``off`` always. Under ``exclusive`` alone. Under ``auto`` alone, or when every holder's footprint is
  known and the ledger has room for all holders (see ledger.py). *Alone* means that nobody else holds: so a client that
  is larger than the device holds alone, and so does one for which idle clients leave too little. These can't be sent
  away by asking; a managed client pages then, and a native one's memory is on the device already.
- Waiters are admitted first come, first served: the first waiter is granted as soon as it fits beside all holders.
- Whoever can't come in before an unresponsive holder leaves, because it does not even fit beside the unresponsive ones
  alone, is passed over until then. *First* below is the first of the others.
- When the first waiter does not fit, some holders are *blocking*: they are told so, and are revoked together when all
  of them have had their quantum. Which ones: (1) The waiter comes in as early as it can when nobody leaves before its
  quantum is over. That is at the end of the quantum of one certain holder: of the last of the fewest longest holders
  without which it fits. (2) Of those that have had their quantum by then, the fewest leave that make enough room, and
  of several choices the one with the longest holders.
- A waiter behind the first may pass it when that delays nobody before it (as long as holders stay until they are asked
  to leave): it fits beside all holders, and beside the first waiter and those who stay when that comes in, and each one
  in between either (1) still fits there too, or (2) can't come in with them, nor beside the one before it even if
  nobody else held. The latter comes in a quantum later at the earliest, and then the one that passed has had its own.
  Only the first PASSING_WAITERS are looked at, so that an event costs the same however many wait.
- The one case in which a holder is revoked though nobody waits: holders have outgrown the device by more than a slack,
  because footprints or others' memory grew, or the policy changed or a client came back holding. Then those whose
  leaving frees something are revoked, the most recent first, until the rest fit. Assumed memory does not count here: an
  assumption alone takes no lock away.
- A holder that has not left within the grace time is *unresponsive*. If the operator chose so, as few of these as must
  leave for the first in the queue are killed.
- While a recorded holder of the scheduler before this one is neither back nor dead, nothing is granted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nvshare.scheduler.core.actions import Action, Grant, Kill, ReportUnresponsive, Revoke
from nvshare.scheduler.core.arenas import Host
from nvshare.scheduler.core.blocking import Blocking
from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.events import GrowthRequested, Policy, ResidencyReported
from nvshare.scheduler.core.holders import Group, Holders
from nvshare.scheduler.core.leaving import must_leave
from nvshare.scheduler.core.ledger import Ledger
from nvshare.scheduler.core.passing import passing
from nvshare.scheduler.core.residency import Residency
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.snapshot import DeviceSnapshot, Line, Totals, Turn
from nvshare.scheduler.core.swap import Swap
from nvshare.scheduler.core.transitions import ClientState, Step

ROUNDS: Final = 3
"""How often lock and residency look at each other's answer to one event; what is left over comes with the next."""


class Device:
    """One device and its clients. After a method that changes something, call ``reconcile``."""

    def __init__(self, uuid: str, policy: Policy, quantum_seconds: float, settings: Settings, host: Host) -> None:
        self.uuid = uuid
        self.policy = policy
        self.quantum_seconds = quantum_seconds
        self.ledger = Ledger(settings.reserve_bytes)
        self.residency = Residency(uuid, self.ledger, host, settings.grace_seconds)
        self.deadline: float | None = None
        """When ``reconcile`` has something to do if nothing happens before; None: never."""
        self.awaited = 0
        """How many recorded holders are not back: while there are any, nothing is granted and no holder is blocking."""
        self._settings = settings
        self._clients: dict[int, Client] = {}
        self._waiting: OrderedDict[int, Client] = OrderedDict()
        self._holders = Holders(self.ledger)
        self._blocking = Blocking(self._holders, self.residency)
        # The seconds are those of clients that are gone.
        self._grants = self._revokes = self._overdue = 0
        self._held_seconds = self._waited_seconds = 0.0

    @property
    def in_use(self) -> bool:
        """Whether it has clients, or waits for holders of the scheduler before this one."""
        return bool(self._clients or self.awaited or self.residency.awaited)

    # What happened.

    def add(self, client: Client, revokes: int) -> None:
        """A client appeared, in whatever state; ``revokes``: how often it was asked to leave because of that."""
        self._revokes += revokes
        self._clients[client.number] = client
        self.ledger.open(client.account)
        match client.state:
            case ClientState.WAITING:
                self._waiting[client.number] = client
            case ClientState.HOLDING:
                self._holders.others.append(client)
            case ClientState.LEAVING:
                self._holders.leaving.append(client)
            case _:
                pass
        if client.swap is not None:
            self.residency.add(client)

    def remove(self, client: Client, now: float) -> None:
        """A client is gone, and what it had is free; but where memory swaps it stays charged."""
        self.residency.remove(client)
        last = client.snapshot(now)
        self._held_seconds += last.held_seconds
        self._waited_seconds += last.waited_seconds
        if client.holds:
            self._holders.take_out(client)
        elif client.state is ClientState.WAITING:
            del self._waiting[client.number]
        self.ledger.close(client.account)
        del self._clients[client.number]
        self._vacate(now)

    def request(self, client: Client, now: float) -> None:
        """An idle client wants the lock."""
        client.advance(Step.REQUESTED)
        self._assume_context(client)
        client.since = now
        if client.swap is not None:
            client.swap.progress_at = now
            client.swap.has_context = True
        self._waiting[client.number] = client

    def release(self, client: Client, now: float) -> None:
        """A holder gave its grant back."""
        self._holders.take_out(client)
        client.crossed_grant = None if client.state is ClientState.HOLDING else client.grant
        client.advance(Step.RELEASED)
        client.told = client.killed = False
        client.held_seconds += now - client.since
        client.since = now
        if client.swap is not None:
            client.swap.progress_at = now
        self._vacate(now)

    def resize(self, client: Client, footprint_bytes: int | None) -> None:
        """A client's footprint changed, or what it will have."""
        group = self._holders.group(client) if client.holds else None
        if group is not None:
            group.add_bytes(client, -1)
        more = () if client.swap is None else (client.swap.growing_bytes, client.swap.fixed_bytes)
        self.ledger.resize(client.account, footprint_bytes, *more)
        if group is not None:
            group.add_bytes(client, 1)

    def grow(self, client: Client, swap: Swap, event: GrowthRequested, now: float) -> None:
        """A client that swaps wants to be admitted so much."""
        self._assume_context(client)
        swap.growth, swap.doubted = event, None
        # The first context comes before anything else.
        swap.has_context |= event.footprint_bytes > 0 or event.fixed_bytes > 0
        self.residency.growing[client.number] = client
        if client.state is ClientState.HOLDING and self.residency.refusal(swap, now) is None:
            swap.growing_bytes = event.footprint_bytes
            self.resize(client, client.account.footprint_bytes)

    def report(self, client: Client, swap: Swap, event: ResidencyReported, now: float) -> None:
        """A client that swaps told its memory."""
        self.residency.report(swap, event, now)
        self.resize(client, event.footprint_bytes)

    def pin(self, client: Client, pinned_bytes: int, now: float, *, measured: bool) -> None:
        """A client's pinned memory was measured, or a better assumption is there; not for a context being made."""
        swap = client.swap
        if swap is not None:
            if swap.is_growing(pinned_bytes, now) if measured else swap.makes_context(now):
                return
            swap.has_context |= measured and pinned_bytes > 0 and swap.growth is None
        self.ledger.pin(client.account, pinned_bytes, measured=measured)

    # What is to be done.

    def reconcile(self, now: float, new_grant: Callable[[], int]) -> list[Action]:
        """Makes the state follow the rules again; returns the actions that this takes."""
        actions: list[Action] = []
        self._arbitrate(now, new_grant, actions)
        if not self.residency.clients:
            self.deadline = self._next_deadline()
            return actions
        for _ in range(ROUNDS):
            before = self._holders.squeezed
            waiting = [client for client in self._waiting.values() if self._may_come(client)]
            actions += self.residency.plan(waiting, self._holders.paging_bytes, now)
            for client in self.residency.resized:
                self.resize(client, client.account.footprint_bytes)
            self._holders.squeezed = self._holders.find_squeezed(self.residency.short)
            if self._holders.squeezed == before and not self.residency.resized:
                break
            self._arbitrate(now, new_grant, actions)
        self.deadline = self._next_deadline()
        return actions

    def _arbitrate(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Makes the lock follow its rules again."""
        # Memory that swaps can't be in all at once.
        self._holders.rule = Policy.AUTO if self.policy is Policy.OFF and self.residency.clients else self.policy
        if self._holders.leaving.count:
            self._report_unresponsive(now, actions)
        self._revoke_surplus(now, actions)
        admit = self._admit_ready if self.residency.clients else self._admit
        first = None if self.awaited else admit(now, new_grant, actions)
        moved = self._blocking.find(self._in_need(first))
        if first is not None:
            self._let_pass(first, now, new_grant, actions)
        if self._blocking.clients and now >= self._blocking.quantum_end(self.quantum_seconds):
            self._revoke_blocking(now, actions)
        self._blocking.tell(moved, max(1, len(self._waiting)), actions)
        if self._holders.unresponsive.count and not self.awaited:
            self._kill(actions)

    def snapshot(self, now: float) -> DeviceSnapshot:
        """The device and its clients at ``now``."""
        lines = {client.number: line for client, line in self._lines(now)}
        clients = tuple(client.snapshot(now, lines.get(client.number)) for client in self._clients.values())
        return DeviceSnapshot(
            device=self.uuid,
            total_bytes=self.ledger.total_bytes,
            foreign_bytes=self.ledger.foreign_bytes,
            policy=self.policy,
            quantum_seconds=self.quantum_seconds,
            quantum_left_seconds=max(0.0, self._blocking.quantum_end(self.quantum_seconds) - now)
            if self._blocking.clients
            else None,
            recovering=self.awaited > 0,
            clients=clients,
            totals=Totals(
                grants=self._grants,
                revokes=self._revokes,
                unresponsive=self._overdue,
                held_seconds=self._held_seconds + sum(client.held_seconds for client in clients),
                waited_seconds=self._waited_seconds + sum(client.waited_seconds for client in clients),
            ),
            traffic=self.residency.traffic.snapshot(),
            total_measured=self.ledger.total_measured,
            reserve_bytes=self.ledger.reserve_bytes,
            shortage_bytes=self.ledger.shortage_bytes,
            in_doubt=any(client.swap.doubted for client in self.residency.growing.values() if client.swap),
        )

    def line(self, client: Client, now: float) -> Line | None:
        """Where a client waits at ``now``; None: it does not."""
        return next((line for waiter, line in self._lines(now) if waiter is client), None)

    def _lines(self, now: float) -> Iterator[tuple[Client, Line]]:
        ahead = (*self._holders.unresponsive, *self._holders.leaving, *self._blocking.clients)
        behind = tuple(Turn(client.number, now - client.since) for client in ahead)
        for position, client in enumerate(self._waiting.values(), start=1):
            too_large, seconds = self.residency.never_fits(client), now - client.since
            yield client, Line(position, len(self._waiting), seconds, behind, self.awaited > 0, too_large)

    def _revoke_surplus(self, now: float, actions: list[Action]) -> None:
        slack_bytes = 0 if self.residency.holder_grows else self.ledger.slack_bytes
        if not self._holders.outgrown(slack_bytes):
            return
        for client in (*reversed(self._holders.others), *reversed(self._holders.longest)):
            account = client.account
            if self._holders.rule is Policy.EXCLUSIVE or account.movable_bytes or not account.is_known:
                self._revoke(client, now, actions)
            if not self._holders.outgrown(0):
                return

    def _admit(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Client | None:
        """Grants to waiters in their order; returns the first one that does not fit."""
        holders = (self._holders.longest, self._holders.others, self._holders.leaving, self._holders.unresponsive)
        while (first := self._first()) is not None and self._holders.fits(holders, (first,)):
            self._grant(first, now, new_grant, actions)
        return first

    def _admit_ready(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Client | None:
        """Like ``_admit``, but grants only to those whose memory is there; while it comes nobody else has to leave."""
        holders = (self._holders.longest, self._holders.others, self._holders.leaving, self._holders.unresponsive)
        coming = Group()
        for client in [each for each in self._waiting.values() if self._may_come(each)]:
            if not self._holders.fits((*holders, coming), (client,)):
                return None if coming.count else client
            if self._is_ready(client, now):
                self._grant(client, now, new_grant, actions)
            else:
                coming.append(client)
        return None

    def _may_come(self, client: Client) -> bool:  # else it is passed over and keeps no room
        return not self.residency.never_fits(client) and self._holders.fits((self._holders.unresponsive,), (client,))

    def _is_ready(self, client: Client, now: float) -> bool:
        """Whether a waiter that fits may have the lock now as far as its memory goes."""
        swap = client.swap
        if swap is None:
            return self.residency.has_room_for(client, self._holders.paging_bytes)
        return swap.is_in or (swap.may_be_in and self.residency.is_late(swap, now))

    def _first(self) -> Client | None:
        """The first waiter that is not kept out by unresponsive holders alone."""
        if not self._holders.unresponsive.count:
            return next(iter(self._waiting.values()), None)
        if self._holders.rule is Policy.EXCLUSIVE:
            return None
        stuck = (self._holders.unresponsive,)
        return next((client for client in self._waiting.values() if self._holders.fits(stuck, (client,))), None)

    def _grant(self, client: Client, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        del self._waiting[client.number]
        client.advance(Step.GRANTED)
        client.grant = new_grant()
        client.grants += 1
        self._grants += 1
        client.waited_seconds += now - client.since
        client.since = now
        self._holders.others.append(client)
        if self.residency.clients:
            self.residency.traffic.granted(now, swaps=client.swap is not None)
        actions.append(Grant(client.number, client.grant))

    def _let_pass(self, first: Client, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to waiters behind the first, which does not fit yet, whose grant delays nobody before them."""
        if self._holders.rule is not Policy.AUTO or len(self._waiting) == 1:
            return
        left_for_two = self.ledger.left_bytes - self._holders.unresponsive.movable_bytes
        left = left_for_two - self._holders.longest.movable_bytes - self._holders.others.movable_bytes
        left_now = left - self._holders.leaving.movable_bytes
        if left_now < 0 or self._holders.unknown:
            return
        waiters: Iterable[Client] = self._waiting.values()
        if self._holders.unresponsive.count:
            waiters = (client for client in waiters if self._holders.fits((self._holders.unresponsive,), (client,)))
        left_then = left - first.account.movable_bytes
        for client in self._blocking.clients:
            left_then += client.account.movable_bytes
        for client in passing(waiters, first, left_now, left_then, left_for_two):
            if not self.residency.clients or self._is_ready(client, now):
                self._grant(client, now, new_grant, actions)

    def _revoke_blocking(self, now: float, actions: list[Action]) -> None:
        for client in self._blocking.clients:
            self._revoke(client, now, actions)
        self._blocking.forget()

    def _in_need(self, first: Client | None) -> Client | None:
        """For whom holders have to leave: the first waiter, or who needs unmovable memory that only they can leave."""
        if first is not None or self._holders.squeezed is None:
            return first
        client = self._holders.squeezed[0]
        return client if client.swap is not None and client.swap.growth is not None and not client.holds else None

    def _assume_context(self, client: Client) -> None:
        """It was assumed to have no context, or was refused one; but whoever wants to work has one."""
        if not client.account.pinned_measured and client.account.pinned_bytes == 0:
            assumed = self.ledger.assumed_pinned_bytes(client.account, self._settings.assumed_pinned_bytes)
            self.ledger.pin(client.account, assumed, measured=False)

    def _vacate(self, now: float) -> None:
        if self.residency.clients and self._waiting and not self._holders.count:
            self.residency.traffic.vacant(now)

    def _revoke(self, client: Client, now: float, actions: list[Action]) -> None:
        self._holders.take_out(client)
        client.advance(Step.REVOKED)
        client.revoked_at = now
        self._revokes += 1
        self._holders.leaving.append(client)
        actions.append(Revoke(client.number, client.grant))

    def _report_unresponsive(self, now: float, actions: list[Action]) -> None:
        while self._holders.leaving.count:
            client = self._holders.leaving.first()
            if now < client.revoked_at + self._settings.grace_seconds:
                return
            self._holders.leaving.remove(client)
            client.advance(Step.OVERDUE)
            self._overdue += 1
            self._holders.unresponsive.append(client)
            actions.append(ReportUnresponsive(client.number, client.grant, now - client.revoked_at))

    def _kill(self, actions: list[Action]) -> None:
        """Kills as few unresponsive holders as must go for the first in the queue; the killed count as gone."""
        if self._settings.unresponsive is not Unresponsive.KILL or not self._waiting:
            return
        first = next(iter(self._waiting.values()))
        alive = [client for client in self._holders.unresponsive if not client.killed]
        # They may have been asked to leave in another order than they came.
        alive.sort(key=lambda client: (client.since, client.grant))
        if not alive or self._holders.fits((), (*alive, first)):
            return
        lacking = sum(client.account.movable_bytes for client in (*alive, first)) - self.ledger.left_bytes
        for client in must_leave(self._holders.rule, alive, lacking, first):
            client.killed = True
            actions.append(Kill(client.number, client.grant))

    def _next_deadline(self) -> float | None:
        deadline = self.residency.deadline
        if self._blocking.clients:
            quantum_end = self._blocking.quantum_end(self.quantum_seconds)
            deadline = quantum_end if deadline is None else min(deadline, quantum_end)
        if self._holders.leaving.count:
            grace_end = self._holders.leaving.first().revoked_at + self._settings.grace_seconds
            deadline = grace_end if deadline is None else min(deadline, grace_end)
        return deadline
