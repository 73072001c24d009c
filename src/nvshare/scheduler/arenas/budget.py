"""How much host memory there is to swap into when the scheduler starts."""

from __future__ import annotations

from nvshare import display
from nvshare.log import Log
from nvshare.scheduler.arenas.choice import HostBudget, HostMemoryChoice
from nvshare.scheduler.arenas.limits import MemoryLimits


def budget_of(choice: HostMemoryChoice, limits: MemoryLimits, log: Log) -> HostBudget:
    """What was chosen, as far as there is so much; ValueError when there is not enough to start."""
    budget = HostBudget(choice, limits.available_bytes(), limits.cgroup_bytes())
    given_bytes = budget.bytes()
    if given_bytes < (asked_bytes := choice.asked_bytes(budget.available_bytes)):
        log.warning(
            "there is less host memory than was asked for",
            asked=display.size(asked_bytes),
            given=display.size(given_bytes),
        )
    if not given_bytes:
        log.warning(
            "nothing is swapped: there is no host memory for it",
            effect="programs take turns where all of their memory fits on the GPU together; what does not fit is "
            "refused, or waits until others end",
            remedy="--host-memory with a size, unless that is what is wanted",
        )
    return budget
