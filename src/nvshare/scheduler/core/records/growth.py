"""What one client whose memory swaps asked for, until it has its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Wait:
    """A growth that is not possible waits until others end, or sleep."""

    reason: str
    """Why it is not, and what has to happen."""
    for_sleep: bool = False
    """It is possible when others sleep, and the rules see to that; else only when some end."""
    hopeless_since: float | None = None
    """Since when looks find that their ends would not do; None: the last one found that they would."""
    given_up: bool = False
    """It waits no more: if it is still not possible when all were asked, it is refused."""


@dataclass(slots=True, eq=False)
class Growth:
    """One growth."""

    request: int
    footprint_bytes: int
    """In all."""
    fixed_bytes: int
    """Of what can't move, in all."""
    ticket: int = 0
    """Its place among all that wait: that of its client when it asked. Turns that the client has meanwhile change
    nothing."""
    wakes: bool = False
    """It asks for its context only, for which it waits asleep: it is never refused, and the client is told nothing."""
    doubted: tuple[int, float] | None = None
    """It is not possible by this measurement of the device; and until when another one is awaited."""
    asked_until: float | None = None
    """It is not possible by what others said, and they were asked again; until when their answers are awaited."""
    wait: Wait | None = None
    """It is not possible, and waits for that, or did so until it was asked for anew."""
    queued: bool = False
    """It waits so now: nothing is kept for it, not even a first context."""

    @property
    def in_doubt(self) -> bool:
        """Whether it does not seem to be possible, but soon may."""
        return self.doubted is not None or self.asked_until is not None or self.wait is not None

    @property
    def waits_for_ends(self) -> bool:
        """Whether only others' ends could make it possible, whoever sleeps."""
        return self.queued and self.wait is not None and not self.wait.for_sleep

    def doubt(self, measurement: int, until: float) -> tuple[int, float]:
        """It is not possible by this measurement; another one is awaited until then. Returns ``doubted``."""
        self.doubted = measurement, until
        return self.doubted

    def ask_others(self, until: float | None) -> None:
        """What others say of themselves is awaited until then; None: no more."""
        self.asked_until = until

    def queue(self, wait: Wait) -> None:
        """It waits for that."""
        self.doubted = self.asked_until = None
        self.wait, self.queued = wait, True

    def unqueue(self) -> None:
        """It is asked for anew, or it is looked at whether it is possible."""
        self.queued = False

    def give_up(self, since: float | None, *, now: bool) -> None:
        """Others' ends would not do since then, as looks find; None: they would. ``now``: it waits no more."""
        assert self.wait is not None
        self.wait = replace(self.wait, hopeless_since=since, given_up=now)

    def believe(self) -> None:
        """It is possible."""
        self.doubted = self.asked_until = self.wait = None
