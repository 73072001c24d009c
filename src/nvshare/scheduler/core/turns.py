"""In which order those who wait for a device get it, and for how long.

The rules; lock.py says how they are applied:

- *Order*: by priority class, and within a class first come, first served. Whoever was asked to leave before its turn
  was over keeps its place if it asks again soon, and has what is left of its quantum then.
- *Quantum*: the device's quantum times the client's share of its container's weight: the clients of a container that
  hold or wait share it equally. Where one of these would be shorter than SHORTEST_QUANTUM, or not worth the hand-over,
  all are longer by the same factor. Where shares differ, what leaving took is taken off the next turn.
- *Priority*: a holder leaves at once for the first waiter if that is of a higher class, and never for one of a lower
  class, but for the floor: while a higher class wants the device all the time, the lower ones together are owed a share
  of that time, and so are the lower ones of these. When they are owed a slice, the first of them goes before the higher
  class for a turn of that length, and stays until it is over.
- *Bursts*: a container saves its fair share of the device's time as long as it does not use it, up to some credit
  (credit.py). Who asks after it was idle, and whose container has enough credit for more than the hand-over costs, goes
  before others of its class, and holders of that class leave for it at once. If it had to wait its turn is as long as
  the credit; then it waits as others do.
- *Compute limit*: a container whose budget (budget.py) is used up leaves at once, though nobody waits, and its clients
  are passed over until there is enough of it again. They are told to give way when they are idle: a budget is used by
  whoever holds, busy or not, and once by all that hold together. Under ``off`` nothing is limited.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.containers import Container
from nvshare.scheduler.core.credit import Credit, Demand
from nvshare.scheduler.core.floor import Floor
from nvshare.scheduler.core.settings import SHORTEST_QUANTUM, Settings
from nvshare.scheduler.core.standing import Standing, stretch
from nvshare.scheduler.core.stay import KEPT_SECONDS
from nvshare.scheduler.core.terms import Priority
from nvshare.scheduler.core.transitions import ClientState

SLICE_SECONDS: Final = 1.0
"""How long the floor's slices are, where a quantum is not shorter, and the hand-over is worth it."""
RESTING_SECONDS: Final = 0.02
"""Who asks again so soon was not idle."""
LEAST_BURST: Final = 0.1
"""A shorter one is not worth it: what a holder has queued takes tens of milliseconds to complete."""
BURST_QUANTA: Final = 2
"""A credit is never more than so many quanta, and a debt not either."""

DUE: Final = 0
"""The rank of who has a slice. The ranks of each class follow: who bursts, and the others."""


class Turns:
    """The waiters of one device, and the turns of all its clients."""

    def __init__(self, settings: Settings) -> None:
        self.quantum_seconds = settings.quantum_seconds
        self._settings = settings
        self._ranks: list[OrderedDict[int, Client]] = [OrderedDict() for _ in range(2 * len(Priority) + 1)]
        self._count = 0
        self._standings: dict[Container, Standing] = {}
        self._uneven: set[Container] = set()
        """Those that don't count as one client of weight 1."""
        self._limited: dict[Container, Standing] = {}
        self._classes = dict.fromkeys(Priority, 0)
        """How many clients there are of each class."""
        self._holding = dict.fromkeys(Priority, 0)
        self._slices = 0
        """How many hold a slice of the floor."""
        self._odd = 0
        """How many hold whose turn is no whole quantum."""
        self._emptied: list[Container] = []
        self._told_limited = False
        self._limits = True
        """Whether compute limits count."""
        self._floor = Floor(settings.floor)
        self._due_at: float | None = None
        """When the lower classes will be owed a slice."""
        self._slice_seconds = 0.0
        """Of the slice that somebody has, or waits for."""
        self._demand = Demand()
        self._now = 0.0

    def __iter__(self) -> Iterator[Client]:
        for rank in self._ranks:
            yield from rank.values()

    def __len__(self) -> int:
        return self._count

    # Who is there.

    def enter(self, client: Client, now: float) -> None:
        """A client is in a container, which has its terms, in whatever state."""
        container = client.container
        standing = self._standings.get(container)
        if standing is None:
            standing = self._standings[container] = Standing(container)
        self._save(standing, now)
        standing.clients += 1
        self._classes[container.terms.priority] += 1
        self._look_at(standing, now)
        if client.state is ClientState.WAITING:
            self._wait(client, standing)
        elif client.holds:
            self._hold(client, standing, now)

    def leave(self, client: Client, now: float) -> None:
        """A client is not in its container any more, or that is about to have other terms."""
        standing = self._standings[client.container]
        self._save(standing, now)
        if client.state is ClientState.WAITING:
            self._stop_waiting(client, standing)
        elif client.holds:
            self._let_go(client, standing, now)
        standing.clients -= 1
        self._classes[client.container.terms.priority] -= 1
        self._look_at(standing, now)

    # What happens to a client.

    def ask(self, client: Client, idle_seconds: float, worth_seconds: float, now: float) -> None:
        """A client waits that was idle for so long; a turn of ``worth_seconds`` is worth the hand-over to it."""
        standing = self._standings[client.container]
        self._save(standing, now)
        standing.worth_seconds = worth_seconds or standing.worth_seconds
        if standing.credit is not None and not standing.active and not client.stay.keeps:
            rested = idle_seconds >= (KEPT_SECONDS if client.stay.revoked else RESTING_SECONDS)
            client.stay.bursting = rested and standing.credit.seconds >= max(LEAST_BURST, worth_seconds)
        self._wait(client, standing)

    def grant(self, client: Client, now: float) -> None:
        """A waiter holds."""
        stay, standing = client.stay, self._standings[client.container]
        self._save(standing, now)
        # Who did not have to wait took no turn from anybody.
        if stay.rank == DUE:
            stay.seconds, stay.is_slice = self._slice_seconds, True
            self._floor.pay(client.container.terms.priority, self._slice_seconds)
        elif stay.bursting and now > client.since and standing.credit is not None:
            stay.seconds = max(LEAST_BURST, standing.credit.seconds)
        self._stop_waiting(client, standing)
        self._hold(client, standing, now)

    def cut(self, client: Client, least_seconds: float, now: float) -> None:
        """A holder is asked to leave; no quantum is shorter than ``least_seconds``."""
        client.stay.cut(client.since, now, self._quantum(client, least_seconds))

    def give_back(self, client: Client, now: float) -> None:
        """A holder leaves; it is still as it was."""
        stay, standing, held_seconds = client.stay, self._standings[client.container], now - client.since
        self._save(standing, now)
        revoked_at = None if client.state is ClientState.HOLDING else client.revoked_at
        if stay.is_slice and stay.seconds is not None and held_seconds < stay.seconds and revoked_at is None:
            self._floor.pay(client.container.terms.priority, held_seconds - stay.seconds)
        self._let_go(client, standing, now)
        stay.end(client.since, revoked_at, now, owes=bool(self._uneven))

    # Whose turn it is, and until when.

    def prepare(self, may_come: Callable[[Client], bool], *, limits: bool, now: float) -> list[Container]:
        """Time passed, or something changed; returns the containers whose budget was used up just now.

        ``limits``: compute limits count.
        """
        self._now = now
        while self._emptied:
            container = self._emptied.pop()
            if not self._standings[container].clients:
                del self._standings[container]
                self._limited.pop(container, None)
        used_up: list[Container] = []
        for container, standing in self._limited.items():
            standing.set_budget(now)
            budget = standing.budget
            assert budget is not None
            if not (limits and self._limits):
                budget.refill(now)
            elif budget.empty_at is not None and now >= budget.empty_at:
                budget.exhausted = True
                used_up.append(container)
        self._limits = limits
        if self.is_mixed or self._ranks[DUE]:
            self._promote(may_come)
        return used_up

    def may_come(self, client: Client) -> bool:
        """Whether its compute limit lets a waiter hold now."""
        return not self._limited or self._ready_at(client) <= self._now

    def limit_seconds(self, client: Client, now: float) -> float:
        """How long its compute limit keeps a waiter out as far as that is known; 0: it does not."""
        return max(0.0, self._ready_at(client) - now) if self._limited else 0.0

    def is_limited(self, client: Client) -> bool:
        """Whether a compute limit counts for a client, so that it should not hold while it is idle."""
        return self._limits and client.container in self._limited

    def tells_limited(self) -> bool:
        """Whether some holders may have to be told that they should not hold while idle, or that they may."""
        told, self._told_limited = self._told_limited, bool(self._limited)
        return told or self._told_limited

    @property
    def has_limits(self) -> bool:
        """Whether a client has a compute limit."""
        return bool(self._limited)

    @property
    def is_mixed(self) -> bool:
        """Whether there are clients of several classes."""
        return sum(count > 0 for count in self._classes.values()) > 1

    @property
    def is_uneven(self) -> bool:
        """Whether quanta may differ."""
        return bool(self._uneven)

    def is_plain(self, first: Client) -> bool:
        """Whether every holder's turn for this first waiter is one quantum, as long as any other."""
        return not (self._uneven or self._odd or first.stay.bursting or self.is_mixed)

    def end(self, holder: Client, first: Client, least_seconds: float) -> float:
        """When the turn of a holder is over for the first waiter: minus infinity at once, infinity never.

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
        priority, other = holder.container.terms.priority, first.container.terms.priority
        if first.state is not ClientState.WAITING or (priority == other and not first.stay.bursting):
            return end
        if first.stay.rank == DUE:
            return float("-inf") if priority > other else end
        if priority > other:
            return float("inf")
        keeps = stay.seconds is not None and (stay.is_slice or priority == other)
        return end if keeps and self._now < end else float("-inf")

    def worth(self, client: Client, seconds: float) -> None:
        """A turn of so many seconds is worth the hand-over to a client."""
        self._standings[client.container].worth_seconds = seconds

    @property
    def deadline(self) -> float | None:
        """When ``prepare`` has something to do if nothing happens before; None: never."""
        moments = [] if self._due_at is None else [self._due_at]
        for standing in self._limited.values() if self._limits else ():
            budget = standing.budget
            if budget is None:
                continue
            if budget.empty_at is not None:
                moments.append(budget.empty_at)
            ready_at = budget.ready_at
            if standing.active > standing.holding and ready_at is not None and ready_at > self._now:
                moments.append(ready_at)
        return min(moments, default=None)

    def _ready_at(self, client: Client) -> float:
        standing = self._limited.get(client.container)
        if standing is None or standing.budget is None or not self._limits:
            return float("-inf")
        ready_at = standing.budget.ready_at
        return float("inf") if ready_at is None else ready_at

    def _quantum(self, client: Client, least_seconds: float) -> float:
        if not self._uneven:
            return max(self.quantum_seconds, least_seconds)
        least = max(least_seconds, min(SHORTEST_QUANTUM, self.quantum_seconds))
        return stretch(self._standings.values(), self.quantum_seconds, least) * self._standings[client.container].share

    def _promote(self, may_come: Callable[[Client], bool]) -> None:
        """Puts the first of the lower classes before all others when they are owed a slice."""
        due = next(iter(self._ranks[DUE].values()), None)
        first: dict[Priority, Client] = {}
        for client in self:
            if client.container.terms.priority not in first and may_come(client):
                first[client.container.terms.priority] = client
        wanting = [priority for priority in Priority if priority in first or self._holding[priority]]
        growing = [
            priority
            for priority in wanting
            if any(other < priority for other in first) and (self._holding[priority] or self._slices)
        ]
        slices = {priority: self._slice(client) for priority, client in first.items()}
        self._floor.pass_time(self._now, growing, max(slices.values(), default=SLICE_SECONDS))
        self._due_at = None
        highest = max(wanting, default=Priority.LOW)
        if due is not None:
            if first.get(due.container.terms.priority) is due and due.container.terms.priority < highest:
                return
            del self._ranks[DUE][due.number]
            self._line_up(due)
        lower = sorted((priority for priority in first if priority < highest), reverse=True)
        while len(lower) > 1 and self._floor.is_due(lower[0], slices[lower[1]]):
            del lower[0]
        if not lower:
            return
        chosen = first[lower[0]]
        if not self._floor.is_due(highest, slices[lower[0]]):
            self._due_at = self._floor.due_at(highest, slices[lower[0]])
            return
        self._slice_seconds = slices[lower[0]]
        del self._ranks[chosen.stay.rank][chosen.number]
        chosen.stay.rank = DUE
        self._ranks[DUE][chosen.number] = chosen

    def _slice(self, client: Client) -> float:
        worth_seconds = self._standings[client.container].worth_seconds
        return max(min(SLICE_SECONDS, self._quantum(client, worth_seconds)), worth_seconds)

    # Who holds and who waits.

    def _wait(self, client: Client, standing: Standing) -> None:
        self._line_up(client)
        self._count += 1
        self._demand.waiters = self._count
        standing.active += 1
        if standing.active == 1:
            self._demand.weight += standing.container.terms.weight

    def _line_up(self, client: Client) -> None:
        place = 2 * (Priority.HIGH - client.container.terms.priority) + (1 if client.stay.bursting else 2)
        client.stay.rank = place
        rank = self._ranks[place]
        ordered = not rank or next(reversed(rank.values())).ticket < client.ticket
        rank[client.number] = client
        if not ordered:
            self._ranks[place] = OrderedDict(sorted(rank.items(), key=lambda item: item[1].ticket))

    def _stop_waiting(self, client: Client, standing: Standing) -> None:
        del self._ranks[client.stay.rank][client.number]
        self._count -= 1
        self._demand.waiters = self._count
        client.stay.bursting = False
        self._rest(standing)

    def _hold(self, client: Client, standing: Standing, now: float) -> None:
        stay = client.stay
        self._odd += stay.is_odd
        self._slices += stay.is_slice
        self._holding[client.container.terms.priority] += 1
        standing.holding += 1
        standing.active += 1
        if standing.active == 1:
            self._demand.weight += standing.container.terms.weight
        if standing.budget is not None and standing.holding == 1:
            standing.budget.use(True, now)

    def _let_go(self, client: Client, standing: Standing, now: float) -> None:
        stay = client.stay
        self._odd -= stay.is_odd
        self._slices -= stay.is_slice
        self._holding[client.container.terms.priority] -= 1
        standing.holding -= 1
        self._rest(standing)
        if standing.budget is not None and not standing.holding:
            standing.budget.use(False, now)

    def _rest(self, standing: Standing) -> None:
        standing.active -= 1
        if not standing.active:
            self._demand.weight -= standing.container.terms.weight

    def _look_at(self, standing: Standing, now: float) -> None:
        """The number of its clients changed, or the terms may have."""
        container = standing.container
        if standing.is_plain:
            self._uneven.discard(container)
        else:
            self._uneven.add(container)
        if not standing.clients:
            self._emptied.append(container)
        elif (container.terms.compute_limit or 1.0) < 1:
            standing.set_budget(now)
            self._limited[container] = standing
        elif container in self._limited:
            standing.budget = None
            del self._limited[container]

    def _save(self, standing: Standing, now: float) -> None:
        """Brings the credit up to date, before anything changes."""
        if not self._settings.burst_seconds:
            return
        self._demand.pass_time(now)
        if standing.credit is None:
            standing.credit = Credit(now, self._demand.weight_seconds, self._demand.wanted_seconds)
            return
        debt = BURST_QUANTA * self.quantum_seconds
        standing.credit.pass_time(
            self._demand,
            standing.container.terms.weight,
            min(self._settings.burst_seconds, debt),
            debt,
            active=standing.active > 0,
            holds=standing.holding > 0,
        )
