"""Whose memory is on a device: who comes in, and who leaves for it.

A plan for the clients whose memory swaps. It is made after the lock has decided (lock.py) who holds, who is next, and
who must leave. The rules:

*Room.* What all of them may have resident is never more than the room. Each is charged with the most that it may still
go by (records/memory.py): so an order to leave makes no room, only the client's word that its memory has left.

*Needs* are met in this order, and the first client that lacks something is given what room there is; nobody after it
is given any:

1. the room itself, when it is negative because memory that can't move, or that of other programs, grew;
2. growths: first of those that are due a slice, then by class, and of one class in the order of their requests. A
   holder's growth needs room for everything, another client's only for what can't move. One that is in doubt, or waits
   for more to be known, stops nobody;
3. holders that are not wholly in;
4. waiters in the order of their turns: each one only when all before it are wholly in.

*Who leaves.* For the one that lacks room, in this order: unused allotments, its own first; idle clients and waiters
that are passed over, least recently used first; holders that were asked to leave; and for the first waiter, and
whatever is before it in the list above, waiters behind it, the last one first. Nobody else's memory leaves: not that
of holders that were not asked, nor what a memory request keeps (requests.py). No more leaves than is lacking, and than
the client's host memory takes. Unused allotments are taken from several at once; memory leaves from one client at a
time.

*Who comes in.* One client at a time. Those that come in together (a gang on the device) do so one after the other, and
none of them leaves for another.

*The reserve.* A client may use it beside which nothing can leave any more, unless memory of holders is paged or a
process wakes: it has the device alone then, but for what the host has no memory for.

*Refusals.* No growth is refused for what is only assumed, or was so a while ago: what was freed is told a little later,
a client that comes back has memory that counted as other programs', a context is assumed to be larger than it is. So
others are asked first, and the device is measured (asking.py).

*Those that do not obey.* Nobody counts on a client that did not do within the grace time what it was told, nor on an
unresponsive holder: others leave in its place. A waiter that does not bring its memory in is granted the lock all the
same; its library opens the gate when all is in.

Who is about to sleep leaves though nobody needs the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from nvshare.scheduler.core.actions import Action, Allot, Evict, RefuseGrowth
from nvshare.scheduler.core.memory.asking import ask
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.memory.together import Short, nobody_lacks
from nvshare.scheduler.core.records.arenas import CHUNK_BYTES
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.growth import Growth
from nvshare.scheduler.core.records.memory import Memory
from nvshare.scheduler.core.transitions import ClientState

STEP_BYTES: Final = CHUNK_BYTES
"""Room is given in such steps, or all that lacks."""


class Comers(Protocol):
    """Those that wait and may come, in the order of their turns, together those that come in together. That can change
    with what is known of memory, and each is looked at when it is asked for."""

    def __iter__(self) -> Iterator[tuple[Client, ...]]: ...
    def __reversed__(self) -> Iterator[tuple[Client, ...]]: ...
    def __contains__(self, client: Client) -> bool: ...


class Moves:
    """One plan for one device."""

    def __init__(self, residency: Residency, comers: Comers, paging_bytes: int, now: float) -> None:
        """``paging_bytes``: the movable memory of holders that do not swap."""
        self.actions: list[Action] = []
        self.short: Short | None = None
        """For whom holders are asked to leave when their quantum is over."""
        self.deadline: float | None = None
        """When there is something to do if nothing happens before; None: never."""
        self.kept = False
        """Room is held for a growth, and nobody else may have any."""
        self.resized: list[tuple[Client, int]] = []
        """Clients whose footprint is expected to be another than before: of a holder whose growth was found possible at
        last so many bytes; 0 where a growth was refused, or waits for others' ends or sleep."""
        self._residency = residency
        residency.look()
        self._comers = comers
        self._now, self._paging_bytes = now, paging_bytes
        self._room = residency.room_bytes - paging_bytes
        self._one_wakes = bool(residency.sleepers.coming_back)
        """A process wakes, and has what it needs from the reserve."""
        self._pending = 0
        """Bytes that are about to leave."""
        self._mover: Client | None = None
        """Whose memory leaves."""
        self._able: dict[int, Client] = {}
        """Clients of whose memory some can leave, by number."""
        if not residency.is_awaiting:
            self._count()
            self._meet_needs()
            self.actions += residency.admission.grow_arenas(residency.present)
            residency.present.leave_out_settled()
        residency.planned(self.short, self.deadline, kept=self.kept)

    def _last_first(self, before: tuple[Client, ...] = ()) -> Iterator[Client]:
        """All that wait behind those, the last in line first."""
        for unit in reversed(self._comers):
            if unit == before:
                return
            yield from unit

    def _count(self) -> None:
        for client in self._residency.present.clients.values():
            memory = client.memory
            if memory.can_leave and not self._residency.is_stuck(client, self._now):
                self._able[client.number] = client
            if not memory.leaving_bytes or (memory.moves_out and client.state is ClientState.UNRESPONSIVE):
                continue
            if client.state is not ClientState.LEAVING:
                if self._residency.is_late(client, self._now):
                    continue
                self._wake_at(memory.progress_at + self._residency.grace_seconds)
            self._pending += memory.leaving_bytes
            if memory.moves_out:
                self._mover = client

    def _wake_at(self, moment: float) -> None:
        self.deadline = moment if self.deadline is None else min(self.deadline, moment)

    def _take_back_orders(self) -> None:
        """Gives new orders where old ones can't be obeyed any more, or are of the scheduler before this one."""
        for client in list(self._residency.present.clients.values()):
            memory = client.memory
            # A holder that used what was being taken back can't obey any more, and keeps what it has.
            outran = memory.moves_out and client.state is ClientState.HOLDING
            if memory.goes_by_others or outran:
                self._allot(client, memory.resident_bytes)
            elif memory.moves_out and memory.allotted_bytes < memory.bound_bytes:
                # It has grown since, and its host memory has not.
                self._allot(client, min(memory.bound_bytes, memory.resident_bytes))

    def _meet_needs(self) -> None:
        self._take_back_orders()
        if (lacking := -self._room) > 0:
            movers = list(self._movers(None))
            if (
                not self._one_wakes
                and len(movers) == 1
                and (movers[0].holds or movers[0] in self._comers)
                and not self._paging_bytes
            ):
                lacking -= self._residency.ledger.reserve_bytes
        if lacking > 0:
            contexts = (client for client in self._residency.growing if not client.memory.has_context)
            self._make_room(lacking, next(contexts, None), self._last_first())
        for client in self._residency.admission.take_back(self._residency.present):
            memory = client.memory
            self._allot(client, min(memory.allotted_bytes, max(memory.resident_bytes, memory.admitted_bytes)))
        self._let_leave()
        if (again := self._residency.queue.next(self._now)) is not None:
            self._residency.ask_again(again)
            # Its context is charged again.
            self._room = self._residency.room_bytes - self._paging_bytes
        if self._residency.queue.deadline is not None:
            self._wake_at(self._residency.queue.deadline)
        # Each answers whether those behind it may have room.
        for client in self._residency.growing:
            if not self._let_grow(client):
                self.kept = True
                return
        for client in list(self._residency.present.clients.values()):
            if client.stays_in and not self._bring_in(client, self._last_first()):
                return
        for place, unit in enumerate(self._comers):
            behind = () if place else self._last_first(before=unit)
            if not all(self._bring_in(client, behind) for client in unit):
                return

    def _let_leave(self) -> None:
        """Whose process is about to sleep leaves, one client at a time."""
        for client in list(self._residency.present.clients.values()):
            memory = client.memory
            leaves = client.process is not None and client.process.leaves and not client.holds
            if leaves and self._mover in (None, client) and memory.allotted_bytes > memory.least_bytes:
                self._evict(client, memory.least_bytes)
                self._mover = client

    def _let_grow(self, client: Client) -> bool:
        """Answers a growth if that can be; False: what room there is, is kept for it."""
        memory, growth = client.memory, client.memory.growth
        assert growth is not None
        if client.process is not None and client.process.falls:
            # It asked before it heard that it is to sleep, and stays awake: a thread of it is in the driver.
            return True
        refusal, lacks_sleep = self._residency.admission.verdict(client, self._now)
        if lacks_sleep:
            self._residency.answer_growth(client)
            self._residency.queue.put_off(client)
            self.resized.append((client, 0))
            return True
        if refusal is not None:
            asked, until = ask(self._residency, growth, refusal, self._now)
            self.actions += asked
            if until is not None:
                self._wake_at(until)
                return True
            if refusal.limited or not self._residency.queue.takes(client, growth, refusal.reason, self._now):
                self._refuse(client, growth, refusal.reason)
            self._residency.answer_growth(client)
            self.resized.append((client, 0))
            return True
        if growth.in_doubt and client.state is ClientState.HOLDING:
            self.resized.append((client, growth.footprint_bytes))
        growth.believe()
        if not self._residency.admission.is_ready(client, self._now):
            if (changes_at := self._residency.admission.changes_at(self._now)) is not None:
                self._wake_at(changes_at)
            return True
        more = max(0, growth.footprint_bytes - memory.charge_bytes) if client.stays_in else 0
        fixed = memory.more_fixed_bytes
        lacking = more + fixed - self._room_for(client) - self._contexts_behind(client)
        if (more or fixed or not memory.has_context) and lacking > 0:
            self._make_room(lacking, client, self._last_first())
            return False
        self._residency.answer_growth(client)
        admitted = self._residency.admission.admitted_bytes(client, growth, self._now)
        context_bytes = memory.grow(admitted, growth.fixed_bytes, self._now)
        self._residency.ledger.recount(memory)
        self._residency.requests.settle(client.number, context_bytes)
        self._room -= fixed
        wanted = growth.footprint_bytes if client.stays_in else memory.allotted_bytes
        spare = wanted if growth.wakes or not nobody_lacks(self._comers) else admitted
        allotted = max(memory.allotted_bytes, wanted, min(spare, memory.charge_bytes + self._room_for(client)))
        self._allot(client, allotted, growth.request)
        return True

    def _refuse(self, client: Client, growth: Growth, reason: str) -> None:
        self.actions.append(RefuseGrowth(client.number, growth.request, reason))
        client.memory.refuse()
        if not client.memory.has_context:
            self._residency.ledger.pin(client.memory, 0, measured=False)
        self._residency.traffic.refuse()

    def _bring_in(self, client: Client, behind: Iterable[Client] = ()) -> bool:
        """Gives room to a waiter, or to a holder that is not wholly in; False: somebody behind it may not have any."""
        memory = client.memory
        if not memory.swaps:
            needed = self._residency.needed_bytes(client)
            # One that needs nothing fits even where the room is negative, since another one uses the reserve.
            if needed and needed > self._room:
                self._make_room(needed - self._room, client, behind)
                return False
            # Where memory is paged nobody behind may use the reserve.
            self._room -= needed
            self._paging_bytes += needed
            return True
        footprint = memory.footprint_bytes
        if memory.allotted_bytes < footprint:
            most = memory.charge_bytes + self._room_for(client)
            if most >= footprint or most - memory.allotted_bytes >= STEP_BYTES:
                self._allot(client, min(footprint, most))
            if most < footprint:
                self._make_room(footprint - most, client, behind)
                return False
        if memory.is_in or self._residency.is_late(client, self._now):
            return True
        self._wake_at(memory.progress_at + self._residency.grace_seconds)
        return False

    def _room_for(self, client: Client) -> int:
        """What a client could have more than it is charged with."""
        return self._room + (self._residency.ledger.reserve_bytes if self._is_alone(client) else 0)

    def _contexts_behind(self, client: Client) -> int:
        """What is charged in advance for contexts that come after a client's growth: all, asked for or not."""
        return sum(each.memory.ahead_bytes for each in self._residency.clients.values() if each is not client)

    def _is_alone(self, client: Client) -> bool:
        """Whether no other has anything that could leave."""
        return not (self._paging_bytes or self._one_wakes) and next(self._movers(client), None) is None

    def _movers(self, for_client: Client | None) -> Iterator[Client]:
        """Which others have something that could leave for a client."""
        for each in self._able.values():
            if each is not for_client and self._residency.requests.spare_bytes(each, for_client, charged=True) > 0:
                yield each

    def _allot(self, client: Client, allotted_bytes: int, request: int = 0) -> None:
        capacity_bytes, order = self._residency.admission.capacity_bytes(client), self._tell(client, allotted_bytes)
        admitted_bytes = client.memory.admitted_bytes
        self.actions.append(Allot(client.number, order, allotted_bytes, admitted_bytes, capacity_bytes, request))

    def _evict(self, client: Client, allotted_bytes: int) -> None:
        self.actions.append(Evict(client.number, self._tell(client, allotted_bytes), allotted_bytes))
        self._wake_at(self._now + self._residency.grace_seconds)

    def _tell(self, client: Client, allotted_bytes: int) -> int:
        """What a client is allotted changes; returns the order's number."""
        memory = client.memory
        leaving_bytes, charge_bytes = memory.leaving_bytes, memory.charge_bytes
        self._residency.present.wake(client)
        order = memory.tell(allotted_bytes, self._now)
        if memory.can_leave:
            self._able[client.number] = client
        else:
            self._able.pop(client.number, None)
        self._pending += memory.leaving_bytes - leaving_bytes
        self._room -= memory.charge_bytes - charge_bytes
        return order

    def _make_room(self, lacking: int, for_client: Client | None, behind: Iterable[Client]) -> None:
        """Makes others leave for what lacks beside the room that there is, as far as that is not under way."""
        lacking -= max(0, self._pending)
        if lacking <= 0:
            return
        everybody = list(self._residency.present.clients.values())
        # Its own comes first: what it may have resident and does not use may keep out what it wants in place of that.
        for client in sorted(everybody, key=lambda each: each is not for_client):
            memory = client.memory
            unused = _unused_bytes(memory)
            if unused > 0 and not self._residency.is_stuck(client, self._now):
                unused = min(unused, max(lacking, STEP_BYTES))
                self._evict(client, memory.allotted_bytes - unused)
                lacking -= unused
                if lacking <= 0:
                    return
        others = [client for client in everybody if client is not for_client and client.memory.allotted_bytes]
        # Who waits and is passed over leaves like one that is idle.
        resting = [client for client in others if client.state in (ClientState.IDLE, ClientState.WAITING)]
        idle = [client for client in resting if client not in self._comers]
        idle.sort(key=lambda client: client.since)
        leaving = [client for client in others if client.state is ClientState.LEAVING]
        for client in (*idle, *leaving, *behind):
            memory = client.memory
            if not memory.allotted_bytes or client is for_client:
                continue
            spare = self._residency.requests.spare_bytes(client, for_client)
            goal = max(memory.least_bytes, memory.allotted_bytes - min(lacking, spare))
            if goal < memory.allotted_bytes and not self._residency.is_stuck(client, self._now):
                if self._mover in (None, client):
                    self._evict(client, goal)
                    self._mover = client
                return
        if for_client is not None and not self._pending:
            self.short = Short.of(for_client, lacking, self._comers)


def _unused_bytes(memory: Memory) -> int:
    """What one may have resident, and has no use for."""
    wanted = 0 if memory.growth is None else memory.growth.footprint_bytes
    return memory.allotted_bytes - max(memory.movable_bytes, memory.resident_bytes, wanted)
