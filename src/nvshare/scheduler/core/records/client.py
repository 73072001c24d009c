"""The core's record of one client, and of those of a gang on one device: of every *unit*."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nvshare.scheduler.core.records.containers import Container
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.records.memory import Memory
from nvshare.scheduler.core.records.process import Process
from nvshare.scheduler.core.records.stay import KEPT_SECONDS, Stay
from nvshare.scheduler.core.terms import Priority
from nvshare.scheduler.core.transitions import TRANSITIONS, ClientState, Step


@dataclass(frozen=True, slots=True)
class LostTurn:
    """The turn of a holder whose connection was lost."""

    since: float
    stay: Stay
    asked_at: float | None
    """When it was asked to leave; None: it was not."""
    spent_grace: float
    """See ``Client``."""


@dataclass(slots=True, eq=False)
class Client:
    """One client. Only its device changes it."""

    number: int
    memory: Memory
    container: Container
    state: ClientState
    since: float
    """When it was registered, began to wait or to hold; a Revoke changes nothing here."""
    ticket: int
    """Its place among all that wait, on whichever device: who began to wait earlier has a lower one."""
    grant: int = 0
    """The grant that it holds, else the last one."""
    grants: int = 0
    held_seconds: float = 0.0
    """Without the present turn."""
    waited_seconds: float = 0.0
    """Without the present wait."""
    revoked_at: float = 0.0
    spent_grace: float = 0.0
    """Of the time that it has to leave when it is asked to: what it has had since it was asked for this grant, before
    its connection was lost."""
    told: bool = False
    """The last TellWaiters to it said that somebody waits for it."""
    told_to_rest: bool = False
    """It said that it is to give way when it has been idle for long enough to sleep, though nobody waits."""
    keeps_room: bool = False
    """It does not hold, and has not left the device within the grace time as it was told."""
    silent: bool = False
    """It has not answered within the grace time what it was told of its memory: while it waits it is passed over."""
    killed: bool = False
    """A Kill of it was asked for."""
    crossed_grant: int | None = None
    """A revoked grant that was given back. Revoke and release may have crossed: then a second release follows."""
    stay: Stay = field(default_factory=Stay)
    tied: Gang | None = None
    """Of which it is a member; None: it is tied to nobody, not even to some that are elsewhere."""
    part: Part | None = None
    """With whom it holds and waits as one on its device; None: it is a unit by itself."""
    summoned: bool = False
    """It waits, or holds, because its gang does. It may have asked for the lock meanwhile: that may still come."""
    process: Process | None = None
    """Which can sleep; None: it was not said that it can."""
    former_context_bytes: int | None = None
    """What its context took when it was measured, before its connection was cut; None: that is not known."""
    keeps_place: bool = False
    """Its process slept: when it asks for the lock as soon as it is awake it has the place that it had, or that of who
    began to wait when it wanted to be awake."""
    is_due: bool = False
    """It was given a slice of its class (lock/turns.py), since it lacked room: others sleep for it if need be, whatever
    their class, and it sleeps for none of them, until it falls asleep again, or its turn begins when it has the room.
    """
    idle_at: float = float("-inf")
    """When it last said, since it holds, that nothing of it runs and nothing comes."""

    # What it may have, and with whom.

    def enter(self, container: Container) -> None:
        """It is in another container."""
        self.container = container

    def may_sleep(self, process: Process, context_bytes: int | None) -> None:
        """Its process can sleep; so much its context took before its connection was cut, None: that is not known."""
        self.process, self.former_context_bytes = process, context_bytes

    def tie(self, gang: Gang | None) -> None:
        """It is a member of this gang; None: of none."""
        self.tied = gang

    def join(self, part: Part | None) -> None:
        """It holds and waits as one with these on its device; None: by itself."""
        self.part = part

    # Its place in line.

    def line_up(self, ticket: int) -> None:
        """It has this place."""
        self.ticket = ticket

    def keep_place(self, ticket: int) -> None:
        """It has this place if it asks as soon as its process is awake."""
        self.ticket, self.keeps_place = ticket, True

    def lose_place(self) -> None:
        """It has none, and is owed nothing."""
        self.keeps_place = self.is_due = False

    def owe(self, *, is_due: bool) -> None:
        """Whether it was given a slice of its class, and has not begun it."""
        self.is_due = is_due

    @property
    def has_slice(self) -> bool:
        """Whether it was given a slice, and has the memory that it asked for: its turn is before others."""
        return self.is_due and self.memory.growth is None

    @property
    def growth_order(self) -> tuple[bool, int]:
        """Of those that ask for memory who has a lower one is first, and of equal ones who asked first."""
        return not self.is_due, -self.priority

    # How far it is.

    def allows(self, step: Step) -> bool:
        """Whether the step is legal in the present state."""
        return step in TRANSITIONS[self.state]

    def lose(self) -> LostTurn:
        """Its turn, for when it is back; it holds, and its connection was lost."""
        asked_at = None if self.state is ClientState.HOLDING else self.revoked_at
        return LostTurn(self.since, self.stay, asked_at, self.spent_grace)

    def resume(self, turn: LostTurn, now: float) -> None:
        """Goes on with a turn after its connection was lost: the same turn, and the same time to leave."""
        self.spent_grace = turn.spent_grace if turn.asked_at is None else now - turn.asked_at
        self.revoked_at = now - self.spent_grace
        self.since, self.stay = turn.since, replace(turn.stay)
        # What it held before was counted when it left.
        self.held_seconds = turn.since - now

    def advance(self, step: Step) -> None:
        """Goes to the state that the step leads to; KeyError if the step is not legal."""
        self.state = TRANSITIONS[self.state][step]

    def claim(self, grant: int, now: float) -> None:
        """It registers as a holder."""
        self.grant, self.revoked_at = grant, now

    def disbelieve(self, *, doubted: bool) -> None:
        """No record says that it holds: it has to leave; ``doubted``: what it says of its grant then is no fault."""
        self.state = ClientState.IDLE if doubted else ClientState.LEAVING
        self.crossed_grant = self.grant if doubted else None

    def wait(self, step: Step, now: float) -> float:
        """It waits for the lock, since it asked or was summoned; returns for how long it was idle."""
        self.advance(step)
        idle_seconds, self.since = now - self.since, now
        self.summoned = step is Step.SUMMONED
        return idle_seconds

    def ask_as_well(self) -> None:
        """It was summoned, and asks itself."""
        self.advance(Step.REQUESTED_AGAIN)
        self.summoned = False

    def fall_asleep(self, now: float) -> None:
        """Its process sleeps while it waits."""
        self.advance(Step.FELL_ASLEEP)
        self.waited_seconds += now - self.since
        self.since, self.keeps_place = now, True

    def hold(self, grant: int, now: float) -> None:
        """It has the lock, by this grant."""
        self.advance(Step.GRANTED)
        self.grant = grant
        self.grants += 1
        self.waited_seconds += now - self.since
        self.since, self.idle_at = now, float("-inf")

    def idles(self, now: float) -> None:
        """It says that nothing of it runs and nothing comes."""
        self.idle_at = now

    def tell(self, *, leaves: bool, rests: bool = False) -> None:
        """It is told whether somebody waits for it, and whether it is to give way when it has been idle for longer."""
        self.told, self.told_to_rest = leaves, rests

    def ask_to_leave(self, now: float) -> None:
        """It is asked to give the lock back."""
        self.advance(Step.REVOKED)
        self.revoked_at = now - self.spent_grace

    def release(self, now: float) -> None:
        """It gave the lock back."""
        self.crossed_grant = None if self.state is ClientState.HOLDING else self.grant
        self.advance(Step.RELEASED)
        self.told = self.told_to_rest = self.killed = self.summoned = False
        self.spent_grace = 0.0
        self.held_seconds += now - self.since
        self.since = now

    def release_again(self) -> None:
        """It answers a Revoke that crossed its release."""
        self.advance(Step.RELEASED_AGAIN)
        self.crossed_grant = None

    def listen(self, *, silent: bool) -> None:
        """Whether it does not answer what it was told."""
        self.silent = silent

    def look(self, *, keeps_room: bool) -> None:
        """Whether it does not leave the device as it was told."""
        self.keeps_room = keeps_room

    def kill(self) -> None:
        """A Kill of it is asked for."""
        self.killed = True

    @property
    def holds(self) -> bool:
        """Whether work of it may run."""
        return self.state is not ClientState.IDLE and self.state is not ClientState.WAITING

    def held_until(self, now: float) -> float:
        """For how many seconds it has held, with the present turn."""
        return self.held_seconds + (now - self.since if self.holds else 0.0)

    def waited_until(self, now: float) -> float:
        """For how many seconds it has waited, with the present wait."""
        return self.waited_seconds + (now - self.since if self.state is ClientState.WAITING else 0.0)

    @property
    def stays_in(self) -> bool:
        """Whether it holds and is not on its way out."""
        return self.state in (ClientState.HOLDING, ClientState.UNRESPONSIVE)

    def resumes(self, now: float) -> bool:
        """It asks for the lock; whether it has the place that it had."""
        has_woken, self.keeps_place = self.has_woken(now), False
        return has_woken or self.stay.resumes(self.since, now)

    def has_woken(self, now: float) -> bool:
        """Whether its process has just woken, so that it has the place that it had if it asks for the lock now."""
        return self.keeps_place and self.process is not None and now < self.process.woke_at + KEPT_SECONDS

    @property
    def asks_in_vain(self) -> bool:
        """Whether a request for the lock is none: it asks again when it is awake. It does so, too, when it did not fall
        asleep after its door was closed."""
        return self.process is not None and (self.process.is_asleep or self.state is not ClientState.IDLE)

    @property
    def is_asleep(self) -> bool:
        """Whether its process sleeps, or is only about to wake."""
        return self.process is not None and self.process.is_asleep

    @property
    def is_coming_back(self) -> bool:
        """Whether its process sleeps, and there was room for its context when that was asked for."""
        return self.memory.asleep and self.memory.has_context

    @property
    def is_held_back(self) -> bool:
        """Whether it is not granted, since its process is to sleep."""
        return self.process is not None and self.process.is_held_back

    @property
    def helps(self) -> bool:
        """Whether one of its gang can't stop, maybe because it waits for work of this one."""
        return self.part is not None and self.part.helps

    @property
    def unit(self) -> Unit:
        """Those who come in, hold and leave together."""
        return self.part or self

    # As a unit of its own.

    @property
    def members(self) -> tuple[Client, ...]:
        """All of the unit, whatever they do."""
        return (self,)

    @property
    def coming(self) -> tuple[Client, ...]:
        """Those of the unit that come in when it is its turn."""
        return (self,)

    @property
    def gang(self) -> Gang | None:
        """With whose other members, on whatever device, it holds and waits as one; None: it does so by itself."""
        return None if self.part is None else self.part.gang

    @property
    def is_wide(self) -> bool:
        """Whether it holds and waits as one with others on other devices."""
        return self.part is not None and self.part.is_wide

    @property
    def priority(self) -> Priority:
        """Its class while it holds and waits: its container's, or the highest of its gang's."""
        return self.container.terms.priority if self.part is None else self.part.gang.priority

    @property
    def needed_bytes(self) -> int | None:
        """What it needs beside all others; None: it has to be alone, or nobody knows how much."""
        memory = self.memory
        alone = not memory.is_known or (self.part is not None and self.part.is_wide)
        return None if alone else memory.movable_bytes


@dataclass(slots=True, eq=False)
class Part:
    """The members of a gang that hold and wait as one, as far as they are on one device. Only ``Gangs`` changes it."""

    gang: Gang
    is_wide: bool
    """Others of the gang are on other devices, so it has to be alone on each. Another part takes its place if that
    changes."""
    members: tuple[Client, ...] = ()

    def gather(self, members: tuple[Client, ...]) -> None:
        """It is these."""
        self.members = members

    @property
    def part(self) -> Part:
        """Itself, as of each of its members."""
        return self

    @property
    def coming(self) -> tuple[Client, ...]:
        """Those of the unit that come in when it is its turn."""
        return tuple(client for client in self.members if client.state is ClientState.WAITING)

    @property
    def helps(self) -> bool:
        """Whether one of its gang can't stop, maybe because it waits for work of these."""
        return self.gang.stuck

    @property
    def priority(self) -> Priority:
        """The highest class of its gang."""
        return self.gang.priority

    @property
    def ticket(self) -> int:
        """Its place in the order of waiting; somebody of it waits."""
        return self.coming[0].ticket

    @property
    def since(self) -> float:
        """Since when the first of those that come in waits."""
        return self.coming[0].since

    @property
    def needed_bytes(self) -> int | None:
        """What those need that come in beside all others; None: they have to be alone, or nobody knows how much."""
        return needed_bytes(self.coming)


Unit = Client | Part
"""What comes in, holds and leaves as one on a device: a client alone, or the members of a gang that are there."""


def needed_bytes(units: Iterable[Unit]) -> int | None:
    """What these need together beside all others; None: one of them has to be alone, or nobody knows how much."""
    needed = 0
    for unit in units:
        size = unit.needed_bytes
        if size is None:
            return None
        needed += size
    return needed
