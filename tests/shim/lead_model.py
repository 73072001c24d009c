"""Members of a gang as ``lead.c`` sees them: programs that wait for each other, in a time of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.c_parts import ffi, lib

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
TICK = 20 * MICROSECOND
MEETS = 0
"""In place of a submission's time: it waits for those of the same number of all members."""
OUTSIDE = -1
"""It waits for something else."""
NEXT = -2
"""It waits for what the same member submits next."""
RUNS, IN, COMPLETE = lib.NVS_GANG_RUNS, lib.NVS_GANG_IN, lib.NVS_GANG_COMPLETE


def lockstep(period: int, nanoseconds: int) -> Callable[[int], int]:
    """A program each of whose submissions takes so long, but that every ``period``th one meets the others."""
    return lambda number: MEETS if number % period == period - 1 else nanoseconds


@dataclass(slots=True)
class Member:
    """One member, with its gate closed."""

    time_of: Callable[[int], int]
    """What its submission of that number does: a time in nanoseconds, MEETS, NEXT or OUTSIDE."""
    submitted: int
    completed: int
    threads: bool = True
    """A thread waits at the gate."""
    alive: bool = True
    follows: bool = True
    flags: int = IN | RUNS
    revision: int = 0
    allowed: int = 0
    most: int = 0
    overdue: int = 0
    closed_at: int = field(init=False)
    """How many had completed when the gate was closed."""
    taken: int = 0
    version: int = 1
    entry: int = 1
    began: int = 0
    outcome: int = 0
    met: int = field(init=False)
    """How many meetings it has had."""

    def __post_init__(self) -> None:
        self.closed_at = self.completed
        self.met = sum(self.time_of(number) == MEETS for number in range(self.completed))

    def runs(self) -> bool:
        """Something that it submitted has not completed."""
        return self.completed < self.submitted

    def meeting(self) -> int:
        """Which of its meetings the kernel that runs is; -1: it is none."""
        if not self.runs() or self.time_of(self.completed) != MEETS:
            return -1
        return self.met

    def follow(self, command: Any) -> None:
        """Does what it is told."""
        if not command.version or command.version == self.revision or command.entry != self.entry:
            return
        self.revision = command.version
        if command.order == lib.NVS_GANG_ALLOW:
            assert command.allowed >= self.allowed or command.allowed >= self.taken
            self.allowed = max(command.allowed, self.allowed)
            self.most, self.overdue = command.most_ns, command.overdue_ns
        else:
            self.allowed = self.taken
        if command.order in (lib.NVS_GANG_END, lib.NVS_GANG_PUT_OFF):
            self.outcome = command.order

    def submit(self) -> None:
        """Lets a submission pass, if one may and wants to."""
        if not self.threads or self.taken == self.allowed or self.time_of(self.submitted) > self.most:
            return
        ahead = sum(max(0, self.time_of(number)) for number in range(self.closed_at, self.submitted + 1))
        if ahead <= self.overdue:
            self.taken += 1
            self.submitted += 1


@dataclass(slots=True)
class Gang:
    """All members, the page, and whoever leads."""

    members: Sequence[Member]
    random: random.Random
    now: int = SECOND
    leader: int = 0
    lead: Any = field(init=False)
    statuses: Any = field(init=False)
    commands: Any = field(init=False)
    orders: int = 0
    pace: int = TICK
    """How long a moment is."""
    absent: int = 0

    def __post_init__(self) -> None:
        self.statuses = ffi.new(f"struct nvs_gang_status[{lib.NVS_GANG_SLOTS}]")
        self.commands = ffi.new(f"struct nvs_gang_command[{lib.NVS_GANG_SLOTS}]")
        for slot in range(len(self.members)):
            self.say(slot)
        self.begin(0)

    def begin(self, leader: int, even: bool = True) -> None:
        """This one leads."""
        self.leader = leader
        self.lead = ffi.new("struct nvs_lead *")
        newest = max(command.version for command in self.commands)
        lib.nvs_lead_begin(self.lead, leader, newest, even, self.now)

    def say(self, slot: int) -> None:
        """A member says how far it is."""
        member, status = self.members[slot], self.statuses[slot]
        member.version += 1
        status.version, status.entry, status.revision = member.version, member.entry, member.revision
        status.flags = member.flags | (0 if member.runs() else COMPLETE)
        status.taken, status.left, status.count = member.taken, member.allowed - member.taken, member.submitted

    def look(self) -> None:
        """The leader looks, and gives its orders."""
        out = ffi.new("struct nvs_lead_orders *")
        present = (1 << len(self.members)) - 1 & ~self.absent
        lib.nvs_lead_look(self.lead, self.statuses, present, self.now, out)
        for slot in range(lib.NVS_GANG_SLOTS):
            if out.to >> slot & 1:
                self.commands[slot] = out.orders[slot]
                self.orders += 1

    def tick(self) -> None:
        """A moment passes: kernels run, submissions pass, members look as they come to it."""
        self.now += self.pace
        meetings = [member.meeting() for member in self.members]
        met = [member.met for member in self.members]
        for member, meeting in zip(self.members, meetings, strict=True):
            self._run(member, meeting, meetings, met)
        for slot, member in enumerate(self.members):
            if member.alive:
                member.submit()
                if not member.outcome and self.random.random() < 0.3:
                    if member.follows:
                        member.follow(self.commands[slot])
                    self.say(slot)
        leader = self.members[self.leader]
        if leader.alive and not leader.outcome and self.random.random() < 0.3:
            self.look()

    def _run(self, member: Member, meeting: int, meetings: list[int], met: list[int]) -> None:
        if not member.runs():
            member.began = 0
            return
        member.began = member.began or self.now
        time = member.time_of(member.completed)
        if time == MEETS:
            over = all(other == meeting or had > meeting for other, had in zip(meetings, met, strict=True))
        elif time == NEXT:
            over = member.submitted > member.completed + 1
        else:
            over = time != OUTSIDE and self.now - member.began >= time
        if over:
            member.completed += 1
            member.met += time == MEETS
            member.began = 0

    def until_over(self, limit: int = 2 * SECOND) -> int:
        """Runs until all living members know the outcome, and returns how long that took."""
        start = self.now
        while any(member.alive and not member.outcome for member in self.members):
            assert self.now - start < limit, "it does not end"
            self.tick()
        return self.now - start

    def ended(self) -> bool:
        """All have stopped at a consistent cut."""
        return all(member.outcome == lib.NVS_GANG_END for member in self.members if member.alive)
