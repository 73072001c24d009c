"""What a container is owed of a device's time: the account of its service.

- *A share*, by its weight against those of all containers that want the device; those of its clients that do divide it
  equally. What programs say of their weights themselves divides what their user's containers have without that, a
  weight of 1 each; an operator's word counts against all. ``quantum`` says how long a turn is for that.
- *What it saved* for bursts: seconds that grow by its share of the time that passes, whatever it does, and shrink by
  the time that it holds while somebody waits. So who uses them has no more than its share and the most that can be
  saved. Negative: it has had more than its share.
- *No more than its compute limit*, whether others want the device or not: what its ``Budget`` leaves.
- *A slice* now and then of what higher classes owe its own: ``Floor``.
- *The rest of a turn* that was cut, if its client asks again soon: ``Stay``.

What is saved and what a budget leaves are sums over time. They are brought up to date before anything changes, by what
was so until then.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Final

from nvshare.scheduler.core.lock.budget import Budget, most_seconds
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.containers import Container
from nvshare.scheduler.core.settings import SHORTEST_QUANTUM, Settings
from nvshare.scheduler.core.transitions import ClientState

MOST_QUANTA: Final = 2
"""Nobody has saved more than so many quanta, or has had so much more than its share."""
AT_ONCE: Final = float("-inf")
NEVER: Final = float("inf")


@dataclass(slots=True, eq=False)
class Account:
    """One container on one device."""

    container: Container
    clients: dict[int, Client] = field(default_factory=dict)
    worth_seconds: float = 0.0
    """How long a turn must be to be worth the hand-over before it, as far as that is known."""
    budget: Budget | None = None
    """None: it has no compute limit."""
    saved_seconds: float = 0.0
    at: float = 0.0
    """When ``saved_seconds`` was right. The others are as they were then."""
    weight: float = 0.0
    wants: bool = False
    holds: bool = False
    weight_seconds: float = 0.0
    """Of the device."""
    wanted_seconds: float = 0.0
    """Of the device."""

    def enter(self, client: Client) -> None:
        """A client is in it."""
        self.clients[client.number] = client

    def leave(self, client: Client) -> None:
        """A client is not in it any more."""
        del self.clients[client.number]

    def need(self, worth_seconds: float) -> None:
        """A turn has to be so long to be worth the hand-over before it."""
        self.worth_seconds = worth_seconds

    def limit(self, now: float) -> Budget:
        """The budget that its terms demand, which have a limit."""
        limit = self.container.terms.compute_limit or 1.0
        most = most_seconds(limit, self.worth_seconds)
        if self.budget is None:
            self.budget = Budget(limit, most, most, now, used=self.in_use)
        elif (limit, most) != (self.budget.limit, self.budget.most):
            self.budget.change(limit, most, now)
        return self.budget

    def limit_no_more(self) -> None:
        """Its terms have no limit."""
        self.budget = None

    def save(self, now: float, weight_seconds: float, wanted_seconds: float, least: float, most: float) -> None:
        """Brings up to date what it saved, which is between those; ``weight_seconds``, ``wanted_seconds``: of the
        device until now."""
        elapsed = now - self.at
        if elapsed > 0 and self.weight:
            # The mean of the others' weight makes the share smaller than the mean of the shares would be, never larger.
            others = (weight_seconds - self.weight_seconds) / elapsed - self.wanting_weight
            saved_seconds = self.saved_seconds + elapsed * self.weight / (self.weight + max(0.0, others))
            if self.holds:
                saved_seconds -= wanted_seconds - self.wanted_seconds
            self.saved_seconds = max(least, min(most, saved_seconds))
        self.weight = 1.0 if self.container.terms.owner else self.container.terms.weight
        self.wants, self.holds = self.active > 0, self.in_use
        self.at, self.weight_seconds, self.wanted_seconds = now, weight_seconds, wanted_seconds

    @property
    def wanting_weight(self) -> float:
        """Its weight while it wants the device."""
        return self.weight * self.wants

    @property
    def active(self) -> int:
        """How many of its clients hold or wait."""
        return sum(client.state is not ClientState.IDLE for client in self.clients.values())

    @property
    def in_use(self) -> bool:
        """Whether one of them holds."""
        return any(client.holds for client in self.clients.values())


@dataclass(frozen=True, slots=True)
class _Shares:
    """How the time of a device is divided."""

    of: dict[Container, float]
    """The weight of each client that holds or waits."""
    smallest: float
    worth_seconds: float
    """The longest turn that one of them needs; 0: all shares are equal."""


class Service:
    """All containers that have clients on one device. ``pass_time`` comes before anything that changes something."""

    def __init__(self, settings: Settings, waiting: Sized) -> None:
        """``waiting``: those that wait, as they are at any time."""
        self.quantum_seconds = settings.quantum_seconds
        """Of a share of 1."""
        self.uneven: set[Container] = set()
        """Those that don't count as one client of weight 1."""
        self.limited: dict[Container, Account] = {}
        """Those that have a compute limit."""
        self.limits = True
        """Whether compute limits count."""
        self._longest_turn = settings.longest_turn
        self._burst_seconds = settings.burst_seconds
        """0: nothing is saved."""
        self._waiting = waiting
        self._accounts: dict[Container, Account] = {}
        self._shares: _Shares | None = None
        self.now = 0.0
        """What compute limits let come is seen as it is then."""
        self._weight = 0.0
        """Of the containers that want the device now."""
        # Sums over the time.
        self._weight_seconds = 0.0
        self._wanted_seconds = 0.0
        """While somebody waited."""

    # What happens.

    def set_quantum(self, seconds: float) -> None:
        """So long is a turn of a share of 1."""
        self.quantum_seconds = seconds

    def pass_time(self, now: float) -> None:
        """It is ``now``."""
        elapsed = now - self.now
        if elapsed > 0:
            self._weight_seconds += elapsed * self._weight
            self._wanted_seconds += elapsed if self._waiting else 0.0
        self.now = now

    def enter(self, client: Client) -> None:
        """A client is in its container."""
        account = self._accounts.get(client.container)
        if account is None:
            account = self._accounts[client.container] = Account(client.container)
        account.enter(client)
        self.renew(client.container)

    def leave(self, client: Client) -> None:
        """A client is not in its container any more."""
        container = client.container
        self._accounts[container].leave(client)
        self.renew(container)
        if not self._accounts[container].clients:
            del self._accounts[container]
            self.uneven.discard(container)
            self.limited.pop(container, None)

    def renew(self, container: Container) -> None:
        """A container has other clients, or other terms."""
        account, terms = self.look(container), container.terms
        if len(account.clients) > 1 or terms.weight != 1.0:
            self.uneven.add(container)
        elif self.uneven:
            self.uneven.discard(container)
        if (terms.compute_limit or 1.0) < 1:
            self.limited[container] = account
            account.limit(self.now)
        elif container in self.limited:
            del self.limited[container]
            account.limit_no_more()

    def look(self, container: Container) -> Account:
        """One of a container's clients has another state, or something else of it changed."""
        account = self._accounts[container]
        self._shares = None
        if account.budget is not None:
            account.budget.use(account.in_use, self.now)
        if self._burst_seconds:
            self._save(account)
        return account

    def asks(self, client: Client, worth_seconds: float) -> float:
        """A client waits that was idle; returns what its container saved, 0 if others of it want the device as well."""
        account = self._accounts[client.container]
        account.need(account.worth_seconds or worth_seconds)
        wanted = account.wants
        self.look(client.container)
        return 0.0 if wanted else account.saved_seconds

    def worth(self, client: Client, seconds: float) -> None:
        """A turn of so many seconds is worth the hand-over to a client."""
        self._accounts[client.container].need(seconds)
        self._shares = None

    # What is owed.

    def quantum(self, client: Client, least_seconds: float) -> float:
        """How long a turn is of a client: of one that neither holds nor waits, an even share; none is shorter than
        ``least_seconds``."""
        if not self.uneven or client.state is ClientState.IDLE:
            return max(self.quantum_seconds, least_seconds)
        if self._shares is None:
            self._shares = self._divide()
        shares = self._shares
        # A costly hand-over makes all quanta longer, also those before others: else the shares would not come out.
        least_seconds = max(least_seconds, min(SHORTEST_QUANTUM, self.quantum_seconds), shares.worth_seconds)
        seconds = max(self.quantum_seconds, least_seconds / shares.smallest) * shares.of[client.container]
        return min(seconds, self._longest_turn * max(self.quantum_seconds, least_seconds))

    def slice(self, client: Client, most_seconds: float) -> float:
        """How long a slice of the floor is for a client: its turn, if none of a share of 1 were longer than that."""
        worth_seconds = self._accounts[client.container].worth_seconds
        shorter = min(1.0, most_seconds / self.quantum_seconds)
        return max(shorter * self.quantum(client, worth_seconds), worth_seconds)

    def count_limits(self, *, limits: bool) -> None:
        """Whether compute limits count from now on; nothing of a budget was used while they did not."""
        if limits and not self.limits:
            for account in self.limited.values():
                account.limit(self.now).refill(self.now)
        self.limits = limits

    def use_up(self) -> list[Container]:
        """The containers whose budget is used up."""
        if not self.limits or not self.limited:
            return []
        budgets = {container: account.limit(self.now) for container, account in self.limited.items()}
        return [container for container, budget in budgets.items() if budget.is_used_up(self.now)]

    def ready_at(self, container: Container) -> float:
        """From when on its compute limit lets a container hold; infinite: when those have left that do."""
        account = self.limited.get(container) if self.limits else None
        return AT_ONCE if account is None or account.budget is None else account.budget.ready_at

    def is_limited(self, container: Container) -> bool:
        """Whether a compute limit counts for a container, so that its clients should not hold while they are idle."""
        return self.limits and container in self.limited

    @property
    def deadline(self) -> float:
        """When a budget will be empty, or will let somebody hold who waits."""
        deadline = NEVER
        for account in self.limited.values() if self.limits else ():
            if account.budget is not None:
                deadline = min(deadline, account.budget.empty_at)
                waits = any(client.state is ClientState.WAITING for client in account.clients.values())
                if waits and account.budget.ready_at > self.now:
                    deadline = min(deadline, account.budget.ready_at)
        return deadline

    # The rest is its own.

    def _save(self, account: Account) -> None:
        """Brings up to date what a container saved."""
        most = MOST_QUANTA * self.quantum_seconds
        self._weight -= account.wanting_weight
        account.save(self.now, self._weight_seconds, self._wanted_seconds, -most, min(self._burst_seconds, most))
        self._weight += account.wanting_weight

    def _divide(self) -> _Shares:
        """Divides the time among those that hold or wait."""
        active = {account: count for account in self._accounts.values() if (count := account.active)}
        of_owners: dict[str, tuple[int, float]] = {}
        for account in active:
            terms = account.container.terms
            count, weight = of_owners.get(terms.owner, (0, 0.0))
            of_owners[terms.owner] = count + 1, weight + terms.weight
        shares: dict[Container, float] = {}
        for account, clients in active.items():
            terms = account.container.terms
            count, weight = of_owners[terms.owner] if terms.owner else (1, 1.0)
            # Rounded: those that are alike are equal.
            shares[account.container] = round(terms.weight * count / weight, 9) / clients
        smallest, differ = min(shares.values()), len(set(shares.values())) > 1
        worth_seconds = max(account.worth_seconds for account in active) if differ else 0.0
        return _Shares(shares, smallest, worth_seconds)
