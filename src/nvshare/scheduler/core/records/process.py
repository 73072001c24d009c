"""The core's record of one process that can sleep: its clients, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

REST_SECONDS: Final = 1.0
"""So long a process is idle, or awake, before it is put to sleep for others: on an H200 falling asleep took 0.4 s, and
waking 0.3 s."""


MOST_PATIENCE: Final = 64
"""How many times as long one stays awake, at the most, that woke in vain again and again."""


class Sleep(Enum):
    """How far a process is."""

    AWAKE = auto()
    LEAVING = auto()
    """Its memory leaves its devices, so that it can fall asleep."""
    FALLING = auto()
    """The shell was asked to put it to sleep."""
    ASLEEP = auto()
    LOADING = auto()
    """It is asleep, and its host memory comes back from files, if it was there."""
    COMING = auto()
    """It is asleep, and waits for room for its contexts."""
    WAKING = auto()
    """The shell was asked to wake it."""


@dataclass(slots=True, eq=False)
class Process:
    """One process. Only ``Sleeping`` changes it."""

    number: int
    state: Sleep = Sleep.AWAKE
    clients: dict[int, None] = field(default_factory=dict)
    """The numbers of its clients, one a device."""
    woke_at: float = float("-inf")
    slept_at: float = float("-inf")
    """When it fell asleep, or was found asleep."""
    tried_at: float = float("-inf")
    """When it was last tried in vain to put it to sleep."""
    rests: bool = False
    """It sleeps when it has been idle for long enough, though nobody needs what it has."""
    asked: bool = False
    """The operator wants it to sleep as soon as it can."""
    waited: bool = False
    """It waited for its turn when it fell asleep."""
    measured: bool = False
    """Its devices are measured, for how much its contexts take, or before it wakes for whether there is room for them.
    """
    gives_way_on: set[str] = field(default_factory=set)
    """The devices where it is to sleep next for one that was before it; its clients are granted no lock meanwhile."""
    kept_out: str = ""
    """Why it waits for others' ends on one of its devices, and asks for room on none; empty: it does not."""
    wanted: bool = False
    """A call waits at its door, or the operator wants it awake."""
    reason: str = ""
    """Why it stayed awake the last time; empty: it did not."""
    never: bool = False
    """It can't sleep at all, for that reason."""
    sleeps: int = 0
    """How often it fell asleep."""
    told_at: float = float("-inf")
    """When it was last told something beside that its memory is to leave."""
    _patience: int = 1
    _grants: int = 0
    """How many its clients had had when it lost patience."""
    willing: bool = True
    """Whether it sleeps sooner or later, as it was seen last."""
    stands_still: bool = False
    """It has not done for long what it was told: somebody stopped it, and nobody waits for it."""

    # What is known of it.

    def enter(self, client: int) -> None:
        """It has a client."""
        self.clients[client] = None

    def lose_client(self, client: int, device: str) -> None:
        """A client of it is gone, on this device."""
        del self.clients[client]
        self.gives_way_on.discard(device)

    def ask(self) -> None:
        """The operator wants it to sleep as soon as it can."""
        self.asked = True

    def rest(self, *, rests: bool) -> None:
        """Whether it sleeps when it has been idle for long enough."""
        self.rests = rests

    def lose_patience(self, times: int, grants: int) -> None:
        """It woke, or was tried, in vain, as long as its clients have had no more than so many grants: next time it
        stays awake so much longer."""
        self._patience, self._grants = min(times * self.patience(grants), MOST_PATIENCE), grants

    def is_owed_a_turn(self, grants: int) -> bool:
        """Whether it woke, or was tried, and its clients, which have had so many grants, have had none since."""
        return grants == self._grants

    def patience(self, grants: int) -> int:
        """How many times as long as others it stays awake, when its clients have had so many grants."""
        return self._patience if grants == self._grants else 1

    def give_way(self, device: str, *, gives: bool) -> None:
        """Whether it is to sleep next for one that was before it on a device."""
        (self.gives_way_on.add if gives else self.gives_way_on.discard)(device)

    def will(self, *, sleep: bool) -> bool:
        """Whether it sleeps sooner or later; whether that is news."""
        news, self.willing = sleep is not self.willing, sleep
        return news

    def measure(self, *, measured: bool) -> None:
        """Whether its devices are measured for it."""
        self.measured = measured

    def tell(self, now: float) -> None:
        """It was told something."""
        self.told_at = now

    def stand_still(self, *, still: bool) -> None:
        """Whether it has not done for long what it was told."""
        self.stands_still = still

    # From one state to the next.

    def leave(self) -> None:
        """Its memory is to leave its devices."""
        self.state, self.wanted, self.reason = Sleep.LEAVING, False, ""

    def fall(self) -> None:
        """That has left, and the shell is asked to put it to sleep."""
        self.state, self.measured = Sleep.FALLING, False

    def fall_asleep(self, now: float, *, waited: bool) -> None:
        """It sleeps; ``waited``: it waited for its turn."""
        self.state, self.wanted, self.asked, self.reason = Sleep.ASLEEP, False, False, ""
        self.slept_at, self.waited = now, waited
        self.sleeps += 1

    def want(self) -> bool:
        """It is wanted awake; whether it is not, and was not wanted before."""
        self.asked = False
        if self.state is Sleep.ASLEEP:
            self.state = Sleep.LOADING
        is_news = self.state is not Sleep.AWAKE and not self.wanted
        self.wanted = self.state is not Sleep.AWAKE
        return is_news

    def come(self) -> None:
        """Its host memory is back, and its clients ask for room for their contexts."""
        self.state, self.kept_out = Sleep.COMING, ""

    def wait_for_ends(self, reason: str) -> None:
        """Others have to end before it has that room."""
        self.state, self.kept_out, self.measured = Sleep.LOADING, reason, False

    def wake(self) -> None:
        """There is room, and the shell is asked to wake it."""
        self.state, self.measured = Sleep.WAKING, False

    def woke(self, now: float) -> None:
        """It has its contexts again."""
        self.woke_at = now

    def be_awake(self) -> None:
        """It is awake again, or still."""
        self.state, self.wanted, self.measured, self.stands_still = Sleep.AWAKE, False, False, False

    def stay_awake(self, reason: str) -> None:
        """It has been idle for long enough, and does not sleep for this reason; empty: it does."""
        self.reason = reason

    def resist(self, reason: str, now: float, *, final: bool) -> None:
        """It could not be put to sleep for this reason; ``final``: it never can."""
        self.reason, self.never, self.tried_at = reason, final, now

    @property
    def is_to_rest(self) -> bool:
        """Whether it is to give way when it is idle for long enough to sleep."""
        return self.rests or self.asked

    @property
    def leaves(self) -> bool:
        """Whether its memory is to leave its devices though nobody else needs the room."""
        return self.state in (Sleep.LEAVING, Sleep.FALLING)

    @property
    def comes(self) -> bool:
        """Whether it comes back, and nobody stopped it."""
        return self.state in (Sleep.COMING, Sleep.WAKING) and not self.stands_still

    @property
    def is_held_back(self) -> bool:
        """Whether no client of it that waits is granted, since it is to sleep."""
        return self.leaves or bool(self.gives_way_on)

    @property
    def falls(self) -> bool:
        """Whether it is being checkpointed, as far as it can be."""
        return self.state is Sleep.FALLING

    def still_seconds(self, now: float) -> float:
        """How long ago one that stands still was told what it has not done; 0 where its memory leaves, which counts by
        itself."""
        return now - self.told_at if self.stands_still and self.state is not Sleep.LEAVING else 0.0

    @property
    def is_asleep(self) -> bool:
        """Whether its contexts are not on its devices, or are only being brought back."""
        return self.state in (Sleep.ASLEEP, Sleep.LOADING, Sleep.COMING, Sleep.WAKING)
