"""Before a growth is refused because of what others have, they are asked what that is, and the device is measured.

What a client freed it says a little later, and what can't move it keeps a while for its next step. So it is told what
it was told before, which it answers by what it has.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvshare.scheduler.core.actions import Action, Evict, Measure
from nvshare.scheduler.core.memory.admission import Refusal
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.growth import Growth
from nvshare.scheduler.core.records.memory import ANSWER_SECONDS


def ask(residency: Residency, growth: Growth, refusal: Refusal, now: float) -> tuple[list[Action], float | None]:
    """What to ask because a growth does not seem to be possible, and until when that is in doubt; None: it is not."""
    actions: list[Action] = []
    ledger = residency.ledger
    if growth.doubted is None:
        actions += _ask_others(growth, refusal.others, now)
        if growth.asked_until is not None:
            return actions, growth.asked_until
        if not ledger.total_measured or refusal.limited:
            return actions, None
        actions.append(Measure(residency.device))
    measurement, end = growth.doubted or growth.doubt(ledger.measurements, now + residency.grace_seconds)
    return actions, None if ledger.measurements > measurement or now >= end else end


def _ask_others(growth: Growth, others: Iterable[Client], now: float) -> list[Evict]:
    """Asks those who have something, once for each growth, and notes until when their answers are awaited."""
    having = [other for other in others if other.memory.used_bytes > 0]
    asked: list[Evict] = []
    until = growth.asked_until
    if until is None:
        until = now + ANSWER_SECONDS
        for other in having:
            # Who has not answered the last time is not asked for ever. Who is back says by itself what it has; what the
            # scheduler before told it is not known, and may be less than what would be said here.
            memory = other.memory
            if memory.reported and (memory.is_heard or memory.may_answer(now)):
                allotted_bytes = memory.allotted_bytes
                asked.append(Evict(other.number, memory.tell(allotted_bytes, now), allotted_bytes))
    is_awaited = now < until and any(other.memory.may_answer(now) for other in having)
    growth.ask_others(until if is_awaited else None)
    return asked
