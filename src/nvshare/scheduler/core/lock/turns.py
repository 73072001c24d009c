"""In which order those who wait for a device get it, and for how long.

The rules; lock.py says how they are applied:

- *Order*: by priority class, and within a class first come, first served. Whoever was asked to leave before its turn
  was over keeps its place if it asks again soon, and has what is left of its quantum then.
- *Quantum*: the device's quantum times the client's share (service.py). Where one quantum would be shorter than
  SHORTEST_QUANTUM, or not worth the hand-over, all are longer by the same factor. None is longer than some quanta, or
  than as many of the shortest that is worth it. Where shares differ, what leaving took is taken off the next turn.
- *Priority*: a holder leaves at once for the first waiter if that is of a higher class, and never for one of a lower
  class, but for the floor: while a higher class wants the device all the time, the lower ones together are owed a share
  of that time, and so are the lower ones of these. When they are owed a slice, the first of them goes before the higher
  class for a turn of that length, and stays until it is over: a quantum, or a second where that is less. It may be
  one that lacks room for memory or a context: it pays at once, since others may sleep for it (sleep/relief.py) whether
  it uses its slice or not. Its turn comes when it has the room; for one that it has before it pays as well. No gang on
  several devices has one while another such gang of a higher class is in line: their order is the same on all devices,
  so that none waits for another.
- *Bursts*: who asks after it was idle, and whose container saved more than the hand-over costs, goes before others of
  its class, and holders of that class leave for it at once. If it took a turn from anybody by that, its own is as long
  as what was saved; then it waits as others do.
- *Compute limit*: a container whose budget is used up leaves at once, though nobody waits, and its clients
  are passed over until there is enough of it again. They are told to give way when they are idle: a budget is used by
  whoever holds, busy or not, and once by all that hold together. Under ``off`` nothing is limited.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nvshare.scheduler.core.lock.floor import SLICE_SECONDS, Floor
from nvshare.scheduler.core.lock.holders import Holders
from nvshare.scheduler.core.lock.service import AT_ONCE, NEVER, Service
from nvshare.scheduler.core.records.client import Client, Part, Unit
from nvshare.scheduler.core.records.containers import Container
from nvshare.scheduler.core.records.gang import Gang, Phase
from nvshare.scheduler.core.records.stay import KEPT_SECONDS
from nvshare.scheduler.core.settings import SHORTEST_QUANTUM, Settings
from nvshare.scheduler.core.terms import Priority
from nvshare.scheduler.core.transitions import ClientState

RESTING_SECONDS: Final = 0.02
"""Who asks again so soon was not idle."""
LEAST_BURST: Final = 0.1
"""A shorter one is not worth it: what a holder has queued takes tens of milliseconds to complete."""

DUE: Final = 0
"""The rank of who has a slice. The ranks of each class follow: who bursts, and the others."""
COMMON: Final = (0, 6, 4, 2)
"""The rank of those who do not burst, by class; the first place is empty."""
BURSTING: Final = (1, 3, 5)
"""Who bursts is just before the others of the class."""


class Turns:
    """The waiters of one device, and the turns of all its clients."""

    def __init__(self, settings: Settings, holders: Holders) -> None:
        self._holders = holders
        self._ranks: list[OrderedDict[Unit, None]] = [OrderedDict() for _ in range(2 * len(Priority) + 1)]
        self._rank_of: dict[Unit, int] = {}
        """Where each waits."""
        self.parts: dict[Part, None] = {}
        """Those of them that are no single clients."""
        self._class_of: dict[int, Priority] = {}
        """Of every client, as it was counted."""
        self._classes: dict[Priority, int] = {}
        """How many clients each class has that has any."""
        self._pushing: set[Unit] = set()
        """Those that wait to burst for which holders were asked to leave."""
        self._floor = Floor(settings.floor)
        self._due_at = NEVER
        """When the lower classes will be owed a slice."""
        self._lacking: dict[Priority, Client] = {}
        """The first of each class that lacks room, as ``lack`` was told."""
        self.service = Service(settings, self._rank_of)
        """What containers are owed."""

    def __iter__(self) -> Iterator[Unit]:
        common = self._ranks[COMMON[Priority.NORMAL]]
        return iter(common) if len(common) == len(self._rank_of) else (unit for rank in self._ranks for unit in rank)

    def __len__(self) -> int:
        return len(self._rank_of)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._rank_of

    def in_turn(self) -> Iterator[Unit]:
        """Those that are in line, but for gangs that are passed over."""
        return iter(self) if not self.parts else (unit for unit in self if not self.is_passed_over(unit))

    def in_turn_asleep(self) -> Iterator[Unit]:
        """Those in turn, and gangs for which others are to sleep."""
        return (unit for unit in self if not self.is_passed_over(unit) or (unit.gang and unit.gang.lacks_sleep))

    def last_first(self) -> Iterator[Unit]:
        """The same, the last in line first."""
        backwards = (unit for rank in reversed(self._ranks) for unit in reversed(rank))
        return backwards if not self.parts else (unit for unit in backwards if not self.is_passed_over(unit))

    @staticmethod
    def is_passed_over(unit: Unit) -> bool:
        """Whether it is of a gang that others may pass."""
        return unit.gang is not None and unit.gang.is_passed_over

    def place(self, client: Client) -> tuple[int, int]:
        """Where a client waits, or would if it did: who is before another has a lower one."""
        unit, growth = client.unit, client.memory.growth
        rank = DUE if client.is_due or client.stay.is_slice else self._rank_of.get(unit, COMMON[client.priority])
        ticket = unit.ticket if unit in self._rank_of else client.ticket
        return rank, ticket if growth is None else min(ticket, growth.ticket)

    def line_up(self, unit: Unit, *, waits: bool) -> None:
        """Whether a unit is in line from now on."""
        if waits and unit not in self:
            self._line_up(unit, self._rank(unit))
        elif not waits and unit in self:
            self._step_out(unit)

    def lack(self, first: dict[Priority, Client]) -> bool:
        """These lack room for memory or a context from now on and have no slice, the first of each class; whether that
        is news."""
        news, self._lacking = first != self._lacking, first
        return news

    # What happens to a client.

    def enter(self, client: Client, now: float) -> None:
        """A client is in a container, which has its terms, in whatever state."""
        self.service.pass_time(now)
        self.service.enter(client)
        self.reclass(client)
        if client.state is ClientState.WAITING and client.part is None:
            self._line_up(client, self._rank(client))

    def leave(self, client: Client, now: float) -> None:
        """A client is not in its container any more."""
        self.service.pass_time(now)
        self.service.leave(client)
        self._count(self._class_of.pop(client.number), -1)
        if client.unit in self._rank_of:
            self._step_out(client.unit)
        self._lacking = {priority: lacking for priority, lacking in self._lacking.items() if lacking is not client}

    def renew(self, container: Container, now: float) -> None:
        """A container has other clients, or other terms; each of its clients may be of another class then."""
        self.service.pass_time(now)
        self.service.renew(container)

    def reclass(self, client: Client) -> None:
        """A client has its gang's class, or its container's, and that may be another than before."""
        before, priority = self._class_of.get(client.number), client.priority
        if before is priority:
            return
        self._class_of[client.number] = priority
        self._count(priority, 1)
        if before is not None:
            self._count(before, -1)
        if client.unit in self:
            self._step_out(client.unit)
            self._line_up(client.unit, self._rank(client.unit))

    def ask(self, client: Client, idle_seconds: float, worth_seconds: float, now: float) -> None:
        """A client waits that was idle for so long; a turn of ``worth_seconds`` is worth the hand-over to it.

        One of a gang is not in line yet.
        """
        self.service.pass_time(now)
        saved_seconds, stay = self.service.asks(client, worth_seconds), client.stay
        if client.part is None:
            rested = idle_seconds >= (KEPT_SECONDS if stay.revoked else RESTING_SECONDS)
            bursts = rested and not stay.keeps and saved_seconds >= max(LEAST_BURST, worth_seconds)
            self._line_up(client, DUE if client.has_slice else COMMON[client.priority] - bursts)

    def grant(self, unit: Unit, clients: Sequence[Client]) -> None:
        """A unit in line came in: these hold now. Where it has a burst or a slice, the first of them has that."""
        rank, seconds, borrowed = self._rank_of[unit], None, self._gangs_before(unit) if self.parts else ()
        first, paid_seconds = clients[0], 0.0
        account = self.service.look(first.container)
        due = [client for client in clients if client.has_slice]
        for client in due:
            client.owe(is_due=False)
        if rank == DUE:
            seconds = self.service.slice(first, SLICE_SECONDS)
            if not due:
                paid_seconds = seconds
                self._floor.pay(unit.priority, seconds)
        elif rank in BURSTING and (unit in self._pushing or self._ranks[rank + 1]):
            # Else it took no turn from anybody.
            seconds = max(LEAST_BURST, account.saved_seconds)
        first.stay.begin(borrowed, seconds, is_slice=rank == DUE, paid_seconds=paid_seconds)
        for client in clients[1:]:
            self.service.look(client.container)
            client.stay.begin(borrowed)
        self._step_out(unit)

    def push(self, first: Unit, holders: Iterable[Client], least_seconds: float, now: float) -> None:
        """These are asked to leave for the first waiter; no quantum is shorter than ``least_seconds``."""
        if self.is_bursting(first):
            self._pushing.add(first)
        for holder in holders:
            self.cut(holder, least_seconds, now)

    def cut(self, holder: Client, least_seconds: float, now: float) -> None:
        """A holder is asked to leave."""
        holder.stay.cut(holder.since, now, self.service.quantum(holder, least_seconds))

    def give_back(self, client: Client, since: float, revoked_at: float | None, now: float) -> None:
        """A client that held since then does not any more; ``revoked_at`` None: it was not asked to leave."""
        self.service.pass_time(now)
        stay = client.stay
        if revoked_at is None and stay.paid_seconds > now - since:
            self._floor.pay(client.priority, now - since - stay.paid_seconds)
        stay.end(since, revoked_at, now, owes=bool(self.service.uneven))
        self.service.look(client.container)

    # Whose turn it is, and until when.

    def prepare(self, may_come: Callable[[Unit], bool]) -> list[Container]:
        """Time passed, or something changed; returns the containers whose budget is used up."""
        used_up = self.service.use_up()
        self._due_at = NEVER
        if self.are_several or self._ranks[DUE]:
            self._promote(may_come)
        return used_up

    @property
    def are_several(self) -> bool:
        """Whether there are clients of several classes."""
        return len(self._classes) > 1

    def is_bursting(self, unit: Unit) -> bool:
        """Whether one waits and goes before others of its class."""
        return self._rank_of.get(unit) in BURSTING

    def may_come(self, unit: Unit) -> bool:
        """Whether compute limits let a unit hold now; they do if one of its gang can't stop before."""
        service = self.service
        for client in unit.coming if service.limited else ():
            if not client.helps and service.ready_at(client.container) > service.now:
                return False
        return True

    def is_plain(self, first: Unit) -> bool:
        """Whether every holder's turn for this first waiter is one quantum, as long as any other."""
        odd = self._holders.odd or self.service.uneven or self.are_several
        return not (odd or self.is_bursting(first))

    def end(self, holder: Client, first: Unit, least_seconds: float) -> float:
        """When the turn of a holder is over for the first waiter: AT_ONCE, NEVER, or a time.

        No quantum is shorter than ``least_seconds``.
        """
        stay = holder.stay
        if stay.seconds is not None:
            end = holder.since + stay.seconds
        else:
            quantum = self.service.quantum(holder, least_seconds)
            if stay.left != 1.0:
                quantum = max(stay.left * quantum, least_seconds, SHORTEST_QUANTUM)
            end = holder.since + quantum
        priority, other = holder.priority, first.priority
        if first.coming[0].state is not ClientState.WAITING or (priority == other and not self.is_bursting(first)):
            return end
        is_over = self.service.now >= end
        if stay.is_slice and not is_over:
            return end
        if self._rank_of.get(first) == DUE:
            return AT_ONCE if priority > other else end
        if priority > other:
            return NEVER
        return end if stay.seconds is not None and priority == other and not is_over else AT_ONCE

    @property
    def deadline(self) -> float:
        """When ``prepare`` has something to do if nothing happens before."""
        return min(self._due_at, self.service.deadline) if self.service.limited else self._due_at

    # The rest is its own.

    def _gangs_before(self, unit: Unit) -> tuple[Gang, ...]:
        """The gangs on several devices that are before a unit in line."""
        found: list[Gang] = []
        for each in self:
            if each is unit:
                break
            if each.gang is not None and each.is_wide:
                found.append(each.gang)
        return tuple(found)

    def _promote(self, may_come: Callable[[Unit], bool]) -> None:
        """Puts the first of the lower classes before all others when they are owed a slice."""
        first: dict[Priority, Unit] = {}
        wide = [part for part in self.parts if part.is_wide and part.gang.phase is not Phase.KEPT_OUT]
        least = max((part.priority for part in wide), default=Priority.LOW)

        def may_have_slice(unit: Unit) -> bool:
            return (not unit.is_wide or (unit in wide and unit.priority >= least)) and may_come(unit)

        for rank in self._ranks:
            unit = next(filter(may_have_slice, rank), None)
            if unit is not None:
                first.setdefault(unit.priority, unit)
        wanting = self._lacking | first
        waiting = {priority: self.service.slice(unit.coming[0], SLICE_SECONDS) for priority, unit in wanting.items()}
        holders = list(self._holders) if wanting or self._holders.odd else []
        holding = {client.priority for client in holders}
        slices = {client.priority for client in holders if client.stay.is_slice}
        self._floor.pass_time(self.service.now, waiting, holding, slices)
        for due in list(self._ranks[DUE]):
            # Those who gave way for it may not have asked again yet.
            if first.get(due.priority) is due:
                return
            self._step_out(due)
            self._line_up(due, self._rank(due))
        chosen = self._floor.next(waiting, max(waiting.keys() | holding, default=Priority.LOW))
        if chosen is not None and chosen[1] > self.service.now:
            self._due_at = chosen[1]
        elif chosen is not None:
            self._owe(chosen[0], first.get(chosen[0]), waiting[chosen[0]])
            # Where that one lacks room nobody leaves for it, and others of its class are owed the next slice.
            self._promote(may_come)

    def _owe(self, priority: Priority, first: Unit | None, seconds: float) -> None:
        """Gives a slice to the first of a class in line, who pays when it comes in, or to the first that lacks room."""
        lacking = self._lacking.get(priority)
        if lacking is not None and (first is None or self.place(lacking) <= self.place(first.coming[0])):
            lacking.owe(is_due=True)
            del self._lacking[priority]
            self._floor.pay(priority, seconds)
            first = lacking.unit if lacking.unit in self else None
        if first is not None:
            self._step_out(first)
            self._line_up(first, DUE)

    @staticmethod
    def _rank(unit: Unit) -> int:
        """The rank of one that neither bursts nor has a slice by its place in line."""
        return DUE if any(client.has_slice for client in unit.coming) else COMMON[unit.priority]

    def _count(self, priority: Priority, sign: int) -> None:
        """There is one client more in a class, or less."""
        count = self._classes.pop(priority, 0) + sign
        if count:
            self._classes[priority] = count

    def _line_up(self, unit: Unit, rank: int) -> None:
        """A unit waits in this rank."""
        waiting = self._ranks[rank]
        last = next(reversed(waiting), None)
        waiting[unit] = None
        self._rank_of[unit] = rank
        if unit.part is not None:
            self.parts[unit.part] = None
        if last is not None and unit.ticket < last.ticket:
            ordered = sorted(waiting, key=lambda each: each.ticket)
            waiting.clear()
            waiting.update(dict.fromkeys(ordered))

    def _step_out(self, unit: Unit) -> None:
        """A unit does not wait any more where it did."""
        del self._ranks[self._rank_of.pop(unit)][unit]
        self._pushing.discard(unit)
        if unit.part is not None:
            self.parts.pop(unit.part, None)
