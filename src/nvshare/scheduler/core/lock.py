"""The lock of one device: who holds, who waits, who must leave.

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
- Gangs (gangs.py): the first of a gang on a device is in line for all of its members there, and they hold as one. A
  gang on several devices has each of them alone, and comes in only when ``Gangs`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvshare.scheduler.core.actions import Action, Grant, Kill, ReportUnresponsive, Revoke
from nvshare.scheduler.core.blocking import Blocking
from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.gang import Standing
from nvshare.scheduler.core.holders import Group, Holders
from nvshare.scheduler.core.leaving import must_leave
from nvshare.scheduler.core.ledger import Ledger
from nvshare.scheduler.core.passing import passing
from nvshare.scheduler.core.residency import Residency
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.snapshot import Line, Turn
from nvshare.scheduler.core.transitions import ClientState, Step
from nvshare.scheduler.core.turns import Turns


class Lock:
    """The lock of one device. After something changed, call ``arbitrate``."""

    def __init__(
        self, policy: Policy, quantum_seconds: float, settings: Settings, ledger: Ledger, residency: Residency
    ) -> None:
        self.policy = policy
        self.quantum_seconds = quantum_seconds
        self.awaited = 0
        """How many recorded holders are not back: while there are any, nothing is granted and no holder is blocking."""
        self.turns = Turns()
        """Who waits, in the order of their turns."""
        self.frozen = False
        """Like ``awaited``, since some of a gang of holders here may be awaited elsewhere."""
        self.grants = self.revokes = self.overdue = 0
        self._settings = settings
        self._ledger = ledger
        self._residency = residency
        self._holders = Holders(ledger)
        self._blocking = Blocking(self._holders, residency, self.turns)

    # What happened.

    def add(self, client: Client, revokes: int) -> None:
        """A client appeared, in whatever state; ``revokes``: how often it was asked to leave because of that."""
        self.revokes += revokes
        match client.state:
            case ClientState.WAITING:
                self.turns.add(client)
            case ClientState.HOLDING:
                self._holders.others.append(client)
            case ClientState.LEAVING:
                self._holders.leaving.append(client)
            case _:
                pass

    def remove(self, client: Client, now: float) -> None:
        """A client is gone."""
        if client.holds:
            self._holders.take_out(client)
        elif client in self.turns:
            self.turns.remove(client)
        self._vacate(now)

    def request(self, client: Client, now: float) -> None:
        """An idle client wants the lock."""
        client.advance(Step.REQUESTED)
        client.since = now
        if client.gang is None:
            self.turns.add(client)

    def summon(self, client: Client, now: float) -> None:
        """An idle client has to wait because its gang does."""
        client.advance(Step.SUMMONED)
        client.since, client.summoned = now, True

    def release(self, client: Client, now: float) -> None:
        """A holder gave its grant back."""
        self._holders.take_out(client)
        client.crossed_grant = None if client.state is ClientState.HOLDING else client.grant
        client.advance(Step.RELEASED)
        client.told = client.killed = client.summoned = False
        client.borrowed = ()
        client.held_seconds += now - client.since
        client.since = now
        self._vacate(now)

    def resize(self, client: Client, resize: Callable[[], None]) -> None:
        """A client's account is changed by ``resize``."""
        group = self._holders.group(client) if client.holds else None
        if group is not None:
            group.add_bytes(client, -1)
        resize()
        if group is not None:
            group.add_bytes(client, 1)

    # What is to be done.

    def comers(self) -> list[Client]:
        """Those that wait, in the order of their turns, but for those that are passed over."""
        coming = [client for client in self.turns.in_turn() if self._may_come(client)]
        return [mate for client in coming for mate in (client, *client.beside)] if self._holders.has_gangs else coming

    def squeeze(self) -> bool:
        """Finds who lacks memory that only holders can leave; whether that is news."""
        before = self._holders.squeezed
        self._holders.squeezed = self._holders.find_squeezed(self._residency.short)
        return self._holders.squeezed != before

    @property
    def paging_bytes(self) -> int:
        """The movable memory of holders that do not swap."""
        return self._holders.paging_bytes

    @property
    def quantum_end(self) -> float | None:
        """When holders are asked to leave for the first waiter; None: none has to."""
        if not self._blocking.clients:
            return None
        gang = self._blocking.gang
        return self._blocking.quantum_end(self.quantum_seconds) if gang is None else gang.due_at

    @property
    def deadline(self) -> float | None:
        """When ``arbitrate`` has something to do if nothing happens before; None: never."""
        deadline = self.quantum_end
        if self._holders.leaving.count:
            grace_end = self._holders.leaving.first().revoked_at + self._settings.grace_seconds
            deadline = grace_end if deadline is None else min(deadline, grace_end)
        return deadline

    def arbitrate(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Makes the lock follow its rules again."""
        first = self.admit(now, new_grant, actions)
        moved = self._blocking.find(self._in_need(first))
        if first is not None and self._blocking.gang is None:
            self._let_pass(first, now, new_grant, actions)
        elif first is not None:
            self._lend(first, now, new_grant, actions)
        end = self.quantum_end
        if end is not None and now >= end:
            self._revoke_blocking(now, actions)
        if self._holders.has_gangs:
            moved = self._holders.holding()
        self._blocking.tell(moved, max(1, len(self.turns)), actions)
        if self._holders.unresponsive.count and not self.awaited:
            self._kill(actions)

    def admit(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Client | None:
        """Grants to all that come in without a gang on several devices; returns the first that does not."""
        # Memory that swaps can't be in all at once.
        self._holders.rule = Policy.AUTO if self.policy is Policy.OFF and self._residency.clients else self.policy
        if self._holders.leaving.count:
            self._report_unresponsive(now, actions)
        self._revoke_surplus(now, actions)
        admit = self._admit_ready if self._residency.clients else self._admit
        return None if self.awaited or self.frozen else admit(now, new_grant, actions)

    # For gangs.

    @property
    def holders(self) -> Holders:
        """Who holds."""
        return self._holders

    @property
    def is_off(self) -> bool:
        """Whether everyone runs."""
        return self.policy is Policy.OFF and not self._residency.clients

    @property
    def idle_seconds(self) -> float:
        """How long a blocking holder is to be idle before it leaves by itself."""
        return self._blocking.idle_seconds

    def is_next(self, client: Client) -> bool:
        """Whether one that is in line is before all that may come."""
        if self.awaited or self.frozen:
            return False
        return next((each for each in self.turns.in_turn() if self._may_come(each)), None) is client

    def free_at(self, client: Client) -> float:
        """When those that block a gang's member, which is next, have had their quantum."""
        self._blocking.find(client)
        return self._blocking.quantum_end(self.quantum_seconds) if self._blocking.clients else float("-inf")

    def may_grant(self, client: Client, now: float) -> bool:
        """Whether a gang's members, the first of which is this, may come in now as far as this device goes."""
        holders = (self._holders.longest, self._holders.others, self._holders.leaving, self._holders.unresponsive)
        return self._holders.fits(holders, (client,)) and self._is_ready(client, now)

    def grant(self, client: Client, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to one that is in line, and to those beside it."""
        if self._holders.has_gangs:
            client.borrowed = self.turns.gangs_before(client)
        self.turns.remove(client)
        for each in (client, *client.beside):
            self._give(each, now, new_grant, actions)
            each.borrowed = client.borrowed
        client.beside = ()

    def revoke(self, client: Client, now: float, actions: list[Action]) -> None:
        """Asks a holder to leave."""
        self._holders.take_out(client)
        client.advance(Step.REVOKED)
        client.revoked_at = now
        self.revokes += 1
        self._holders.leaving.append(client)
        actions.append(Revoke(client.number, client.grant))

    def lines(self, now: float) -> Iterator[tuple[Client, Line]]:
        """Each that waits, and where."""
        ahead = (*self._holders.unresponsive, *self._holders.leaving, *self._blocking.clients)
        behind = tuple(Turn(client.number, now - client.since) for client in ahead)
        for position, client in enumerate(self.turns, start=1):
            for each in (client, *client.beside):
                too_large, seconds = self._residency.never_fits(each), now - each.since
                yield each, Line(position, len(self.turns), seconds, behind, self.awaited > 0, too_large)

    def _revoke_surplus(self, now: float, actions: list[Action]) -> None:
        slack_bytes = 0 if self._residency.holder_grows else self._ledger.slack_bytes
        if not self._holders.outgrown(slack_bytes):
            return
        for client in (*reversed(self._holders.others), *reversed(self._holders.longest)):
            account = client.account
            alone = self._holders.rule is Policy.EXCLUSIVE or self._holders.crowded
            if alone or account.movable_bytes or not account.is_known:
                self.revoke(client, now, actions)
            if not self._holders.outgrown(0):
                return

    def _admit(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Client | None:
        """Grants to waiters in their order; returns the first one that does not fit."""
        holders = (self._holders.longest, self._holders.others, self._holders.leaving, self._holders.unresponsive)
        while (first := self._first()) is not None and not first.is_wide and self._holders.fits(holders, (first,)):
            self.grant(first, now, new_grant, actions)
        return first

    def _admit_ready(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Client | None:
        """Like ``_admit``, but grants only to those whose memory is there; while it comes nobody else has to leave."""
        holders = (self._holders.longest, self._holders.others, self._holders.leaving, self._holders.unresponsive)
        coming = Group()
        for client in [client for client in self.turns.in_turn() if self._may_come(client)]:
            fits = self._holders.fits((*holders, coming), (client,))
            if not fits or (client.is_wide and not coming.count):
                return None if coming.count else client
            if self._is_ready(client, now):
                self.grant(client, now, new_grant, actions)
            else:
                for each in (client, *client.beside):
                    coming.append(each)
        return None

    def _may_come(self, client: Client) -> bool:  # else it is passed over and keeps no room
        if any(self._residency.never_fits(each) for each in (client, *client.beside)):
            return False
        return self._holders.fits((self._holders.unresponsive,), (client,))

    def _is_ready(self, client: Client, now: float) -> bool:
        """Whether a waiter that fits, and those beside it, may have the lock now as far as their memory goes."""
        paging_bytes = self._holders.paging_bytes
        for each in (client, *client.beside):
            swap = each.swap
            if swap is None:
                if not self._residency.has_room_for(each, paging_bytes):
                    return False
                paging_bytes += each.account.movable_bytes
            elif not swap.is_in and not (swap.may_be_in and self._residency.is_late(swap, now)):
                return False
        return True

    def _first(self) -> Client | None:
        """The first waiter that is not kept out by unresponsive holders alone."""
        if not self._holders.unresponsive.count:
            return next(self.turns.in_turn(), None)
        if self._holders.rule is Policy.EXCLUSIVE and not self._holders.has_gangs:
            return None
        stuck = (self._holders.unresponsive,)
        return next((client for client in self.turns.in_turn() if self._holders.fits(stuck, (client,))), None)

    def _give(self, client: Client, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        client.advance(Step.GRANTED)
        client.grant = new_grant()
        client.grants += 1
        self.grants += 1
        client.waited_seconds += now - client.since
        client.since = now
        self._holders.others.append(client)
        if self._residency.clients:
            self._residency.traffic.granted(now, swaps=client.swap is not None)
        actions.append(Grant(client.number, client.grant))

    def _let_pass(self, first: Client, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to waiters behind the first, which does not fit yet, whose grant delays nobody before them."""
        if self._holders.rule is not Policy.AUTO or len(self.turns) == 1 or self._holders.has_wide:
            return
        left_for_two = self._ledger.left_bytes - self._holders.unresponsive.movable_bytes
        left = left_for_two - self._holders.longest.movable_bytes - self._holders.others.movable_bytes
        left_now = left - self._holders.leaving.movable_bytes
        if left_now < 0 or self._holders.unknown:
            return
        waiters = self.turns.in_turn()
        if self._holders.unresponsive.count:
            waiters = (client for client in waiters if self._holders.fits((self._holders.unresponsive,), (client,)))
        left_then = left - first.account.movable_bytes - sum(each.account.movable_bytes for each in first.beside)
        for client in self._blocking.clients:
            left_then += client.account.movable_bytes
        for client in passing(waiters, first, left_now, left_then, left_for_two):
            if not self._residency.clients or self._is_ready(client, now):
                self.grant(client, now, new_grant, actions)

    def _lend(self, first: Client, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to waiters behind a gang that can't come in everywhere yet, until one of them does not fit."""
        if first.gang is None or first.gang.standing is not Standing.NEXT:
            return
        holders = (self._holders.longest, self._holders.others, self._holders.leaving, self._holders.unresponsive)
        for client in [each for each in self.turns.in_turn() if each is not first and self._may_come(each)]:
            if not self._holders.fits(holders, (client,)) or not self._is_ready(client, now):
                return
            self.grant(client, now, new_grant, actions)

    def _revoke_blocking(self, now: float, actions: list[Action]) -> None:
        for client in self._blocking.clients:
            self.revoke(client, now, actions)
        self._blocking.forget()

    def _in_need(self, first: Client | None) -> Client | None:
        """For whom holders have to leave: the first waiter, or who needs unmovable memory that only they can leave."""
        if first is not None or self._holders.squeezed is None:
            return first
        client = self._holders.squeezed[0]
        return client if client.swap is not None and client.swap.growth is not None and not client.holds else None

    def _vacate(self, now: float) -> None:
        if self._residency.clients and len(self.turns) and not self._holders.count:
            self._residency.traffic.vacant(now)

    def _report_unresponsive(self, now: float, actions: list[Action]) -> None:
        while self._holders.leaving.count:
            client = self._holders.leaving.first()
            if now < client.revoked_at + self._settings.grace_seconds:
                return
            self._holders.leaving.remove(client)
            client.advance(Step.OVERDUE)
            self.overdue += 1
            self._holders.unresponsive.append(client)
            actions.append(ReportUnresponsive(client.number, client.grant, now - client.revoked_at))

    def _kill(self, actions: list[Action]) -> None:
        """Kills as few unresponsive holders as must go for the first in the queue; the killed count as gone."""
        if self._settings.unresponsive is not Unresponsive.KILL or not len(self.turns):
            return
        first = next(iter(self.turns))
        alive = [client for client in self._holders.unresponsive if not client.killed]
        # They may have been asked to leave in another order than they came.
        alive.sort(key=lambda client: (client.since, client.grant))
        if not alive or self._holders.fits((), (*alive, first)):
            return
        lacking = sum(client.account.movable_bytes for client in (*alive, first)) - self._ledger.left_bytes
        for client in must_leave(self._holders.rule, alive, lacking, first):
            client.killed = True
            actions.append(Kill(client.number, client.grant))
