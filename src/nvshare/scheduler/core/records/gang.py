"""The core's record of one gang: clients whose GPU work waits for each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from nvshare.scheduler.core.snapshot import GangSnapshot
from nvshare.scheduler.core.terms import Priority

REJOIN_SECONDS: Final = 1.0
"""For how long after a holder is back it may say to whom it is tied, which it does right after REGISTER; and for how
long a gang that waits waits for a member whose connection ended."""


class Phase(Enum):
    """How far a gang on several devices is that waits as a whole."""

    UNDECIDED = auto()
    """Nobody behind it may come in before it is known."""
    PASSED_OVER = auto()
    """It is not the first everywhere: where it is, others come in on time that they borrow from it."""
    KEPT_OUT = auto()
    """On one of its devices something but others' turns, or sleep, keeps it out: it is passed over, and has no slice.
    """
    NEXT = auto()
    """It is the first on all its devices, and comes in at ``due_at``."""
    DUE = auto()
    """It is ``due_at``: whoever holds leaves, and nobody else comes in."""


@dataclass(slots=True, eq=False)
class Gang:
    """One gang. Only ``Gangs`` changes it."""

    number: int
    name: str = ""
    """What its user calls it; empty: nothing."""
    members: tuple[int, ...] = ()
    """Its clients on this node, by number; maybe only one."""
    elsewhere: int = 0
    """How many more belong to it, as far as that is known: on other nodes, or not here yet."""
    may_lack: bool = False
    """It is not known for sure that all of its clients on this node are here."""
    come: int = 0
    expected: int = 0
    """Of so many processes so many have come, and nobody of it may hold before all have; 0: nobody is waited for."""
    reported: bool = False
    """It was said that it waits for these."""
    in_part: bool = False
    """Who holds may keep that while others do not: a name ties them, and nobody said how many they are."""
    lost_at: float = float("-inf")
    """When a member was gone, which may come back."""
    together: tuple[int, ...] = ()
    """Those of its members that hold and wait as one; empty: each does so by itself."""
    apart: bool = False
    """They do not hold together because on one device there is no room for all of its members there."""
    priority: Priority = Priority.NORMAL
    """The highest class of those that hold and wait as one."""
    wide: bool = False
    """Those that hold and wait as one are on more than one device."""
    stuck: bool = False
    """One of those is unresponsive, maybe because it waits for work of the others."""
    idle_seconds: float = 0.0
    """How old what a member said of its idleness may be."""
    phase: Phase = Phase.PASSED_OVER
    lacks_sleep: bool = False
    """It would have been the first on all its devices if others had slept that can, and has not come in since: they
    sleep for it, and stay asleep until it does."""
    due_at: float = float("inf")
    """When those who hold have had their time on all its devices. Counts while it is NEXT or DUE."""

    def describe(
        self,
        members: tuple[int, ...],
        *,
        name: str,
        elsewhere: int,
        may_lack: bool,
        in_part: bool,
        missing: tuple[int, int],
    ) -> None:
        """Who it is, by the keys that its members say; ``missing``: ``come`` and ``expected``."""
        self.members, self.name, self.elsewhere = members, name, elsewhere
        self.may_lack, self.in_part = may_lack, in_part
        self.come, self.expected = missing

    def lose(self, now: float) -> None:
        """A member is gone that may come back, or is not here yet."""
        self.lost_at = now

    def lack(self) -> None:
        """A member may come back."""
        self.may_lack = True

    def hold(self, together: tuple[int, ...], *, apart: bool, wide: bool) -> None:
        """These hold and wait as one."""
        self.together, self.apart, self.wide = together, apart, wide

    def change_class(self, priority: Priority) -> None:
        """It is of this class."""
        self.priority = priority

    def listen(self, idle_seconds: float) -> None:
        """What a member says of its idleness may be so old."""
        self.idle_seconds = idle_seconds

    def be_stuck(self, *, stuck: bool) -> None:
        """Whether one of those that hold as one does not stop."""
        self.stuck = stuck

    def report(self) -> None:
        """It is said that it waits for more processes."""
        self.reported = True

    def come_in(self, phase: Phase, due_at: float | None = None) -> None:
        """It is so far; None: when it comes in is as before."""
        self.phase = phase
        self.due_at = self.due_at if due_at is None else due_at

    def lack_sleep(self, *, lacks: bool) -> None:
        """Whether others are to sleep for it."""
        self.lacks_sleep = lacks

    @property
    def is_lone(self) -> bool:
        """Whether it has one member, and that is by itself: it may have to wait for others, and no more."""
        return len(self.members) == 1 and not self.together and not self.apart

    @property
    def is_passed_over(self) -> bool:
        """Whether others come in before it though it waits."""
        return self.wide and self.phase in (Phase.PASSED_OVER, Phase.KEPT_OUT)

    def snapshot(self) -> GangSnapshot:
        """What can be seen of it."""
        here = len(self.members)
        return GangSnapshot(self.number, self.name, here, here + self.elsewhere, self.apart, self.come, self.expected)


def is_short(gang: Gang | None, now: float) -> bool:
    """Whether a member of it may soon be here."""
    return gang is not None and gang.may_lack and now < gang.lost_at + REJOIN_SECONDS
