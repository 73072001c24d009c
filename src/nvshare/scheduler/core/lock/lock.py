"""The lock of one device: who holds, who waits, who must leave.

The rules, which hold after every event:

- *Fits*: under ``off`` always. Under ``exclusive`` alone. Under ``auto`` alone, or when every holder's footprint is
  known and the ledger has room for all (ledger.py). *Alone* means that nobody else holds: so a client that is larger
  than the device holds alone, and so does one for which idle clients leave too little. A managed client pages then.
- Waiters are admitted first come, first served: the first waiter is granted as soon as it fits beside all holders.
- Whoever can't come in before an unresponsive holder leaves, because it does not even fit beside the unresponsive ones
  alone, is passed over until then, the later the longer it has waited (stuck.py). So is who does not answer within the
  grace time what it was told of its memory: its process is stopped. *First* below is the first of the others.
- When the first waiter does not fit, some holders are *blocking*: they are told so, and are revoked together when all
  of them have had their turn: a quantum where all clients are alike, else what turns.py says. Which ones: (1) The
  waiter comes in as early as it can when nobody leaves before its turn is over. That is at the end of the turn of one
  certain holder: of the last of the fewest holders, in the order in which their turns end, without which it fits.
  (2) Of those that have had their turn by then, the fewest leave that make enough room, and of several choices the one
  with those whose turns ended first.
- A waiter behind the first may pass it when that delays nobody before it (as long as holders stay until they are asked
  to leave): it fits beside all holders, and beside the first waiter and those who stay when that comes in, and each one
  in between either (1) still fits there too, or (2) can't come in with them, nor beside any one before it even if
  nobody else held. The latter comes in a quantum later at the earliest, and then the one that passed has had its own:
  so where weights make quanta differ nobody passes such a one. Only the first PASSING_WAITERS are looked at, so that
  an event costs the same however many wait.
- Though nobody waits, a holder is revoked in two cases beside those of gangs. Its container has used up its compute
  limit (turns.py). Or holders have outgrown the device by more than a slack, because footprints or others' memory grew,
  or the policy changed or a client came back holding: then those whose leaving frees something are revoked, those of
  low classes and the most recent ones first, until the rest fit. Assumed memory does not count here: an assumption
  alone takes no lock away. Who came back holding may first say with whom it is one. For one that does not leave in
  time since it waits for memory, as a stream capture may, the others are revoked.
- A holder that has not left within the grace time is *unresponsive*: see stuck.py. While a recorded holder of the
  scheduler before this one is neither back nor dead, nothing is granted.
- Who is to sleep is passed over, and is asked to leave for one that lacks the room of its context: see way.py.
- Clients that fit together under ``auto``, and were measured to do better in turns, take turns; mix.py finds that out.
- In line are *units*: what comes in, holds and leaves as one, a client alone or a gang's members on the device. A gang
  on several devices has each of them alone, and comes in only when gangs.py says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvshare.scheduler.core.actions import Action, Grant, Revoke
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.blocking import Blocking
from nvshare.scheduler.core.lock.comers import Comers
from nvshare.scheduler.core.lock.holders import Group, Holders
from nvshare.scheduler.core.lock.passing import passing
from nvshare.scheduler.core.lock.service import NEVER
from nvshare.scheduler.core.lock.stuck import Stuck
from nvshare.scheduler.core.lock.turns import Turns
from nvshare.scheduler.core.lock.way import Way
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.mix.mix import MOST_CLIENTS, Mix
from nvshare.scheduler.core.records.client import Client, LostTurn, Unit
from nvshare.scheduler.core.records.gang import REJOIN_SECONDS, Phase
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.transitions import ClientState, Step


class Lock:
    """The lock of one device. After something changed, call ``arbitrate``."""

    def __init__(
        self, policy: Policy, quantum_seconds: float, settings: Settings, ledger: Ledger, residency: Residency
    ) -> None:
        self.policy = policy
        self.quantum_seconds = quantum_seconds
        self.awaited: dict[int, LostTurn | None] = {}
        """Recorded holders that are not back, by grant, and their turns; None: a scheduler before this one gave it.
        While there are any, nothing is granted and no holder is blocking."""
        self.mix = Mix()
        """Whether those that may hold together do."""
        self.frozen = False
        """Like ``awaited``, since some of a gang of holders here may be awaited elsewhere."""
        self.rejoin_end = NEVER
        """Until then holders that came back may say that they are one, and none is surplus; infinite: none came."""
        self.grants = self.revokes = 0
        self.holders = Holders(ledger, residency)
        """Who holds."""
        self.turns = Turns(settings, self.holders)
        """Who waits, in the order of their turns."""
        self.stuck = Stuck(self.holders, self.turns, ledger, residency, settings)
        self._ledger = ledger
        self._residency = residency
        self.blocking = Blocking(self.holders, residency, self.turns)
        self.way = Way(self.holders, self.turns)
        """Who leaves so that its process can sleep."""

    # What happened.

    def follow(self, policy: Policy) -> None:
        """The operator wants this policy."""
        self.policy = policy

    def set_quantum(self, seconds: float) -> None:
        """The operator wants turns of so many seconds."""
        self.quantum_seconds = seconds

    def await_holder(self, grant: int, turn: LostTurn | None) -> None:
        """A recorded holder is not back; see ``awaited``."""
        self.awaited[grant] = turn

    def await_no_more(self, grant: int) -> LostTurn | None:
        """It is back, or will not come; returns its turn."""
        return self.awaited.pop(grant)

    def freeze(self, *, frozen: bool) -> None:
        """Whether some of a gang of holders here may be awaited elsewhere."""
        self.frozen = frozen

    def add(self, client: Client, revokes: int, now: float) -> None:
        """A client appeared, in whatever state; ``revokes``: how often it was asked to leave because of that."""
        self.revokes += revokes
        self.turns.enter(client, client.since)
        if client.state is ClientState.HOLDING:
            self.rejoin_end = now + REJOIN_SECONDS if self.holders.count else self.rejoin_end
            self.holders.others.append(client)
        elif client.state is ClientState.LEAVING:
            self.holders.leaves(client)

    def remove(self, client: Client, now: float) -> None:
        """A client is gone."""
        self.holders.gone(client)
        self.way.gone(client)
        self.turns.leave(client, now)
        self.mix.gone(client)
        self._vacate(now)

    def request(self, client: Client, now: float) -> None:
        """An idle client wants the lock."""
        idle_seconds = client.wait(Step.REQUESTED, now)
        worth_seconds = self.blocking.worth_seconds(client) if self._residency.clients else 0.0
        self.turns.ask(client, idle_seconds, worth_seconds, now)
        self.mix.wanted(client, now)

    def summon(self, client: Client, now: float) -> None:
        """An idle client has to wait because its gang does."""
        client.wait(Step.SUMMONED, now)
        self.turns.ask(client, 0.0, 0.0, now)

    def fall_asleep(self, client: Client, now: float) -> None:
        """The process of a waiter sleeps."""
        client.fall_asleep(now)
        self.turns.line_up(client, waits=False)

    def release(self, client: Client, now: float) -> None:
        """A holder gave its grant back."""
        revoked_at = None if client.state is ClientState.HOLDING else client.revoked_at
        idle_seconds = self.blocking.idle_seconds if revoked_at is None else 0.0
        self.holders.take_out(client)
        since = client.since
        client.release(now)
        self.turns.give_back(client, since, revoked_at, now)
        self.mix.released(client, idle_seconds, now)
        self._vacate(now)

    def resize(self, client: Client, resize: Callable[[], None]) -> None:
        """What counts of a client's memory is changed by ``resize``."""
        group = self.holders.group(client) if client.holds else None
        if group is not None:
            group.add_bytes(client, -1)
        resize()
        if group is not None:
            group.add_bytes(client, 1)

    # What is to be done.

    @property
    def comers(self) -> Comers:
        """Who waits and is not passed over. Kept, it would be a cycle, and a lock not be gone that is let go."""
        return Comers(self.turns, self.may_come)

    @property
    def quantum_end(self) -> float | None:
        """When holders are asked to leave for the first waiter; None: none has to, or its class is too low for that."""
        return None if self.blocking.end == NEVER else self.blocking.end

    @property
    def deadline(self) -> float | None:
        """When ``arbitrate`` has something to do if nothing happens before; None: never."""
        moments = self.blocking.end, self.turns.deadline, self.way.end, self.rejoin_end, self.stuck.end
        deadline = min(*moments, self.mix.deadline)
        return None if deadline == NEVER else deadline

    def arbitrate(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Makes the lock follow its rules again."""
        grants, first = self.grants, self.admit(now, new_grant, actions)
        moved = self.blocking.find(self.holders.in_need(first), grows=first is None)
        if first is not None:
            come_in = self._let_pass if self.blocking.gang is None else self._lend
            come_in(first, now, new_grant, actions)
        if self.grants != grants:
            # Who came in may owe others of its time from now on.
            self._pass_time(now, actions)
        self.blocking.find_end()
        if now >= self.blocking.end:
            self._revoke_blocking(now, actions)
        self._make_way(first, now, actions)
        self.blocking.tell(moved, actions, self.mix.yielding | self.way.leaving, self._residency.with_surplus)
        if now >= self.stuck.end:
            # One was asked to leave that has had all its time for that before its connection was lost.
            self.arbitrate(now, new_grant, actions)
        elif any(self.holders.overdue()) and not self.awaited:
            self.stuck.kill(actions)

    def look(self, now: float) -> None:
        """Before anybody is judged by it counts what the operator has said, and what came with the time."""
        # Memory that swaps can't be in all at once.
        self.holders.follow(Policy.AUTO if self.policy is Policy.OFF and self._residency.clients else self.policy)
        self.turns.service.pass_time(now)
        self.turns.service.count_limits(limits=self.policy is not Policy.OFF)
        self.stuck.listen(now)

    def admit(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Unit | None:
        """Grants to all that come in without a gang on several devices; returns the first that does not."""
        self.look(now)
        self.stuck.report(now, actions)
        if self.mix.can_look:
            self._look_at_mix(now, actions)
        self.turns.service.set_quantum(self.mix.slice_seconds or self.quantum_seconds)
        self._pass_time(now, actions)
        self._revoke_surplus(now, actions)
        admit = self._admit_ready if self._residency.clients else self._admit
        return None if self.awaited or self.frozen else admit(now, new_grant, actions)

    # For gangs.

    @property
    def is_off(self) -> bool:
        """Whether everyone runs."""
        return self.policy is Policy.OFF and not self._residency.clients

    def is_next(self, unit: Unit, *, asleep: bool = False) -> bool:
        """Whether one that is in line is before all that may come; ``asleep``: as of ``may_come``."""
        able = (each for each in self.turns.in_turn() if self.may_come(each, asleep=asleep))
        return not (self.awaited or self.frozen) and next(able, None) is unit

    def free_at(self, unit: Unit) -> float:
        """When those that block a gang's unit, which is next, have had their turns."""
        self.blocking.find(unit)
        return self.blocking.free_at()

    def may_grant(self, unit: Unit, now: float) -> bool:
        """Whether a unit in line may come in now as far as this device goes."""
        return self.holders.fits(self.holders.groups, unit) and self._is_ready(unit, now)

    def grant(self, unit: Unit, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to one that is in line."""
        clients = unit.coming
        for client in clients:
            client.hold(new_grant(), now)
        self.grants += len(clients)
        self.turns.grant(unit, clients)
        for client in clients:
            self.holders.others.append(client)
            self.mix.granted(client, now)
            if self._residency.clients:
                self._residency.traffic.granted(now, swaps=client.memory.swaps)
            actions.append(Grant(client.number, client.grant))

    def revoke(self, client: Client, now: float, actions: list[Action]) -> None:
        """Asks a holder to leave."""
        self.holders.take_out(client)
        client.ask_to_leave(now)
        self.revokes += 1
        self.holders.leaves(client)
        actions.append(Revoke(client.number, client.grant))

    def _look_at_mix(self, now: float, actions: list[Action]) -> None:
        """Lets those take turns that fit together, and do better in turns."""
        users: list[Client] | None = None
        may_share = self.policy is Policy.AUTO and not self.awaited and not any(self.holders.overdue())
        if may_share and self.holders.count + len(self.turns) <= MOST_CLIENTS:
            units = (*self.holders, *self.turns)
            alone = [unit for unit in units if isinstance(unit, Client) and unit.part is None]
            users = alone if len(alone) == len(units) and self.holders.fits((), *units) else None
        self.mix.look(users, self.quantum_seconds, now, actions)
        if self.mix.apart:
            self.holders.follow(Policy.EXCLUSIVE)

    def _revoke_surplus(self, now: float, actions: list[Action]) -> None:
        slack_bytes = 0 if self._residency.holder_grows else self._ledger.slack_bytes
        self.rejoin_end = NEVER if now >= self.rejoin_end else self.rejoin_end
        if self.rejoin_end < NEVER or not self.holders.outgrown(slack_bytes):
            return
        staying = [*reversed(self.holders.others), *reversed(self.holders.longest)]
        if self.turns.are_several:
            staying.sort(key=lambda client: (client.priority, -client.since, -client.grant))
        for client in staying:
            alone = self.holders.rule is Policy.EXCLUSIVE or self.holders.longest.is_wide or self.holders.others.is_wide
            if alone or client.needed_bytes != 0:
                self.revoke(client, now, actions)
            if not self.holders.outgrown(0):
                return

    def _admit(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Unit | None:
        """Grants to waiters in their order; returns the first one that does not fit."""
        fits, holders = self.holders.fits, self.holders.groups
        while (first := next(self._able(), None)) is not None and not first.is_wide and fits(holders, first):
            self.grant(first, now, new_grant, actions)
        return first

    def _admit_ready(self, now: float, new_grant: Callable[[], int], actions: list[Action]) -> Unit | None:
        """Like ``_admit``, but grants only to those whose memory is there; while it comes nobody else has to leave."""
        coming = Group()
        for unit in filter(self.may_come, list(self.turns.in_turn())):
            fits = self.holders.fits((*self.holders.groups, coming), unit)
            if not fits or (unit.is_wide and not coming.count):
                return None if coming.count else unit
            if self._is_ready(unit, now):
                self.grant(unit, now, new_grant, actions)
            else:
                for client in unit.coming:
                    coming.append(client)
        return None

    def may_come(self, unit: Unit, *, asleep: bool = False) -> bool:
        """Whether nothing but others' turns keeps out one that is in line, or who can sleep (``asleep``); else it is
        passed over and keeps no room."""
        residency, made = self._residency, self.way.made
        for client in unit.coming if residency.clients else ():
            lacks = residency.never_fits(client) and not (asleep and residency.fits_asleep(client))
            if lacks or client.silent or client is made or client.is_held_back:
                return False
        fits = self.holders.fits_beside_stuck
        return not self._keeps_out or (self.turns.may_come(unit) and fits(unit, asleep=asleep))

    def _able(self) -> Iterator[Unit]:
        """Those in line that nothing but others' turns keeps out."""
        able = self.turns.in_turn()
        return filter(self.may_come, able) if self._keeps_out or self._residency.clients else able

    @property
    def _keeps_out(self) -> bool:
        """Whether a limit or an unresponsive holder may keep somebody out."""
        return bool(self.turns.service.limited) or self.holders.unresponsive.count > 0

    def _is_ready(self, unit: Unit, now: float) -> bool:
        """Whether a unit that fits may have the lock now as far as its memory goes."""
        paging_bytes = self.holders.paging_bytes
        for client in unit.coming:
            memory = client.memory
            if not memory.swaps:
                if not self._residency.has_room_for(client, paging_bytes):
                    return False
                paging_bytes += self._residency.needed_bytes(client)
            elif not memory.is_in and not (memory.may_be_in and self._residency.is_late(client, now)):
                return False
        return True

    def _let_pass(self, first: Unit, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to waiters behind the first, which does not fit yet, whose grant delays nobody before them."""
        if self.holders.rule is not Policy.AUTO or len(self.turns) == 1:
            return
        left_for_two = self._ledger.left_bytes - self.holders.unresponsive.movable_bytes
        left = left_for_two - self.holders.longest.movable_bytes - self.holders.others.movable_bytes
        left_now = left - self.holders.leaving.movable_bytes - self.holders.late.movable_bytes
        if left_now < 0 or self.holders.unknown:
            return
        left_then = left - (first.needed_bytes or 0) - self.holders.squeeze_bytes(first)
        for client in self.blocking.clients.values():
            left_then += client.memory.movable_bytes
        even = not self.turns.service.uneven
        for unit in passing(self._able(), first, left_now, left_then, left_for_two, even=even):
            if not self._residency.clients or self._is_ready(unit, now):
                self.grant(unit, now, new_grant, actions)

    def _lend(self, first: Unit, now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to waiters behind a gang that can't come in everywhere yet, until one of them does not fit."""
        if first.gang is None or first.gang.phase is not Phase.NEXT:
            return
        for unit in list(filter(self.may_come, self.turns.in_turn())):
            if unit is not first:
                if not self.may_grant(unit, now):
                    return
                self.grant(unit, now, new_grant, actions)

    def _revoke_blocking(self, now: float, actions: list[Action]) -> None:
        self.blocking.push(now)
        for client in self.blocking.clients.values():
            self.revoke(client, now, actions)
        self.blocking.forget()

    def _make_way(self, first: Unit | None, now: float, actions: list[Action]) -> None:
        self.way.find(first, self.blocking.least_seconds)
        if self.way.holder is not None and now >= self.way.end:
            self.revoke(self.way.make(), now, actions)
            self.way.find(first, self.blocking.least_seconds)

    def _pass_time(self, now: float, actions: list[Action]) -> None:
        used_up = self.turns.prepare(self.may_come)
        for client in self.holders.holding() if used_up else ():
            if client.container in used_up and not client.helps:
                self.turns.cut(client, self.blocking.least_seconds, now)
                self.revoke(client, now, actions)

    def _vacate(self, now: float) -> None:
        if self._residency.clients and len(self.turns) and not self.holders.count:
            self._residency.traffic.vacant(now)
