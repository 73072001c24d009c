"""One container on one device: how many clients it has there, and what it may have of the device's time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nvshare.scheduler.core.budget import Budget, most_seconds
from nvshare.scheduler.core.containers import Container
from nvshare.scheduler.core.credit import Credit


@dataclass(slots=True, eq=False)
class Standing:
    """The standing of one container."""

    container: Container
    clients: int = 0
    active: int = 0
    """How many of them hold or wait."""
    holding: int = 0
    """How many of them hold."""
    worth_seconds: float = 0.0
    """How long a turn must be so that it is worth the hand-over before it, as far as that is known."""
    budget: Budget | None = None
    """None: it has no compute limit."""
    credit: Credit | None = None
    """None: there are no bursts."""

    @property
    def share(self) -> float:
        """The weight of each of those that hold or wait."""
        return self.container.terms.weight / max(1, self.active)

    @property
    def is_plain(self) -> bool:
        """Whether it counts as one client of weight 1."""
        return self.clients <= 1 and self.container.terms.weight == 1.0

    def set_budget(self, now: float) -> None:
        """Makes the budget that the terms demand."""
        limit = self.container.terms.compute_limit
        if limit is None:
            self.budget = None
            return
        most = most_seconds(limit, self.worth_seconds)
        if self.budget is None:
            self.budget = Budget(limit, most, most, now, used=self.holding > 0)
        elif (limit, most) != (self.budget.limit, self.budget.most):
            self.budget.change(limit, most, now)


def stretch(standings: Iterable[Standing], quantum_seconds: float, least_seconds: float) -> float:
    """The quantum of a share of 1 where no quantum is shorter than ``least_seconds``, now or next time."""
    active = [standing for standing in standings if standing.active]
    smallest = min(standing.share for standing in active)
    if any(standing.share != smallest for standing in active):
        # A hand-over that costs more than others makes all quanta longer, always: else the shares would not come out.
        least_seconds = max(least_seconds, *(standing.worth_seconds for standing in active))
    return max(quantum_seconds, least_seconds / smallest)
