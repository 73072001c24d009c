"""Whether the clients of a device that fit it together do better together or in turns, found out by measure.

The *mix* of a device is the set of clients that use it now: they wait for the lock, or have submitted something lately.
A new mix holds together. When it has gone on for a while, a *trial* (trial.py) compares the two: by rounds, in which
the clients first run in short turns and then together again, so that what drifts meanwhile cancels out. A client's
*share* is its rate together, divided by its rate while it holds alone. In turns the shares add up to 1, less what the
hand-overs cost; together to anything from 0.5 to the number of clients. The trial ends as soon as the sum is known to
be above or below that, with what a change has to be worth as a margin.

It is repeated after times that grow, and that are at least a hundred times as long as what it cost; sooner when a rate
is not any more what it was. A mix that was measured before goes on with what is known of it.

A client that pauses again and again, and needs less than its share, can do no more than it has to do, so sums of rates
say little. Then it counts how long its bursts take in each of the two ways (pauses.py): turns are better where it is
let in at once each time, and where the hand-overs leave the others most of the rest. As soon as bursts in turns take
longer than they did together, or wait long, turns end. Where nothing was found out all stay together, because in turns
it could wait for others' quanta each time that it has something to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nvshare.scheduler.core.actions import Action, Watch
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ProgressOffered, ProgressReported
from nvshare.scheduler.core.mix.meters import Meter
from nvshare.scheduler.core.mix.pauses import PauseTrial, is_worse, waits_until
from nvshare.scheduler.core.mix.trial import HandOvers, Outcome, Stage, Trial
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.snapshot import MixSnapshot
from nvshare.scheduler.core.transitions import ClientState

MOST_CLIENTS: Final = 32
"""More that use a device at a time are not measured, so that an event costs the same however many there are."""
PAUSE_SECONDS: Final = 3.0
"""Who has submitted nothing for so long does not use the device."""
STEADY_SECONDS: Final = 2.0
"""A mix is left alone for so long at first: programs start one after another, and first steps are slow."""
UNSTEADY_SECONDS: Final = 10.0
"""And for so long if the rates do not settle."""
STEADY_WITHIN: Final = 0.25
SELDOM_SECONDS: Final = 0.5
"""Between two reports, where no trial goes on."""
OFTEN_SECONDS: Final = 0.1
"""And in a trial."""
RATE_SECONDS: Final = 1.0
"""Over how long rates are measured where no trial goes on."""
ODD_BY: Final = 0.3
"""A rate that differs by more from what it was is another one."""
ODD_RATES: Final = 3
"""But only after so many in a row."""
REST_SECONDS: Final = 60.0
"""Between the first two trials; twice as long after each."""
LONGEST_REST_SECONDS: Final = 1800.0
REST_COSTS: Final = 100
"""And so many times what the trial cost."""
RECOVERY_SECONDS: Final = 5.0
"""After a trial rates that have changed lead to another one after so long; twice as long after each."""
GAPS_REST: Final = 4
"""And so many times longer where all clients mostly find the device with nothing left to do.

That alone decides nothing: a program that waits for each step's result finds the same, and may leave hardly any gaps.
"""
LONGEST_RECOVERY_SECONDS: Final = 300.0
REMEMBERED: Final = 8
"""Mixes."""


@dataclass(slots=True)
class _Verdict:
    """What is known of one mix."""

    outcome: Outcome
    at: float
    rest_seconds: float
    recovery_seconds: float
    next_at: float
    """When the next trial is due."""

    def end_turns(self) -> None:
        """Turns are not better any more."""
        self.outcome = replace(self.outcome, turns=False, bursts=None)

    def hasten(self, now: float) -> None:
        """Rates have changed: the next trial is due sooner."""
        self.next_at = min(self.next_at, max(now, self.at + self.recovery_seconds))


class Mix:
    """The mix of one device."""

    def __init__(self) -> None:
        self._meters: dict[int, Meter] = {}
        """Of all clients that can report."""
        self._recent: dict[int, Meter] = {}
        """Of those that may be of the mix."""
        self._watched: set[int] = set()
        """Those that were asked to report."""
        self._members: frozenset[int] = frozenset()
        self._since = 0.0
        """When they last changed, or a trial ended."""
        self._verdicts: dict[frozenset[int], _Verdict] = {}
        """Of the last mixes, the newest last."""
        self._trial: Trial | PauseTrial | None = None
        self._hand_overs = HandOvers()
        self.yielding: set[int] = set()
        """Those that are to give way when they are idle though nobody waits, so that what they do at a time is seen."""

    # What happened.

    def handle(self, event: ProgressOffered | ProgressReported, client: Client, now: float) -> None:
        """A client can report, or does. IllegalEvent for what can't be."""
        meter = self._meters.get(client.number)
        if isinstance(event, ProgressOffered):
            if meter is None:
                self._meters[client.number] = Meter(client.number, now, holds=client.holds)
            return
        if meter is None:
            raise IllegalEvent(f"client {client.number} has not offered to report", event)
        before = (*meter.last, *meter.looks)
        after = (event.submissions, event.at_seconds, event.looks, event.empty_looks)
        if any(new < old for new, old in zip(after, before, strict=True)):
            raise IllegalEvent(f"client {client.number} has reported more, or later, before", event)
        if meter.report((event.submissions, event.at_seconds), (event.looks, event.empty_looks), now):
            self._hand_overs.came(now)
        if not meter.holds or client.number not in self._members:
            return
        if isinstance(self._trial, Trial):
            self._trial.reported(meter, now)
        elif self._trial is None and meter.measure(RATE_SECONDS):
            self._compare(meter, now)

    def wanted(self, client: Client, now: float) -> None:
        """A client wants the lock."""
        if (meter := self._meters.get(client.number)) is not None:
            meter.wanted(now)

    def granted(self, client: Client, now: float) -> None:
        """A client got the lock."""
        if (meter := self._meters.get(client.number)) is not None:
            meter.granted(now)

    def released(self, client: Client, idle_seconds: float, now: float) -> None:
        """A client gave the lock back, because it was idle for so long; 0: it was asked to."""
        if (meter := self._meters.get(client.number)) is not None:
            meter.released(idle_seconds, now)
            if self.apart:
                self._hand_overs.left(now)

    def gone(self, client: Client) -> None:
        """A client is gone."""
        self._meters.pop(client.number, None)
        self._recent.pop(client.number, None)

    # What is to be done.

    @property
    def can_look(self) -> bool:
        """Whether there is anything to compare."""
        return len(self._meters) > 1 or bool(self._members)

    @property
    def apart(self) -> bool:
        """Whether one at a time may hold."""
        return self._turns if self._trial is None else self._trial.stage is Stage.APART

    @property
    def slice_seconds(self) -> float | None:
        """How long a turn is; None: as long as always."""
        return None if self._trial is None else self._trial.slice_seconds

    @property
    def deadline(self) -> float:
        """When ``look`` has something to do if nothing happens before; infinite: never."""
        # Who was asked to report, and does not use the device any more, is asked for nothing.
        moments = [meter.active_at + PAUSE_SECONDS for meter in self._recent.values()] if self._watched else []
        if self._trial is not None:
            moments.append(self._trial.until)
        elif pausing := self._pausing_in_turns:
            moments.append(waits_until(pausing))
        return min(moments, default=float("inf"))

    def look(self, users: Sequence[Client] | None, quantum_seconds: float, now: float, actions: list[Action]) -> None:
        """Decides anew. ``users`` hold the lock or wait for it, and may hold it together; None: they may not."""
        if users is None or any(user.number not in self._meters for user in users):
            self._recent.clear()
            users = ()
        for user in users:
            meter = self._recent[user.number] = self._meters[user.number]
            if user.state is not ClientState.HOLDING:
                meter.use(now)
        for number in [each for each, meter in self._recent.items() if now >= meter.active_at + PAUSE_SECONDS]:
            del self._recent[number]
        if self._members != self._recent.keys():
            self._change(frozenset(self._recent), now)
        if self._trial is None:
            self._check_bursts(now)
            self._try(now)
        else:
            outcome = self._trial.advance(users, quantum_seconds, now)
            if outcome is not None:
                self._conclude(outcome, now)
        self._watch({user.number for user in users} | self._members, actions)
        # Nobody else any more.
        pauses = self._trial if isinstance(self._trial, PauseTrial) else None
        self.yielding = {user.number for user in users if pauses is not None and pauses.yields(user)}

    def snapshot(self, now: float) -> MixSnapshot | None:
        """What can be seen of it at ``now``; None: fewer than two clients use the device."""
        if len(self._members) < 2:
            return None
        verdict = self._verdicts.get(self._members)
        if verdict is None:
            return MixSnapshot(turns=False, measuring=True)
        outcome, measuring = verdict.outcome, self._trial is not None
        return MixSnapshot(self._turns, measuring, outcome.ratio, now - verdict.at, outcome.bursts)

    @property
    def _turns(self) -> bool:
        """Whether turns are known to be better."""
        verdict = self._verdicts.get(self._members)
        return verdict is not None and verdict.outcome.turns

    @property
    def _member_meters(self) -> list[Meter]:
        return [self._meters[number] for number in sorted(self._members)]

    @property
    def _pausing_in_turns(self) -> list[Meter]:
        """Those that pause, where turns are known to be better for them."""
        verdict = self._verdicts.get(self._members)
        if verdict is None or not verdict.outcome.turns:
            return []
        return [self._meters[number] for number in verdict.outcome.together]

    def _check_bursts(self, now: float) -> None:
        """Ends turns that are not better any more for those that pause."""
        pausing = self._pausing_in_turns
        if pausing:
            verdict = self._verdicts[self._members]
            if is_worse(pausing, verdict.outcome.together, now):
                verdict.end_turns()

    def _change(self, members: frozenset[int], now: float) -> None:
        self._members, self._since = members, now
        self._trial = None
        for meter in self._member_meters:
            meter.forget_rates()

    def _watch(self, wanted: set[int], actions: list[Action]) -> None:
        """Asks those to report that are wanted, if there are several; and tells whether they hold together.

        Who has had to wait keeps its queue short for a while, which costs what is launch-bound some of its speed.
        """
        if len(wanted) < 2:
            wanted = set()
        interval_seconds = SELDOM_SECONDS if self._trial is None else OFTEN_SECONDS
        for number in sorted(wanted | self._watched):
            meter = self._meters.get(number)
            asked = interval_seconds if number in wanted else 0.0
            together = number in wanted and self._trial is None and not self._turns
            if meter is not None and (meter.interval_seconds, meter.together) != (asked, together):
                meter.watch(asked, together=together)
                actions.append(Watch(number, asked, together))
        self._watched = wanted

    def _compare(self, meter: Meter, now: float) -> None:
        """A rate was measured where no trial goes on: one that has changed brings the next trial."""
        verdict = self._verdicts.get(self._members)
        if verdict is None or meter.number not in verdict.outcome.rates:
            return
        if meter.compare(verdict.outcome.rates[meter.number], ODD_BY) >= ODD_RATES:
            verdict.hasten(now)

    def _try(self, now: float) -> None:
        """Begins a trial if it is time."""
        verdict = self._verdicts.get(self._members)
        too_early = now < self._since + STEADY_SECONDS or (verdict is not None and now < verdict.next_at)
        if too_early or len(self._members) < 2:
            return
        meters = self._member_meters
        if self._turns:
            self._trial = Trial(meters, self._hand_overs, None, now)
            return
        steady = all(meter.is_steady(STEADY_WITHIN) for meter in meters) or now >= self._since + UNSTEADY_SECONDS
        rates = {meter.number: meter.rate for meter in meters if meter.rate and meter.holds}
        if steady and len(rates) == len(meters):
            self._trial = Trial(meters, self._hand_overs, rates, now)

    def _conclude(self, outcome: Outcome, now: float) -> None:
        if outcome.pausing:
            self._trial = PauseTrial(self._member_meters, outcome.pausing, now)
            return
        former = self._verdicts.pop(self._members, None)
        rest_seconds, recovery_seconds = REST_SECONDS, RECOVERY_SECONDS
        if former is not None:
            rest_seconds = min(2 * former.rest_seconds, LONGEST_REST_SECONDS)
            recovery_seconds = min(2 * former.recovery_seconds, LONGEST_RECOVERY_SECONDS)
            # Also where rates change again and again; only the first change of all is answered sooner.
            recovery_seconds = max(recovery_seconds, REST_COSTS * outcome.cost_seconds)
        gaps = [meter.finds_gaps() for meter in self._member_meters]
        next_at = now + max(rest_seconds, REST_COSTS * outcome.cost_seconds) * (GAPS_REST if all(gaps) else 1)
        self._verdicts[self._members] = _Verdict(outcome, now, rest_seconds, recovery_seconds, next_at)
        while len(self._verdicts) > REMEMBERED:
            del self._verdicts[next(iter(self._verdicts))]
        self._trial, self._since = None, now
        for meter in self._member_meters:
            meter.forget_rates()
            meter.bursts.begin(now, holds=meter.holds)
