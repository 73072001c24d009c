"""Before a growth is refused because of what others have, they are asked what that is, and the device is measured.

What a client freed it says a little later, and what can't move it keeps a while for its next step. So it is told what
it was told before, which it answers by what it has.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvshare.scheduler.core.actions import Action, Evict, Measure
from nvshare.scheduler.core.memory.admission import Refusal
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.swap import ANSWER_SECONDS, Swap


def ask(
    device: str, swap: Swap, refusal: Refusal, ledger: Ledger, now: float, grace_seconds: float
) -> tuple[list[Action], float | None]:
    """What to ask because a growth does not seem to be possible, and until when that is in doubt; None: it is not."""
    actions: list[Action] = []
    if swap.doubted is None:
        actions += _ask_others(swap, refusal.others, now)
        if swap.asked_until is not None:
            return actions, swap.asked_until
        if not ledger.total_measured or refusal.limited:
            return actions, None
        swap.doubted = ledger.measurements, now + grace_seconds
        actions.append(Measure(device))
    measurement, end = swap.doubted
    return actions, None if ledger.measurements > measurement or now >= end else end


def _ask_others(swap: Swap, others: Iterable[Swap], now: float) -> list[Evict]:
    """Asks those who have something, once for each growth, and sets until when their answers are awaited.

    None: nothing is to be awaited any more.
    """
    having = [other for other in others if other.footprint_bytes + other.fixed_bytes > 0]
    asked: list[Evict] = []
    if swap.asked_until is None:
        swap.asked_until = now + ANSWER_SECONDS
        # Who has not answered the last time is not asked for ever. Who is back says by itself what it has; what the
        # scheduler before told it is not known, and may be less than what would be said here.
        back = (other for other in having if other.reported)
        heard = (other for other in back if other.is_heard or other.may_answer(now))
        asked = [other.evict(other.allotted_bytes, now) for other in heard]
    if now >= swap.asked_until or not any(other.may_answer(now) for other in having):
        swap.asked_until = None
    return asked
