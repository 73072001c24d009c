"""The containers of one device: how many clients each has there, and what it may have of the device's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.containers import Container
from nvshare.scheduler.core.lock.budget import Budget, most_seconds
from nvshare.scheduler.core.lock.credit import Credit, Demand
from nvshare.scheduler.core.settings import SHORTEST_QUANTUM, Settings

BURST_QUANTA: Final = 2
"""A credit is never more than so many quanta, and a debt not either."""
AT_ONCE: Final = float("-inf")
NEVER: Final = float("inf")


@dataclass(slots=True, eq=False)
class Standing:
    """One container on one device."""

    container: Container
    clients: int = 0
    active: int = 0
    """How many of them hold or wait."""
    holding: int = 0
    """How many of them hold."""
    worth_seconds: float = 0.0
    """How long a turn must be to be worth the hand-over before it, as far as that is known."""
    budget: Budget | None = None
    """None: it has no compute limit."""
    credit: Credit | None = None
    """None: there are no bursts."""

    @property
    def weight(self) -> float:
        """Against all others, as far as its own terms say it."""
        return 1.0 if self.container.terms.owner else self.container.terms.weight


class Standings:
    """All containers that have clients on one device."""

    def __init__(self, settings: Settings) -> None:
        self.quantum_seconds = settings.quantum_seconds
        """Of a share of 1."""
        self._longest_turn = settings.longest_turn
        self.uneven: set[Container] = set()
        """Those that don't count as one client of weight 1."""
        self.limited: dict[Container, Standing] = {}
        """Those that have a compute limit."""
        self.limits = True
        """Whether compute limits count."""
        self._emptied: list[Container] = []
        """Those that may have no clients any more."""
        self.bursts = settings.burst_seconds > 0
        self._burst_seconds = settings.burst_seconds
        self._standings: dict[Container, Standing] = {}
        self._demand = Demand()

    def __getitem__(self, container: Container) -> Standing:
        return self._standings[container]

    @property
    def are_special(self) -> bool:
        """Whether they are not all alike."""
        return self.bursts or bool(self.uneven or self.limited)

    def enter(self, container: Container, now: float) -> None:
        """A client is in a container that has its terms. It neither holds nor waits yet."""
        standing = self._standings.get(container)
        if standing is None:
            standing = self._standings[container] = Standing(container)
        self.save(standing, now)
        standing.clients += 1
        self._look_at(standing, now)

    def leave(self, standing: Standing, now: float, *, keeps: bool) -> None:
        """A client that neither holds nor waits is not in its container any more, or that is to have other terms.

        ``keeps``: what the container has had counts until ``use_up``, if it is to come back at once.
        """
        self.save(standing, now)
        standing.clients -= 1
        self._look_at(standing, now)
        if not standing.clients:
            if keeps:
                self._emptied.append(standing.container)
            else:
                del self._standings[standing.container]

    def activate(self, standing: Standing) -> None:
        """A client holds or waits that did neither."""
        standing.active += 1
        if standing.active == 1:
            self._demand.weight += standing.weight

    def rest(self, standing: Standing) -> None:
        """A client neither holds nor waits any more."""
        standing.active -= 1
        if not standing.active:
            self._demand.weight -= standing.weight

    def hold(self, standing: Standing, now: float) -> None:
        """An active client holds that did not."""
        standing.holding += 1
        if standing.budget is not None and standing.holding == 1:
            standing.budget.use(True, now)

    def let_go(self, standing: Standing, now: float) -> None:
        """A client does not hold any more."""
        standing.holding -= 1
        if standing.budget is not None and not standing.holding:
            standing.budget.use(False, now)

    def save(self, standing: Standing, now: float) -> None:
        """Brings the credit up to date, before anything changes."""
        if not self.bursts:
            return
        demand = self._demand
        demand.pass_time(now)
        if standing.credit is None:
            standing.credit = Credit(now, demand.weight_seconds, demand.wanted_seconds)
            return
        debt = BURST_QUANTA * self.quantum_seconds
        weight, most = standing.weight, min(self._burst_seconds, debt)
        standing.credit.pass_time(demand, weight, most, debt, active=standing.active > 0, holds=standing.holding > 0)

    def set_waiters(self, waiters: int) -> None:
        """So many wait from now on; ``save`` was called for the client that began or ceased to."""
        self._demand.waiters = waiters

    def quantum(self, standing: Standing, least_seconds: float) -> float:
        """The quantum of each client of a container that holds or waits; none is shorter than ``least_seconds``."""
        if not self.uneven:
            return max(self.quantum_seconds, least_seconds)
        active = [each for each in self._standings.values() if each.active]
        shares = _shares(active if standing.active else [*active, standing])
        smallest = min(shares[each.container] for each in active)
        least_seconds = max(least_seconds, min(SHORTEST_QUANTUM, self.quantum_seconds))
        if any(shares[each.container] != smallest for each in active):
            # A costly hand-over makes all quanta longer, also those before others: else the shares would not come out.
            least_seconds = max(least_seconds, *(each.worth_seconds for each in active))
        seconds = max(self.quantum_seconds, least_seconds / smallest) * shares[standing.container]
        return min(seconds, self._longest_turn * max(self.quantum_seconds, least_seconds))

    def use_up(self, now: float, *, limits: bool) -> list[Container]:
        """Time passed; returns the containers whose budget is used up. ``limits``: compute limits count."""
        while self._emptied:
            container = self._emptied.pop()
            if container in self._standings and not self._standings[container].clients:
                del self._standings[container]
                self.limited.pop(container, None)
        used_up: list[Container] = []
        for container, standing in self.limited.items():
            budget = _budget(standing, now)
            if not (limits and self.limits):
                budget.refill(now)
            else:
                budget.exhausted |= now >= budget.empty_at
                used_up += [container] if budget.exhausted else []
        self.limits = limits
        return used_up

    def ready_at(self, container: Container) -> float:
        """From when on its compute limit lets a container hold; infinite: when those have left that do."""
        standing = self.limited.get(container) if self.limits else None
        return AT_ONCE if standing is None or standing.budget is None else standing.budget.ready_at

    def deadline(self, now: float) -> float:
        """When a budget will be empty, or will let somebody hold who waits."""
        deadline = NEVER
        for standing in self.limited.values() if self.limits else ():
            if standing.budget is not None:
                deadline = min(deadline, standing.budget.empty_at)
                ready_at = standing.budget.ready_at
                if standing.active > standing.holding and ready_at > now:
                    deadline = min(deadline, ready_at)
        return deadline

    def _look_at(self, standing: Standing, now: float) -> None:
        """The number of its clients changed, or the terms may have."""
        container = standing.container
        if standing.clients > 1 or (standing.clients and container.terms.weight != 1.0):
            self.uneven.add(container)
        elif self.uneven:
            self.uneven.discard(container)
        if not standing.clients:
            return
        if (container.terms.compute_limit or 1.0) < 1:
            _budget(standing, now)
            self.limited[container] = standing
        elif container in self.limited:
            standing.budget = None
            del self.limited[container]


def _shares(standings: list[Standing]) -> dict[Container, float]:
    """The weight of each client that holds or waits, by container.

    What one owner's programs say divides among his containers what they have without a word: a weight of 1 each.
    """
    of_owners: dict[str, tuple[int, float]] = {}
    for standing in standings:
        terms = standing.container.terms
        count, weight = of_owners.get(terms.owner, (0, 0.0))
        of_owners[terms.owner] = count + 1, weight + terms.weight
    shares: dict[Container, float] = {}
    for standing in standings:
        terms = standing.container.terms
        count, weight = of_owners[terms.owner] if terms.owner else (1, 1.0)
        # Rounded: those that are alike are equal.
        shares[standing.container] = round(terms.weight * count / weight, 9) / max(1, standing.active)
    return shares


def _budget(standing: Standing, now: float) -> Budget:
    """The budget that its terms demand now; it has a limit."""
    limit = standing.container.terms.compute_limit or 1.0
    most = most_seconds(limit, standing.worth_seconds)
    if standing.budget is None:
        standing.budget = Budget(limit, most, most, now, used=standing.holding > 0)
    elif (limit, most) != (standing.budget.limit, standing.budget.most):
        standing.budget.change(limit, most, now)
    return standing.budget
