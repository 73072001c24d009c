"""In which order those who wait for a device get it, and for how long.

The rules; lock.py says how they are applied:

- *Order*: by priority class, and within a class first come, first served. Whoever was asked to leave before its turn
  was over keeps its place if it asks again soon, and has what is left of its quantum then.
- *Quantum*: the device's quantum times the client's share of its container's weight: the clients of a container that
  hold or wait share it equally. What programs say of their weights themselves divides what their user's containers have
  without that, a weight of 1 each; an operator's word counts against all. Where one quantum would be shorter than
  SHORTEST_QUANTUM, or not worth the hand-over, all are longer by the same factor. None is longer than some quanta, or
  than as many of the shortest that is worth it. Where shares differ, what leaving took is taken off the next turn.
- *Priority*: a holder leaves at once for the first waiter if that is of a higher class, and never for one of a lower
  class, but for the floor: while a higher class wants the device all the time, the lower ones together are owed a share
  of that time, and so are the lower ones of these. When they are owed a slice, the first of them goes before the higher
  class for a turn of that length, and stays until it is over.
- *Bursts*: a container saves its fair share of the device's time as long as it does not use it, up to some credit
  (credit.py). Who asks after it was idle, and whose container has enough credit for more than the hand-over costs, goes
  before others of its class, and holders of that class leave for it at once. If it took a turn from
  anybody by that, its own is as long as the credit; then it waits as others do.
- *Compute limit*: a container whose budget (budget.py) is used up leaves at once, though nobody waits, and its clients
  are passed over until there is enough of it again. They are told to give way when they are idle: a budget is used by
  whoever holds, busy or not, and once by all that hold together. Under ``off`` nothing is limited.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.containers import Container
from nvshare.scheduler.core.gangs.gang import Gang
from nvshare.scheduler.core.lock.classes import Classes
from nvshare.scheduler.core.lock.floor import Floor
from nvshare.scheduler.core.lock.standing import AT_ONCE, NEVER, Standings
from nvshare.scheduler.core.lock.stay import KEPT_SECONDS
from nvshare.scheduler.core.settings import SHORTEST_QUANTUM, Settings
from nvshare.scheduler.core.terms import Priority
from nvshare.scheduler.core.transitions import ClientState

SLICE_SECONDS: Final = 1.0
"""How long the floor's slices are, where a quantum is not shorter, and the hand-over is worth it."""
RESTING_SECONDS: Final = 0.02
"""Who asks again so soon was not idle."""
LEAST_BURST: Final = 0.1
"""A shorter one is not worth it: what a holder has queued takes tens of milliseconds to complete."""

DUE: Final = 0
"""The rank of who has a slice. The ranks of each class follow: who bursts, and the others."""
COMMON: Final = (0, 6, 4, 2)
"""The rank of those who do not burst, by class; the first place is empty. Who bursts is just before."""


class Turns:
    """The waiters of one device, and the turns of all its clients."""

    def __init__(self, settings: Settings) -> None:
        self.standings = Standings(settings)
        self.is_alike = True
        """All clients are, since there were none, and no bursts: first come, first served, one quantum each.

        Nothing is counted then."""
        self.classes = Classes()
        self._members: dict[int, Client] = {}
        self._ranks: list[OrderedDict[int, Client]] = [OrderedDict() for _ in range(2 * len(Priority) + 1)]
        self._last_tickets = [0] * len(self._ranks)
        """The highest of those that ever were in each rank."""
        self._count = 0
        self._told_limited = False
        self._floor = Floor(settings.floor)
        self._due_at = NEVER
        """When the lower classes will be owed a slice."""
        self._slice_seconds = 0.0
        """Of the slice that somebody has, or waits for."""
        self._now = 0.0

    def __iter__(self) -> Iterator[Client]:
        common = self._ranks[COMMON[Priority.NORMAL]]
        return iter(common.values()) if len(common) == self._count else self._each()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, client: Client) -> bool:
        return client.number in self._ranks[client.stay.rank]

    # Gangs: one member on a device is in line for all that are there.

    def line_up(self, client: Client, leads: bool, beside: tuple[Client, ...]) -> None:
        """Whether a client of a gang is in line now, and who comes in with it."""
        client.beside = beside
        if leads and client not in self:
            self._line_up(client)
        elif not leads and client in self:
            self._step_out(client)

    def leave_class(self, clients: Sequence[Client]) -> None:
        """Their class is about to change with their gang's, or with the gang; ``enter_class`` when it has."""
        for client in clients:
            self.line_up(client, leads=False, beside=())
            self.classes.count(client, -1)
            if client.holds and not self.is_alike:
                self.classes.count_holder(client, -1)

    def enter_class(self, clients: Sequence[Client], now: float) -> None:
        """They have another class, or the same."""
        for client in clients:
            self.classes.count(client, 1)
            if client.holds and not self.is_alike:
                self.classes.count_holder(client, 1)
        if self.is_alike and self.classes.are_several:
            self._begin_counting(now)

    def in_turn(self) -> Iterator[Client]:
        """Those that are in line, but for gangs that are passed over."""
        return (client for client in self if client.gang is None or not client.gang.is_passed_over)

    def gangs_before(self, client: Client) -> tuple[Gang, ...]:
        """The gangs on several devices that are before one that is in line."""
        found: list[Gang] = []
        for each in self:
            if each is client:
                break
            if each.gang is not None and each.gang.wide:
                found.append(each.gang)
        return tuple(found)

    # What happens to a client.

    def enter(self, client: Client, now: float) -> None:
        """A client is in a container, which has its terms, in whatever state."""
        self.standings.enter(client.container, now)
        self._members[client.number] = client
        self.classes.count(client, 1)
        if client.state is ClientState.WAITING and client.gang is None:
            self._line_up(client)
        if not self.is_alike:
            self._take_up(client, now)
        elif self.standings.are_special or self.classes.are_several:
            self._begin_counting(now)

    def leave(self, client: Client, now: float) -> None:
        """A client is not in its container any more, or that is about to have other terms."""
        standing = self.standings[client.container]
        self.standings.save(standing, now)
        if client in self:
            self._step_out(client)
        if not self.is_alike and client.state is not ClientState.IDLE:
            if client.holds:
                self.classes.count_holder(client, -1)
                self.standings.let_go(standing, now)
            self.standings.rest(standing)
        self.classes.count(client, -1)
        self.standings.leave(standing, now, keeps=not self.is_alike)
        del self._members[client.number]

    def ask(self, client: Client, idle_seconds: float, worth_seconds: float, now: float) -> None:
        """A client waits that was idle for so long; a turn of ``worth_seconds`` is worth the hand-over to it.

        One of a gang is not in line yet.
        """
        if self.is_alike:
            if client.gang is None:
                self._line_up(client)
            return
        standing = self.standings[client.container]
        standing.worth_seconds = standing.worth_seconds or worth_seconds
        if self.standings.bursts:
            self.standings.save(standing, now)
            has_credit = standing.credit is not None and client.gang is None
            if standing.credit is not None and has_credit and not standing.active and not client.stay.keeps:
                rested = idle_seconds >= (KEPT_SECONDS if client.stay.revoked else RESTING_SECONDS)
                client.stay.bursting = rested and standing.credit.seconds >= max(LEAST_BURST, worth_seconds)
        self.standings.activate(standing)
        if client.gang is None:
            self._line_up(client)

    def grant(self, client: Client, now: float) -> None:
        """A waiter holds."""
        leads = client in self
        if self.is_alike:
            if leads:
                self._step_out(client)
            return
        stay, standing = client.stay, self.standings[client.container]
        self.standings.save(standing, now)
        # Else it took no turn from anybody.
        ahead = stay.bursting and (stay.pushed or len(self._ranks[stay.rank + 1]) > 0)
        if leads and stay.rank == DUE:
            stay.seconds, stay.is_slice = self._slice_seconds, True
            self._floor.pay(client.priority, self._slice_seconds)
        elif ahead and standing.credit is not None:
            stay.seconds = max(LEAST_BURST, standing.credit.seconds)
        stay.keeps = False
        if leads:
            self._step_out(client)
        self.standings.hold(standing, now)
        self.classes.count_holder(client, 1)

    def cut(self, client: Client, least_seconds: float, now: float) -> None:
        """A holder is asked to leave; no quantum is shorter than ``least_seconds``."""
        client.stay.cut(client.since, now, self._quantum(client, least_seconds))

    def give_back(self, client: Client, now: float) -> None:
        """A holder leaves; it is still as it was."""
        if self.is_alike:
            return
        stay, standing = client.stay, self.standings[client.container]
        self.standings.save(standing, now)
        self.classes.count_holder(client, -1)
        self.standings.let_go(standing, now)
        self.standings.rest(standing)
        revoked_at = None if client.state is ClientState.HOLDING else client.revoked_at
        if stay.is_slice and stay.seconds is not None and revoked_at is None:
            unused_seconds = stay.seconds - (now - client.since)
            if unused_seconds > 0:
                self._floor.pay(client.priority, -unused_seconds)
        stay.end(client.since, revoked_at, now, owes=bool(self.standings.uneven))

    def worth(self, client: Client, seconds: float) -> None:
        """A turn of so many seconds is worth the hand-over to a client."""
        self.standings[client.container].worth_seconds = seconds

    # Whose turn it is, and until when.

    def prepare(self, may_come: Callable[[Client], bool], now: float, limits: bool) -> list[Container]:
        """Time passed, or something changed; returns the containers whose budget is used up.

        ``limits``: compute limits count. There is nothing to do while all are alike.
        """
        self.tell_time(now)
        used_up = self.standings.use_up(now, limits=limits)
        if self.classes.are_several or self._ranks[DUE]:
            self._promote(may_come)
        else:
            self._due_at = NEVER
        self.is_alike = not self._members
        return used_up

    def tell_time(self, now: float) -> None:
        """What compute limits let come is seen as it is now."""
        self._now = now

    @property
    def has_limits(self) -> bool:
        """Whether a client has a compute limit."""
        return bool(self.standings.limited)

    def may_come(self, client: Client) -> bool:
        """Whether its compute limit lets a waiter hold now; it does if one of its gang can't stop before."""
        return client.helps or not self.standings.limited or self.standings.ready_at(client.container) <= self._now

    def limit_seconds(self, client: Client, now: float) -> float:
        """How long its compute limit keeps a waiter out as far as that is known; 0: it does not."""
        return max(0.0, self.standings.ready_at(client.container) - now)

    def is_limited(self, client: Client) -> bool:
        """Whether a compute limit counts for a client, so that it should not hold while it is idle."""
        return self.standings.limits and client.container in self.standings.limited

    def tells_limited(self) -> bool:
        """Whether holders may have to be told that they should not hold while they are idle, or that they may."""
        told, self._told_limited = self._told_limited, bool(self.standings.limited)
        return told or self._told_limited

    @property
    def is_uneven(self) -> bool:
        """Whether quanta may differ."""
        return bool(self.standings.uneven)

    def is_plain(self, first: Client) -> bool:
        """Whether every holder's turn for this first waiter is one quantum, as long as any other."""
        return not (self.classes.odd or self.standings.uneven or self.classes.are_several or first.stay.bursting)

    def end(self, holder: Client, first: Client, least_seconds: float) -> float:
        """When the turn of a holder is over for the first waiter: AT_ONCE, NEVER, or a time.

        No quantum is shorter than ``least_seconds``.
        """
        stay = holder.stay
        if stay.seconds is not None:
            end = holder.since + stay.seconds
        else:
            quantum = self._quantum(holder, least_seconds)
            if stay.left != 1.0:
                quantum = max(stay.left * quantum, least_seconds, SHORTEST_QUANTUM)
            end = holder.since + quantum
        priority, other = holder.priority, first.priority
        if first.state is not ClientState.WAITING or (priority == other and not first.stay.bursting):
            return end
        if first.stay.rank == DUE:
            return AT_ONCE if priority > other else end
        if priority > other:
            return NEVER
        keeps = stay.seconds is not None and (stay.is_slice or priority == other)
        return end if keeps and self._now < end else AT_ONCE

    @property
    def deadline(self) -> float:
        """When ``prepare`` has something to do if nothing happens before."""
        return min(self._due_at, self.standings.deadline(self._now)) if self.standings.limited else self._due_at

    # The rest is its own.

    def _quantum(self, client: Client, least_seconds: float) -> float:
        return self.standings.quantum(self.standings[client.container], least_seconds)

    def _each(self) -> Iterator[Client]:
        for rank in self._ranks:
            yield from rank.values()

    def _promote(self, may_come: Callable[[Client], bool]) -> None:
        """Puts the first of the lower classes before all others when they are owed a slice."""
        due = next(iter(self._ranks[DUE].values()), None)
        first: dict[Priority, Client] = {}
        for client in self:
            kept_out = client.gang is not None and client.gang.kept_out
            if client.priority not in first and not kept_out and may_come(client):
                first[client.priority] = client
        wanting = [priority for priority in Priority if priority in first or self.classes.holding[priority]]
        growing = []
        for priority in wanting:
            has_slice = any(self.classes.slices[:priority])
            waits = has_slice or any(other < priority for other in first)
            if waits and (has_slice or self.classes.holding[priority]):
                growing.append(priority)
        slices = {priority: self._slice(client) for priority, client in first.items()}
        self._floor.pass_time(self._now, growing, max(slices.values(), default=SLICE_SECONDS))
        self._due_at = NEVER
        highest = max(wanting, default=Priority.LOW)
        if due is not None:
            # Those who gave way for it may not have asked again yet.
            if first.get(due.priority) is due:
                return
            self._step_out(due)
            self._line_up(due)
        lower = sorted((priority for priority in first if priority < highest), reverse=True)
        while len(lower) > 1 and self._floor.is_due(lower[0], slices[lower[1]]):
            del lower[0]
        if not lower:
            return
        chosen, seconds = first[lower[0]], slices[lower[0]]
        if self._floor.is_due(highest, seconds):
            self._slice_seconds = seconds
            self._step_out(chosen)
            self._line_up(chosen, DUE)
        else:
            self._due_at = self._floor.due_at(highest, seconds)

    def _slice(self, client: Client) -> float:
        worth_seconds = self.standings[client.container].worth_seconds
        return max(min(SLICE_SECONDS, self._quantum(client, worth_seconds)), worth_seconds)

    def _line_up(self, client: Client, rank: int | None = None) -> None:
        """A client waits, in this rank or in that of its class."""
        if rank is None:
            rank = COMMON[client.priority] - client.stay.bursting
        client.stay.rank = rank
        waiting = self._ranks[rank]
        waiting[client.number] = client
        if client.ticket > self._last_tickets[rank]:
            self._last_tickets[rank] = client.ticket
        elif len(waiting) > 1:
            ordered = sorted(waiting.values(), key=lambda each: each.ticket)
            waiting.clear()
            waiting.update((each.number, each) for each in ordered)
        self._count += 1
        if not self.is_alike:
            self.standings.set_waiters(self._count)

    def _step_out(self, client: Client) -> None:
        """A client does not wait any more where it did."""
        del self._ranks[client.stay.rank][client.number]
        self._count -= 1
        if not self.is_alike:
            client.stay.bursting = client.stay.pushed = False
            self.standings.set_waiters(self._count)

    def _begin_counting(self, now: float) -> None:
        """Not all are alike any more."""
        self.is_alike = False
        for each in self._members.values():
            self._take_up(each, now)

    def _take_up(self, client: Client, now: float) -> None:
        """Counts a client that was not counted yet."""
        if client.state is ClientState.IDLE:
            return
        standing = self.standings[client.container]
        self.standings.activate(standing)
        if client.holds:
            self.standings.hold(standing, now)
            self.classes.count_holder(client, 1)
