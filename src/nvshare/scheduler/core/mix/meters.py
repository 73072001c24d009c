"""How fast the work of one client goes on, by what it reports of it, and what several such rates say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

NOISE: Final = 0.05
"""By how much the quotient of two rates of one program differs from slice to slice, before anything is known of it."""
NOISE_ROUNDS: Final = 2
"""As much as so many rounds counts what is assumed of the noise."""
FEWEST_SUBMISSIONS: Final = 8
"""A rate of fewer says little."""
LEAST_BURST_SECONDS: Final = 1e-4
"""A shorter one was no shorter: its client was idle for less than it was told to be before it gives way."""

Point = tuple[int, float]
"""Submissions, and when they were counted, by the client's clock."""
Looks = tuple[int, int]
"""At how far the device had come, and of them those that found nothing left to do."""


@dataclass(slots=True, eq=False)
class Bursts:
    """What one client has done since ``begin``: each time from its wish until it gave the lock back unasked."""

    wanted_at: float | None = None
    """When the present one began; None: there is none, or it began before."""
    came_at: float | None = None
    """It holds since then."""
    count: int = 0
    work: int = 0
    """Submissions."""
    seconds: float = 0.0
    """How long they took, waits included."""
    alone_seconds: float = 0.0
    """How long it held for them."""
    held_seconds: float = 0.0
    """How long it held in all, until it gave it back."""

    def begin(self, now: float, *, holds: bool) -> None:
        """Counts anew."""
        self.wanted_at, self.came_at = None, now if holds else None
        self.count, self.work = 0, 0
        self.seconds = self.alone_seconds = self.held_seconds = 0.0

    def wanted(self, now: float) -> None:
        """It wants the lock; it may go on with what was cut."""
        if self.wanted_at is None:
            self.wanted_at = now

    def came(self, now: float) -> None:
        """It holds."""
        self.came_at = now

    def released(self, work: int, idle_seconds: float, now: float) -> None:
        """It gave the lock back. ``idle_seconds``: of these it had nothing to do; 0: it was asked to leave."""
        turn_seconds = 0.0 if self.came_at is None else now - self.came_at
        self.held_seconds += turn_seconds
        self.came_at = None
        if self.wanted_at is None:
            return
        self.work += work
        self.alone_seconds += max(0.0, turn_seconds - idle_seconds)
        if idle_seconds:
            self.count += 1
            self.seconds += max(LEAST_BURST_SECONDS, now - self.wanted_at - idle_seconds)
            self.wanted_at = None

    def held(self, now: float) -> float:
        """How long it has held in all."""
        return self.held_seconds + (0.0 if self.came_at is None else now - self.came_at)

    @property
    def mean_seconds(self) -> float:
        """How long one submission took, waits included."""
        return self.seconds / self.work


@dataclass(slots=True, eq=False)
class Meter:
    """What one client has reported."""

    number: int
    active_at: float
    """When it last wanted the lock, got it, gave it back, or was seen to have submitted something."""
    holds: bool = False
    interval_seconds: float = 0.0
    """How often it was asked to report while it holds; 0: not at all."""
    together: bool = False
    """It was told that all hold at the same time."""
    last: Point = (0, 0.0)
    """By its newest report."""
    reported: bool = False
    """Whether there is one."""
    opened: Point | None = None
    """As its gate opened for the present turn: nothing that it had submitted was left to do; None: not known."""
    awaits_opening: bool = False
    """Its next report is that one."""
    begin: Point | None = None
    """Where the time begins over which a rate is measured now."""
    rate: float | None = None
    """Submissions per second, as it was measured last."""
    former_rate: float | None = None
    """The one before."""
    odd_rates: int = 0
    """How many of the last rates in a row were not as expected."""
    looks: Looks = (0, 0)
    """By its newest report."""
    former_looks: Looks = (0, 0)
    """When ``finds_gaps`` was asked last."""
    counted: int = 0
    """What it submitted in whole turns."""
    seconds: float = 0.0
    """How long these were."""
    gave_up: int = 0
    """How often it gave the lock back unasked: it had nothing to do."""
    bursts: Bursts = field(default_factory=Bursts)

    def watch(self, interval_seconds: float, *, together: bool) -> None:
        """It is asked to report so often, and told whether all hold at the same time."""
        self.interval_seconds, self.together = interval_seconds, together

    def use(self, now: float) -> None:
        """It uses the device."""
        self.active_at = now

    def wanted(self, now: float) -> None:
        """It wants the lock."""
        self.use(now)
        self.bursts.wanted(now)

    def granted(self, now: float) -> None:
        """It got the lock; what it reports next is how far it was."""
        self.holds, self.active_at = True, now
        self.awaits_opening = self.interval_seconds > 0
        self.opened = self.begin = None
        self.bursts.came(now)

    def released(self, idle_seconds: float, now: float) -> None:
        """It gave the lock back. What it reported last is how far it was when all had completed.

        ``idle_seconds``: because it was idle for so long; 0: it was asked to leave.
        """
        work = 0 if self.opened is None else self.last[0] - self.opened[0]
        if self.opened is not None:
            self.counted += work
            self.seconds += self.last[1] - self.opened[1]
        self.gave_up += idle_seconds > 0
        self.bursts.released(work, idle_seconds, now)
        self.opened = self.begin = None
        self.holds, self.awaits_opening, self.active_at = False, False, now

    def report(self, point: Point, looks: Looks, now: float) -> bool:
        """It told how far it is, which is not less than before; whether its gate has just opened."""
        if point[0] > self.last[0] and self.reported:
            self.active_at = now
        self.last, self.looks, self.reported = point, looks, True
        opens, self.awaits_opening = self.awaits_opening, False
        if opens:
            self.opened = point
        return opens

    def measure(self, least_seconds: float) -> bool:
        """Whether a rate over at least so long is there now; the next one begins then."""
        if self.begin is None:
            self.begin = self.last
            return False
        submissions, seconds = self.last[0] - self.begin[0], self.last[1] - self.begin[1]
        if seconds < least_seconds or (submissions < FEWEST_SUBMISSIONS and seconds < 4 * least_seconds):
            return False
        self.former_rate, self.rate = self.rate, submissions / seconds
        self.begin = self.last
        return True

    def forget_rates(self) -> None:
        """What was measured counts no more."""
        self.begin = self.rate = self.former_rate = None
        self.odd_rates = 0

    def begin_stage(self) -> None:
        """A part of a trial begins. Whoever holds now did not hold alone."""
        self.forget_rates()
        self.opened, self.awaits_opening = None, False
        self.counted, self.seconds, self.gave_up = 0, 0.0, 0

    def compare(self, expected_rate: float, tolerance: float) -> int:
        """How many of the last rates in a row were not as expected, with the one that was just measured."""
        self.odd_rates = 0 if is_near(self.rate, expected_rate, tolerance) else self.odd_rates + 1
        return self.odd_rates

    def finds_gaps(self) -> bool:
        """Whether it has mostly found the device with nothing left to do, since this was asked last."""
        looks, empty = self.looks[0] - self.former_looks[0], self.looks[1] - self.former_looks[1]
        self.former_looks = self.looks
        return 2 * empty > looks

    def is_steady(self, tolerance: float) -> bool:
        """Whether the last two rates are about the same."""
        return bool(self.rate and self.former_rate) and is_near(self.rate, self.former_rate, tolerance)


def is_near(rate: float | None, other: float | None, tolerance: float) -> bool:
    """Whether two rates differ by no more than so much of the larger one."""
    return rate is not None and other is not None and abs(rate - other) <= tolerance * max(rate, other)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What several rounds say: for how much turns would have to be worth, were they as good."""

    ratio: float
    error: float
    """The standard error."""


def estimate(ratios: Sequence[float], shares: Sequence[float]) -> Estimate:
    """Of the ratios of some rounds, each the sum of so many ``shares``; those of the last round tell the noise of one.

    The highest and the lowest quarter are left out: a pause of a program spoils a round.
    """
    ordered = sorted(ratios)
    spared = len(ordered) // 4
    kept = ordered[spared : len(ordered) - spared]
    middle = sum(kept) / len(kept)
    assumed = NOISE**2 * sum(share * share for share in shares)
    deviations = sum((ratio - middle) ** 2 for ratio in kept)
    variance = (NOISE_ROUNDS * assumed + deviations) / (NOISE_ROUNDS + len(kept) - 1)
    return Estimate(middle, float((variance / len(kept)) ** 0.5))
