"""Whether those that have something to do now and then do better beside the others or in turns with them; see mix.py.

What such a client does at a time is a *burst*: from when it wants the lock until it gives it back unasked. It can't do
more in all than it wants to, so what counts is how long its bursts take: together, where it is asked to give way when
it is idle, so that they are seen; and in turns as they would be, into which what it saved (service.py) lets it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nvshare.scheduler.core.mix.meters import Meter
from nvshare.scheduler.core.mix.trial import Outcome, Stage
from nvshare.scheduler.core.records.client import Client

ENOUGH_BURSTS: Final = 5
"""Of each that pauses, together and in turns."""
FEWEST_BURSTS: Final = 2
"""Where so many do not come in STAGE_SECONDS nothing is known."""
STAGE_SECONDS: Final = 10.0
LONGEST_WAIT_SECONDS: Final = 1.0
"""Who has to wait so long is not let in at once: its credit is used up."""
WORTH_BY: Final = 1.2
"""Turns are worth it where bursts take so many times as long together."""
LEAST_KEPT: Final = 0.85
"""And where the others keep so much of the time that the bursts leave."""
CHECKED_BURSTS: Final = 8
"""After so many in turns it is looked at whether these still take less than they did together."""


class PauseTrial:
    """A trial of a mix in which some pause; ``advance`` ends it."""

    def __init__(self, meters: Sequence[Meter], pausing: frozenset[int], now: float) -> None:
        self.slice_seconds: float | None = None
        """A turn is as long as always."""
        self._pausing = [meter for meter in meters if meter.number in pausing]
        self._others = [meter for meter in meters if meter.number not in pausing]
        self._together: dict[int, float] = {}
        """How long what each submits takes together, for each submission."""
        self.stage, self._stage_at = Stage.TOGETHER, now
        self._end = self.until = now + STAGE_SECONDS
        self._enter(Stage.TOGETHER, now)

    def advance(self, _users: Sequence[Client], _quantum_seconds: float, now: float) -> Outcome | None:
        """Goes on as far as it can. None: there is more to do."""
        late_at = waits_until(self._pausing)
        self.until = min(self._end, late_at)
        counts = [meter.bursts.count if meter.bursts.work else 0 for meter in self._pausing]
        if now >= late_at or (now >= self._end and min(counts) < FEWEST_BURSTS):
            return self._conclude(None, now)
        if now < self._end and min(counts) < ENOUGH_BURSTS:
            return None
        if self.stage is Stage.APART:
            ratios = [self._together[meter.number] / meter.bursts.mean_seconds for meter in self._pausing]
            return self._conclude(sum(ratios) / len(ratios), now)
        self._together = {meter.number: meter.bursts.mean_seconds for meter in self._pausing}
        self._enter(Stage.APART, now)
        return None

    def yields(self, client: Client) -> bool:
        """Whether a client is to give way when it is idle, though nobody waits, so that its bursts are seen."""
        return self.stage is Stage.TOGETHER and any(meter.number == client.number for meter in self._pausing)

    def _enter(self, stage: Stage, now: float) -> None:
        self.stage, self._stage_at = stage, now
        self._end = self.until = now + STAGE_SECONDS
        for meter in (*self._pausing, *self._others):
            meter.bursts.begin(now, holds=meter.holds)

    def _conclude(self, bursts: float | None, now: float) -> Outcome:
        """``bursts``: how many times as long they take together as in turns; None: not known."""
        rest = lost = 0.0
        if self.stage is Stage.APART:
            rest = now - self._stage_at - sum(meter.bursts.alone_seconds for meter in self._pausing)
            lost = max(0.0, rest - sum(meter.bursts.held(now) for meter in self._others))
        turns = bursts is not None and bursts >= WORTH_BY and lost <= (1 - LEAST_KEPT) * rest
        return Outcome(turns, None, {}, 0.0 if turns else lost, bursts, dict(self._together))


def waits_until(meters: Sequence[Meter]) -> float:
    """When the first of those that wait has waited too long; infinite: none waits."""
    waiting = [meter.bursts.wanted_at for meter in meters if not meter.holds]
    return min((begun + LONGEST_WAIT_SECONDS for begun in waiting if begun is not None), default=float("inf"))


def is_worse(meters: Sequence[Meter], together: dict[int, float], now: float) -> bool:
    """Whether bursts in turns take longer than they did together, or wait too long; looks at some at a time."""
    worse = now >= waits_until(meters)
    for meter in meters:
        if meter.bursts.count >= CHECKED_BURSTS:
            worse |= not meter.bursts.work or meter.bursts.mean_seconds > together[meter.number]
            meter.bursts.begin(now, holds=meter.holds)
    return worse
