"""Clients whose memory swaps, as they are: slow, killed, cut off; and what is really on the device.

A client obeys what it has read, in its own time. Its connection may end with messages under way in both directions,
and the process live on; it may die, and then its memory is there until the driver has cleaned up. ``used_bytes`` is
the truth: what the model has on the device, whatever the core believes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from nvshare.scheduler.core.actions import Action, Allot, Evict, Grant, RefuseGrowth, Revoke
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    Event,
    GrowthRequested,
    LockReleased,
    LockRequested,
    ResidencyReported,
)

MIB = 1 << 20
GRANULE = 64 * MIB


@dataclass(slots=True, eq=False)
class Process:
    """One process and its library's idea of its memory: what room_state.c does."""

    device: str
    number: int = 0
    """Of its connection; 0: it has none."""
    inbox: deque[Action] = field(default_factory=deque)
    outbox: deque[Event] = field(default_factory=deque)
    pinned: int = 0
    """Of its context; 0: it has none yet."""
    footprint: int = 0
    resident: int = 0
    fixed: int = 0
    admitted: int = 0
    fixed_admitted: int = 0
    allotted: int = 0
    order: int = 0
    newest: tuple[int, int] = (0, 0)
    arena: int = 0
    returned: int = 0
    """Of all arenas that it ever had."""
    request: int = 0
    wanted: tuple[int, int] | None = None
    """Footprint and fixed memory that it asked for."""
    grant: int | None = None
    turns: int = 0
    waits: bool = False
    revoked: bool = False
    refusals: int = 0

    @property
    def used_bytes(self) -> int:
        """What it has on the device."""
        return self.pinned + self.fixed + self.resident

    def register(self, number: int, device_bytes: int) -> ClientRegistered:
        """It connects, for the first time or anew."""
        self.number = number
        self.inbox.clear()
        self.outbox.clear()
        self.wanted = None
        self.allotted = min(self.footprint, max(self.allotted, self.resident))
        self.order, self.newest = 0, (0, 0)
        self.admitted, self.fixed_admitted = self.footprint, self.fixed
        state = ClaimedState.IDLE
        if self.grant is not None:
            state = ClaimedState.DRAINING if self.revoked else ClaimedState.HOLDING
        elif self.waits:
            state = ClaimedState.WAITING
        event = ClientRegistered(
            number,
            self.device,
            self.footprint,
            state,
            grant=self.grant or 0,
            backend=Backend.SWAP,
            device_bytes=device_bytes,
        )
        self.report()
        return event

    def report(self) -> None:
        """It says what it has."""
        self.outbox.append(
            ResidencyReported(
                self.number,
                self.order,
                self.footprint,
                self.resident,
                fixed_bytes=self.fixed,
                admitted_bytes=self.admitted,
                arena_bytes=self.arena,
                usable_bytes=self.arena,
                out_bytes=self.footprint - self.resident,
                returned_bytes=self.returned,
            )
        )

    def grow(self, footprint: int, fixed: int) -> None:
        """It wants more, or a context."""
        self.request += 1
        self.wanted = self.footprint + footprint, self.fixed + fixed
        self.outbox.append(GrowthRequested(self.number, self.request, *self.wanted))

    def read(self) -> None:
        """It reads one message."""
        if not self.inbox:
            return
        action = self.inbox.popleft()
        match action:
            case Grant(_, grant):
                self.grant, self.waits, self.revoked = grant, False, False
                self.turns += 1
            case Revoke(_, grant):
                self.revoked = self.grant == grant
            case Allot():
                self.newest = action.order, action.allotted_bytes
                self.admitted = action.admitted_bytes
                obeys = self.obeys()
                # What is granted it takes before it says anything: it counts on no more than it says.
                if self.wanted and action.request == self.request:
                    self.fixed_admitted = self.wanted[1]
                    self.take()
                elif obeys:
                    self.report()
            case Evict():
                self.newest = action.order, action.allotted_bytes
                self.settle()
            case RefuseGrowth(_, request):
                if request == self.request:
                    self.wanted = None
                    self.refusals += 1
            case _:
                pass

    def take(self) -> None:
        """It allocates what it was given."""
        assert self.wanted
        footprint, fixed = self.wanted
        self.wanted = None
        self.pinned = self.pinned or 640 * MIB
        self.fixed = max(self.fixed, min(fixed, self.fixed_admitted))
        if footprint > self.footprint:
            assert footprint <= self.admitted, "a growth was granted and is not admitted"
            more = footprint - self.footprint
            self.footprint = footprint
            if self.resident + more <= self.allotted:
                self.resident += more
            else:
                assert self.grant is None or self.revoked, "a holder was granted memory for which there is no room"
        self.report()

    def settle(self) -> None:
        """It goes by the newest order if it can, and says so."""
        if self.obeys():
            self.report()

    def obeys(self) -> bool:
        """It goes by the newest order if it can; whether that is another one."""
        order, allotted = self.newest
        if order == self.order or (self.grant is not None and self.resident > allotted):
            return False
        self.order, self.allotted = order, allotted
        return True

    def move(self, most: int) -> None:
        """Some of its memory leaves or comes, or host memory goes back that it has no use for."""
        if self.grant is None and self.resident > self.allotted:
            leaves = min(most, self.resident, max(GRANULE, self.resident - self.allotted))
            self.resident -= min(leaves, self.may_leave)
            self.report()
        elif self.resident < min(self.footprint, self.allotted):
            self.resident += min(most, min(self.footprint, self.allotted) - self.resident)
            self.report()
        elif surplus := min(most, self.surplus):
            self.arena, self.returned = self.arena - surplus, self.returned + surplus
            self.report()

    @property
    def surplus(self) -> int:
        """Host memory beyond what it is admitted, while it wants nothing and has no turn.

        It goes back ten seconds later, when all that was said has been heard on both sides.
        """
        says_more = bool(self.inbox or self.outbox)
        if says_more or self.wanted or self.order != self.newest[0] or self.grant is not None:
            return 0
        return max(0, self.arena - max(self.admitted, self.footprint)) // GRANULE * GRANULE

    @property
    def has_to_move(self) -> bool:
        """Whether ``move`` changes something."""
        if self.grant is None and self.resident > self.allotted:
            return self.may_leave > 0
        return self.resident < min(self.footprint, self.allotted)

    @property
    def may_leave(self) -> int:
        """What its host memory takes, in whole chunks unless that is all that it has."""
        left = self.arena - (self.footprint - self.resident)
        return self.resident if left >= self.resident else max(0, left // GRANULE * GRANULE)

    def free(self, freed: int) -> None:
        """It frees memory, what is resident first."""
        freed = min(freed, self.footprint)
        self.footprint -= freed
        self.resident = max(0, self.resident - freed)
        self.settle()
        self.give_back()
        self.report()

    def give_back(self) -> None:
        """It keeps only some of what it was admitted and does not use."""
        slack = max(64 * MIB, self.footprint // 16)
        if self.wanted is None and self.order == self.newest[0] and self.admitted > self.footprint + 2 * slack:
            self.admitted = self.footprint + slack

    def ask(self) -> None:
        """It wants the lock."""
        if self.pinned and self.grant is None and not self.waits:
            self.waits = True
            self.report()
            self.outbox.append(LockRequested(self.number))

    def release(self) -> None:
        """It gives the lock back."""
        if self.grant is not None:
            self.outbox.append(LockReleased(self.number, self.grant))
            self.grant, self.revoked = None, False
            self.settle()

    @property
    def runs(self) -> bool:
        """Whether its gate is open."""
        return self.grant is not None and self.resident == self.footprint
