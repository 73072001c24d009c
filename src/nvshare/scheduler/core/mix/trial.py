"""One trial of the clients of a mix: rounds in which they take short turns and then run together; see mix.py.

A rate is submissions per second. Alone it counts from the grant to the end of the drain: all of that has completed, so
it is exact. Together it counts between two reports, after the queues have filled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from nvshare.scheduler.core.mix.meters import Meter, estimate
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.transitions import ClientState

SLICE_SECONDS: Final = 0.25
"""A turn in the first rounds, of up to four clients; of more it is shorter, so that a round is not longer."""
FIRST_SLICE_SECONDS: Final = 0.1
"""A turn in the round before these, which only finds what is clear: most of what that costs is the turns' time."""
SHORTEST_SLICE_SECONDS: Final = 0.05
LONGEST_SLICE_SECONDS: Final = 2.0
SLICE_SUBMISSIONS: Final = 20
"""A turn has time for so many submissions, as fast as they came together."""
SETTLE_SECONDS: Final = 0.15
"""How long queues take to fill."""
ROUNDS_A_LENGTH: Final = 3
"""After so many rounds the turns become twice as long: these were too short for what goes on in them."""
FEWEST_TURNS: Final = 6
"""Of all rounds together."""
MOST_ROUNDS: Final = 8
CLEAR_BY: Final = 0.25
"""What differs by so much needs no more turns than one of each."""
FIRST_CLEAR_BY: Final = 0.4
"""And by so much no more than one of FIRST_SLICE_SECONDS, whose rates vary more."""
MOST_SPOILED: Final = 3
"""Rounds in which a client had nothing to do."""
PAUSES: Final = 2
"""Who gives its turns back so often in a round, or once in a whole one, and needs less than PAUSING_SHARE, pauses."""
PAUSING_SHARE: Final = 0.8
"""Of its fair share."""
CONFIDENCE: Final = 2.0
"""Standard errors."""
MARGIN: Final = 0.015
"""What a change has to be worth."""


class Stage(Enum):
    """What the clients do."""

    APART = "apart"
    """Short turns."""
    TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial has found out."""

    turns: bool
    """They do better in turns."""
    ratio: float | None
    """What they do together, by what they do in turns; None: they had not enough to do."""
    rates: dict[int, float]
    """Each client's: while it holds alone if turns are better, else together."""
    cost_seconds: float
    """The work that was lost, as time."""
    bursts: float | None = None
    """How many times as long as in turns the bursts take together of those that pause; None: not known."""
    together: dict[int, float] = field(default_factory=dict)
    """Of each that pauses: how long a submission takes together, waits included."""
    pausing: frozenset[int] = frozenset()
    """Those that were found to pause, so that nothing else is known."""


class HandOvers:
    """What it costs that one client leaves and another one comes."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque((0.001,), maxlen=16)
        self._vacant_at: float | None = None

    def left(self, now: float) -> None:
        """A client has drained, and nobody holds any more."""
        self._vacant_at = now

    def came(self, now: float) -> None:
        """The gate of a client has opened."""
        if self._vacant_at is not None:
            self._gaps.append(now - self._vacant_at)
        self._vacant_at = None

    def forget(self) -> None:
        """Nobody leaves for another one now."""
        self._vacant_at = None

    def worth(self, quantum_seconds: float) -> float:
        """What turns of so long are worth, where 1 is what they would be if hand-overs cost nothing."""
        usual = sorted(self._gaps)[len(self._gaps) // 2]
        return max(0.5, 1 - usual / quantum_seconds)


class Trial:
    """A trial; ``advance`` ends it."""

    def __init__(
        self, meters: Sequence[Meter], hand_overs: HandOvers, together: dict[int, float] | None, now: float
    ) -> None:
        """``together``: the rates of all, together as they are; None: they take turns."""
        self.stage = Stage.TOGETHER
        self.until = now
        """When it has to advance if nothing happens before."""
        self.slice_seconds = SLICE_SECONDS
        self._meters = meters
        self._hand_overs = hand_overs
        self._turns = together is None
        self._before = together or {}
        """Rates together, before the turns of this round."""
        self._alone: dict[int, float] = {}
        self._ratios: list[float] = []
        self._is_first = together is not None
        """The present round only finds what is clear."""
        self._spoiled = 0
        self._settled_at: float | None = None
        """TOGETHER: since when all hold, with full queues."""
        self._stage_at = now
        self._seconds = {Stage.APART: 0.0, Stage.TOGETHER: 0.0}
        self._enter(Stage.TOGETHER if together is None else Stage.APART, now)

    def reported(self, meter: Meter, now: float) -> None:
        """A client that holds has reported."""
        if self._settled_at is not None and now >= self._settled_at and meter.rate is None:
            meter.measure(self.slice_seconds)

    def advance(self, users: Sequence[Client], quantum_seconds: float, now: float) -> Outcome | None:
        """Goes on as far as it can; ``users`` hold the lock or wait for it. None: there is more to do."""
        if self.stage is Stage.APART:
            return self._end_turns(quantum_seconds, now)
        hold = all(meter.holds for meter in self._meters)
        if self._settled_at is None and hold and all(user.state is ClientState.HOLDING for user in users):
            self._settled_at = now + SETTLE_SECONDS
        return self._end_together(quantum_seconds, now)

    def _enter(self, stage: Stage, now: float) -> None:
        self.stage, self._stage_at, self._settled_at = stage, now, None
        self._hand_overs.forget()
        for meter in self._meters:
            meter.begin_stage()
        if stage is Stage.APART:
            first_seconds = self._slice_seconds(FIRST_SLICE_SECONDS)
            length = self._slice_seconds(SLICE_SECONDS)
            self._is_first = self._is_first and first_seconds < length
            length *= 2 ** (len(self._ratios) // ROUNDS_A_LENGTH)
            self.slice_seconds = first_seconds if self._is_first else min(length, LONGEST_SLICE_SECONDS)
            self.until = now + 2.0 + len(self._meters) * (self.slice_seconds + 1.0)
        else:
            self.until = now + 4.0 + 4 * self.slice_seconds

    def _slice_seconds(self, usual_seconds: float) -> float:
        """How long a turn is that lasts so long where there are few clients, and all are fast."""
        least = max(SHORTEST_SLICE_SECONDS, usual_seconds * min(1.0, 4 / len(self._meters)))
        return max(least, SLICE_SUBMISSIONS / min(self._before.values()))

    def _end_turns(self, quantum_seconds: float, now: float) -> Outcome | None:
        measured = [meter for meter in self._meters if meter.seconds >= self.slice_seconds / 2 and meter.counted]
        shares = {meter.number: self._before[meter.number] * meter.seconds / meter.counted for meter in measured}
        least = 1 if len(measured) == len(self._meters) else PAUSES
        pausing = frozenset(meter.number for meter in self._meters if self._pauses(meter, least))
        if pausing:
            return self._found_pausing(pausing, now)
        if len(measured) == len(self._meters):
            self._alone = {meter.number: meter.counted / meter.seconds for meter in measured}
            # What they do together now is not known yet, but often it is clear without.
            outcome = self._judge(shares, quantum_seconds, now)
            if outcome is None:
                self._ratios.pop()
                self._end_stage(Stage.APART if self._is_first else Stage.TOGETHER, now)
            return outcome
        if len(measured) > 1 and sum(shares.values()) > 1 + self._clear_by:
            # However little the others do.
            return self._conclude(False, sum(shares.values()) * len(self._meters) / len(measured), now)
        return self._spoil(now) if now >= self.until else None

    def _pauses(self, meter: Meter, least: int) -> bool:
        """Whether it had nothing to do so often at least, and all that it does takes less than its share."""
        if meter.gave_up < least or not meter.counted:
            return False
        return self._before[meter.number] * meter.seconds / meter.counted < PAUSING_SHARE / len(self._meters)

    def _end_together(self, quantum_seconds: float, now: float) -> Outcome | None:
        if not all(meter.rate for meter in self._meters):
            return self._spoil(now) if now >= self.until else None
        before, self._before = self._before, {meter.number: meter.rate or 0.0 for meter in self._meters}
        shares = {n: (before[n] + self._before[n]) / 2 / alone for n, alone in self._alone.items()}
        outcome = self._judge(shares, quantum_seconds, now) if shares else None
        if outcome is None:
            self._end_stage(Stage.APART, now)
        return outcome

    @property
    def _clear_by(self) -> float:
        return FIRST_CLEAR_BY if self._is_first else CLEAR_BY

    def _end_stage(self, following: Stage, now: float) -> None:
        self._seconds[self.stage] += now - self._stage_at
        self._is_first = self._is_first and self.stage is not Stage.APART
        self._enter(following, now)

    def _spoil(self, now: float) -> Outcome | None:
        """Somebody had nothing to do."""
        self._spoiled += 1
        self._alone = {}
        if self._spoiled < MOST_SPOILED:
            self._end_stage(Stage.TOGETHER, now)
            return None
        pausing = frozenset(meter.number for meter in self._meters if meter.gave_up)
        if pausing:
            return self._found_pausing(pausing, now)
        return self._conclude(self._turns, estimate(self._ratios, ()).ratio if self._ratios else None, now)

    def _found_pausing(self, pausing: frozenset[int], now: float) -> Outcome:
        """What these do is bounded by what they have to do."""
        return replace(self._conclude(False, None, now), pausing=pausing)

    def _judge(self, shares: dict[int, float], quantum_seconds: float, now: float) -> Outcome | None:
        """Whether the rounds, with one of these shares, are enough."""
        self._ratios.append(sum(shares.values()) / self._hand_overs.worth(quantum_seconds))
        found = estimate(self._ratios, tuple(shares.values()))
        bound = 1 + MARGIN if self._turns else 1 - MARGIN
        difference, rounds = abs(found.ratio - bound), len(self._ratios)
        enough = difference > self._clear_by or (rounds * len(shares) >= FEWEST_TURNS and not self._is_first)
        known = enough and difference > CONFIDENCE * found.error
        return self._conclude(found.ratio < bound, found.ratio, now) if known or rounds >= MOST_ROUNDS else None

    def _conclude(self, turns: bool, ratio: float | None, now: float) -> Outcome:
        self._seconds[self.stage] += now - self._stage_at
        cost = 0.0
        if ratio is not None:
            cost += self._seconds[Stage.APART] * max(0.0, 1 - 1 / ratio)
            cost += self._seconds[Stage.TOGETHER] * max(0.0, 1 - ratio)
        return Outcome(turns, ratio, dict(self._alone if turns else self._before), cost)
