"""How long a process is to be idle before it sleeps though nobody needs what it has."""

from __future__ import annotations

from typing import Final

from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.terms import SleepWhen

IDLE_SECONDS: Final = 60.0
"""Of one that asked to sleep when it is idle, where the operator did not say how long that is."""
MOST_PATIENCE: Final = 64
"""How many times as long one stays awake, at the most, that woke in vain again and again."""


def idle_seconds(client: Client, after_seconds: float | None) -> float:
    """As far as one of its clients goes, by its terms and what the operator chose; infinite: it does not."""
    match client.container.terms.sleep:
        case SleepWhen.IDLE:
            return after_seconds or IDLE_SECONDS
        case None if after_seconds is not None:
            return after_seconds
        case _:
            return float("inf")
