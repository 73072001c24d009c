"""Whose memory is on a device: who comes in, and who leaves for it.

It follows the arbitration of the lock (lock.py), which knows who holds, who is next and who must leave. The rules,
for the clients whose memory swaps:

- What all of them may have resident is never more than the room. Each is charged with all that it may still go by
  (swap.py), so room is there only when somebody said that it left.
- Needs are met in this order: the room is negative, since unmovable memory or others' grew; growths; holders that are
  not wholly in; waiters in the order of their turns. A growth of a holder needs room for all of it, that of another
  client for what can't move. The first one that lacks something gets what room there is; nobody behind it does. Waiters
  behind the first one come in when all before them are in, from free room or that of idle clients.
- For what lacks still, others leave: unused allotments first, then idle clients, least recently used first, then
  holders that were asked to leave, then waiters behind the one in need, the last one first: their turns are the
  farthest. Never a holder, nor what a memory request keeps (requests.py). Only as many bytes as lack, one client at a
  time, and no more than its host memory takes.
- One client at a time comes in; those that come in together do so one after another, and none leaves for another.
- A client beside which no other can leave any more, and nobody pages, may use the reserve: it is alone but for what the
  host has no memory for.
- No growth is refused for what is only assumed, or was true a while ago: what was freed is said later, who comes back
  has memory that counted as foreign, a context is taken for larger than it is. Others are asked, the device measured.
- Who does not do what it was told within the grace time is not counted on, nor an unresponsive holder for what it has:
  others leave in its place. A waiter that does not come in is granted the lock anyhow. Its gate stays closed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nvshare.scheduler.core.actions import Action, RefuseGrowth
from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.events import ResidencyReported
from nvshare.scheduler.core.memory.admission import Admission
from nvshare.scheduler.core.memory.arenas import CHUNK_BYTES, Host
from nvshare.scheduler.core.memory.asking import ask
from nvshare.scheduler.core.memory.estates import Estate, Estates
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.limits import Limits
from nvshare.scheduler.core.memory.queue import Ends, Queue
from nvshare.scheduler.core.memory.requests import Requests
from nvshare.scheduler.core.memory.swap import Swap
from nvshare.scheduler.core.memory.together import Short, cramped, nobody_lacks, stays_bytes
from nvshare.scheduler.core.memory.traffic import Traffic
from nvshare.scheduler.core.transitions import ClientState

STEP_BYTES: Final = CHUNK_BYTES
"""Room is given in such steps, or all that lacks."""


class Residency:
    """The residency of one device's clients. After something changed, call ``plan``."""

    def __init__(self, device: str, ledger: Ledger, host: Host, ends: Ends, grace_seconds: float) -> None:
        self.clients: dict[int, Client] = {}
        """Those whose memory swaps."""
        self.growing: dict[int, Client] = {}
        """Whose growth is not answered, in the order of their requests."""
        self.queue = Queue(ledger, host, ends)
        """Whose growth waits for others' ends."""
        self.short: Short | None = None
        """For whom holders are asked to leave when their quantum is over."""
        self.deadline: float | None = None
        """When ``plan`` has something to do if nothing happens before; None: never."""
        self.awaited = 0
        """Recorded clients of the scheduler before that are not back; meanwhile nobody is given anything."""
        self.traffic = Traffic()
        self.resized: list[Client] = []
        """Whose growth the last plan refused, or found possible at last."""
        self.estates = Estates(ledger, host)
        self.limits = Limits(self.estates)
        self.requests = Requests(ledger, self.estates, self.clients)
        self._device, self._ledger, self._host, self._grace_seconds = device, ledger, host, grace_seconds
        self._kept = False
        """What room there is, is for a growth."""
        self._cramped: frozenset[int] = frozenset()
        self._admission = Admission(ledger, host, self.estates, grace_seconds, self.limits, self.requests)
        # Of one plan.
        self._actions: list[Action] = []
        self._units, self._waiting = list[tuple[Client, ...]](), list[Client]()
        self._now, self._room, self._paging_bytes = 0.0, 0, 0
        self._pending = 0
        """What is about to leave."""
        self._mover: Client | None = None
        """Whose memory leaves."""

    def plan(self, units: Sequence[tuple[Client, ...]], paging_bytes: int, now: float) -> list[Action]:
        """What to do about residency; ``units``: those that wait, in the order of their turns, together those that come
        in together; those left out that never fit.

        ``paging_bytes``: the movable memory of holders that do not swap.
        """
        self._actions, self.resized, self._kept = [], [], False
        self._cramped = cramped(self.clients.values(), self._most_bytes, self._host, self.requests)
        self._units = [unit for unit in units if not any(map(self.never_fits, unit))]
        self._waiting = [client for unit in self._units for client in unit]
        self._paging_bytes, self._now = paging_bytes, now
        self.short = self.deadline = None
        if self.growing or self._ledger.departed_bytes:
            self.traffic.held_up()
        if not self.awaited:
            self._count()
            self._meet_needs()
            self._actions += self._admission.grow_arenas(self._swaps())
        return self._actions

    def add(self, client: Client) -> None:
        """A client that swaps came."""
        assert client.swap is not None
        self.clients[client.number] = client
        self._ledger.charged_bytes += client.swap.charge_bytes

    def remove(self, client: Client) -> None:
        """A client is gone; where memory swaps, what it had stays charged until its estate is freed."""
        if not self.clients:
            return
        swap = client.swap
        estate = Estate(client.account.fixed_bytes, client.account.movable_bytes if client.holds else 0)
        if swap is not None:
            del self.clients[client.number]
            self.growing.pop(client.number, None)
            self.queue.remove(client.number)
            self._ledger.charged_bytes -= swap.charge_bytes
            estate = swap.estate()
        self.estates.add(client.number, estate)
        self.deadline = None
        if not self.clients:
            self.short, self._kept, self._cramped = None, False, frozenset()

    def report(self, swap: Swap, event: ResidencyReported, now: float) -> None:
        """A client told its memory; what it has in all is the device's to count."""
        charge, arena_bytes = swap.charge_bytes, swap.arena_bytes
        if swap.reported:
            sizes = (swap.footprint_bytes, event.footprint_bytes), (swap.out_bytes, event.out_bytes)
            prepares = event.usable_bytes != swap.usable_bytes
            waits = event.footprint_bytes > swap.allotted_bytes > event.resident_bytes - STEP_BYTES
            self.traffic.told(swap.number, *sizes, now, waits=waits, prepares=prepares)
        swap.report(event, now)
        self._ledger.charged_bytes += swap.charge_bytes - charge
        self._host.used_bytes += swap.arena_bytes - arena_bytes
        if event.lacking_bytes:
            # Now so much has to leave that there is what it lacks.
            self._ledger.shortage_bytes += max(0, self._ledger.room_bytes + event.lacking_bytes)

    def arena_grown(self, swap: Swap, segment_bytes: int) -> None:
        """A client was sent host memory."""
        self._host.used_bytes += segment_bytes - swap.arena_asked_bytes
        swap.arena_bytes, swap.arena_asked_bytes = swap.arena_bytes + segment_bytes, 0

    @property
    def holder_grows(self) -> bool:
        """Whether a holder waits for memory."""
        return any(client.state is ClientState.HOLDING for client in self.growing.values())

    def never_fits(self, client: Client) -> bool:
        """Whether a client would not be wholly in though nobody else held; what stays then the last plan found."""
        footprint_bytes = 0 if client.swap is None else client.swap.footprint_bytes
        return footprint_bytes > self._most_bytes or client.number in self._cramped

    @property
    def _most_bytes(self) -> int:
        """What a client may have that is alone."""
        return self._ledger.left_bytes + self._ledger.reserve_bytes

    @property
    def answer(self) -> tuple[Short | None, bool, frozenset[int]]:
        """What the lock goes by beside the room: where a plan changed it, somebody may come in."""
        return self.short, self._kept, self._cramped

    def has_room_for(self, client: Client, paging_bytes: int) -> bool:
        """Whether there is what a waiter needs that does not swap; ``paging_bytes`` as for ``plan``."""
        needed = self.needed_bytes(client)
        if not needed or (self.short is not None and self.short.client is client and not paging_bytes):
            return True
        return not self._kept and self._ledger.room_bytes - paging_bytes >= needed

    def refusal(self, swap: Swap, now: float) -> str | None:
        """Why the growth that a client asked for is not possible; None: it is."""
        assert swap.growth is not None
        return self._admission.refusal(swap, swap.growth, self._swaps(), now)

    def needed_bytes(self, client: Client) -> int:
        """The room for a waiter that does not swap; who is larger than the device, or nobody knows how large, needs all
        that can be had."""
        account = client.account
        left = max(0, self._ledger.left_bytes - self.requests.others_bytes([client.number]))
        return min(account.movable_bytes, left) if account.is_known else left

    def stays_bytes(self, unit: Sequence[Client]) -> int:
        """What is on the device beside all of these at once."""
        return stays_bytes(unit, self._swaps(), self._host, self.requests)

    def is_late(self, swap: Swap, now: float) -> bool:
        """Whether it has done nothing for the grace time."""
        return now >= swap.progress_at + self._grace_seconds

    def is_stuck(self, swap: Swap, now: float) -> bool:
        """Whether it does not leave as it was told."""
        return swap.leaving_bytes > 0 and self.is_late(swap, now)

    def _swaps(self) -> list[Swap]:
        return [client.swap for client in self.clients.values() if client.swap is not None]

    def _count(self) -> None:
        self._room = self._ledger.room_bytes - self._paging_bytes
        self._pending, self._mover = 0, None
        for client in self.clients.values():
            swap = client.swap
            if swap is None or not swap.leaving_bytes or (swap.moves_out and client.state is ClientState.UNRESPONSIVE):
                continue
            if client.state is not ClientState.LEAVING:
                if self.is_late(swap, self._now):
                    continue
                self._wake_at(swap.progress_at + self._grace_seconds)
            self._pending += swap.leaving_bytes
            if swap.moves_out:
                self._mover = client

    def _wake_at(self, moment: float) -> None:
        self.deadline = moment if self.deadline is None else min(self.deadline, moment)

    def _meet_needs(self) -> None:
        for client in self.clients.values():
            # A holder that used what was being taken back can't go by that, and keeps all that it was told before.
            outran = client.state is ClientState.HOLDING and client.swap is not None and client.swap.moves_out
            if client.swap is not None and (client.swap.goes_by_others or outran):
                self._allot(client.swap, client.swap.resident_bytes)
        if (lacking := -self._room) > 0:
            movers = self._movers(None)
            if len(movers) == 1 and (movers[0].holds or movers[0] in self._waiting) and not self._paging_bytes:
                lacking -= self._ledger.reserve_bytes
        if lacking > 0:
            contexts = (client for client in self.growing.values() if client.swap and not client.swap.has_context)
            self._make_room(lacking, next(contexts, None), reversed(self._waiting))
        for swap in self._admission.take_back(self._swaps()):
            self._allot(swap, min(swap.allotted_bytes, max(swap.resident_bytes, swap.admitted_bytes)))
        if (again := self.queue.next(self._swaps(), lambda swap: self.refusal(swap, self._now), self._now)) is not None:
            self.growing[again.number] = again
        if self.queue.deadline is not None:
            self._wake_at(self.queue.deadline)
        # Each answers whether those behind it may have room.
        for client in list(self.growing.values()):
            if not self._let_grow(client):
                self._kept = True
                return
        for client in self.clients.values():
            if client.stays_in and not self._bring_in(client, reversed(self._waiting)):
                return
        for place, unit in enumerate(self._units):
            behind = () if place else self._waiting[: len(unit) - 1 : -1]
            if not all(self._bring_in(client, behind) for client in unit):
                return

    def _let_grow(self, client: Client) -> bool:
        """Answers a growth if that can be; False: what room there is, is kept for it."""
        swap = client.swap
        assert swap is not None
        growth = swap.growth
        assert growth is not None
        if (reason := self.refusal(swap, self._now)) is not None:
            others = self._admission.in_the_way(swap, self._swaps(), self._now)
            limited = self._admission.limit_refusal(swap, self._now) is not None
            asked, until = ask(
                self._device, swap, others, self._ledger, self._now, self._grace_seconds, limited=limited
            )
            self._actions += asked
            if until is not None:
                self._wake_at(until)
            elif limited or not self.queue.takes(client, swap, reason):
                self._refuse(client, reason)
            if until is None:
                del self.growing[client.number]
                self.resized.append(client)
            return True
        if swap.in_doubt and client.state is ClientState.HOLDING:
            swap.growing_bytes = growth.footprint_bytes
            self.resized.append(client)
        swap.decide(growth)
        if not self._admission.is_ready(swap, growth, self._swaps(), self._now):
            if (changes_at := self._admission.changes_at(self._swaps(), self._now)) is not None:
                self._wake_at(changes_at)
            return True
        more = max(0, growth.footprint_bytes - swap.charge_bytes) if client.stays_in else 0
        fixed = swap.more_fixed_bytes
        lacking = more + fixed - self._room_for(client) - self._contexts_behind(client)
        if (more or fixed or not swap.has_context) and lacking > 0:
            self._make_room(lacking, client, reversed(self._waiting))
            return False
        del self.growing[client.number]
        admitted = self._admission.admitted_bytes(swap, growth, self._swaps(), self._now)
        context_bytes = swap.grow(admitted, growth.fixed_bytes, self._now)
        self._ledger.resize(client.account, swap.footprint_bytes, client.account.growing_bytes, swap.fixed_bytes)
        self.requests.settle(client.number, context_bytes)
        self._room -= fixed
        wanted = growth.footprint_bytes if client.stays_in else swap.allotted_bytes
        spare = admitted if nobody_lacks(self._waiting) else wanted
        allotted = max(swap.allotted_bytes, wanted, min(spare, swap.charge_bytes + max(0, self._room_for(client))))
        self._allot(swap, allotted, growth.request)
        return True

    def _refuse(self, client: Client, reason: str) -> None:
        swap = client.swap
        assert swap is not None
        assert swap.growth is not None
        self._actions.append(RefuseGrowth(client.number, swap.growth.request, reason))
        swap.decide(None)
        swap.growing_bytes = 0
        if not swap.has_context:
            self._ledger.pin(client.account, 0, measured=False)
        self.traffic.refused += 1

    def _bring_in(self, client: Client, behind: Iterable[Client] = ()) -> bool:
        """Gives room to a waiter, or to a holder that is not wholly in; False: somebody behind it may not have any."""
        swap = client.swap
        if swap is None:
            needed = self.needed_bytes(client)
            # Who needs nothing takes nothing from one that may use the reserve.
            if needed and needed > self._room:
                self._make_room(needed - self._room, client, behind)
                return False
            # Whoever is behind is not alone beside that.
            self._room -= needed
            self._paging_bytes += needed
            return True
        footprint = swap.footprint_bytes
        goal = min(footprint, swap.charge_bytes + self._room_for(client))
        if goal > swap.allotted_bytes and (goal == footprint or goal - swap.allotted_bytes >= STEP_BYTES):
            self._allot(swap, goal)
        if swap.allotted_bytes < footprint:
            self._make_room(footprint - swap.charge_bytes - self._room_for(client), client, behind)
            return False
        if swap.is_in or self.is_late(swap, self._now):
            return True
        self._wake_at(swap.progress_at + self._grace_seconds)
        return False

    def _room_for(self, client: Client) -> int:
        """What a client could have more than it is charged with."""
        return self._room + (self._ledger.reserve_bytes if self._is_alone(client) else 0)

    def _contexts_behind(self, client: Client) -> int:
        """What is charged in advance for contexts that come after a client's growth."""
        others = (each for each in self.growing.values() if each is not client)
        return sum(each.account.pinned_bytes for each in others if each.swap is not None and not each.swap.has_context)

    def _is_alone(self, client: Client) -> bool:
        """Whether no other has anything that could leave."""
        return not self._paging_bytes and all(mover is client for mover in self._movers(client))

    def _movers(self, for_client: Client | None) -> list[Client]:
        able = (client for client in self.clients.values() if client.swap is not None and client.swap.can_leave)
        return [client for client in able if client is for_client or self.requests.may_leave(client, for_client)]

    def _allot(self, swap: Swap, allotted_bytes: int, request: int = 0) -> None:
        capacity_bytes = self._admission.capacity_bytes(swap)
        self._order(swap, lambda: swap.allot(allotted_bytes, capacity_bytes, self._now, request))

    def _evict(self, swap: Swap, allotted_bytes: int) -> None:
        self._order(swap, lambda: swap.evict(allotted_bytes, self._now))
        self._wake_at(self._now + self._grace_seconds)

    def _order(self, swap: Swap, order: Callable[[], Action]) -> None:
        leaving_bytes, charge_bytes = swap.leaving_bytes, swap.charge_bytes
        self._actions.append(order())
        self._pending += swap.leaving_bytes - leaving_bytes
        self._ledger.charged_bytes += swap.charge_bytes - charge_bytes
        self._room -= swap.charge_bytes - charge_bytes

    def _make_room(self, lacking: int, for_client: Client | None, behind: Iterable[Client]) -> None:
        """Makes others leave for what lacks beside the room that there is, as far as that is not under way."""
        lacking -= max(0, self._pending)
        others = [client for client in self.clients.values() if client is not for_client]
        for client in others:
            swap = client.swap
            assert swap is not None
            unused = swap.allotted_bytes - max(client.account.movable_bytes, swap.resident_bytes)
            if lacking > 0 and unused > 0 and not self.is_stuck(swap, self._now):
                unused = min(unused, max(lacking, STEP_BYTES))
                self._evict(swap, swap.allotted_bytes - unused)
                lacking -= unused
        if lacking <= 0:
            return
        # Who waits and is passed over leaves like one that is idle.
        waits = {client.number for client in self._waiting}
        resting = (ClientState.IDLE, ClientState.WAITING)
        idle = [client for client in others if client.state in resting and client.number not in waits]
        idle.sort(key=lambda client: client.since)
        leaving = [client for client in others if client.state is ClientState.LEAVING]
        for client in (*idle, *leaving, *behind):
            swap = client.swap
            if swap is None or client is for_client:
                continue
            spare = self.requests.spare_bytes(client, for_client)
            goal = max(swap.least_bytes, swap.allotted_bytes - min(lacking, spare))
            if goal < swap.allotted_bytes and not self.is_stuck(swap, self._now):
                if self._mover in (None, client):
                    self._evict(swap, goal)
                    self._mover = client
                return
        if for_client is not None and not self._pending:
            self.short = Short.of(for_client, lacking, self._units)
