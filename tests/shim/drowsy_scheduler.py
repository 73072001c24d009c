"""A scheduler that has its one program sleep whenever that rests, its host memory in a file or not, and dies a lot."""

from __future__ import annotations

import os
import random
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import GRANULE, MemoryPeer
from tests.shim.storing import ARENA_BYTES, ask_to_store, empty_file

PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Drowsy:
    """What it does is by chance, and always what a scheduler may do."""

    scheduler: FakeScheduler
    program: ControlledProgram
    folder: Path
    chance: random.Random
    dies: float
    """How probable it is at each place where it may."""
    lives: int = 0
    stored: int = 0
    """How often it has heard that."""
    peer: MemoryPeer = field(init=False)
    heard: set[type[wire.Frame]] = field(default_factory=set)
    """Of what is said once, since that was looked at."""
    holds: bool = False
    sleeps: bool = False
    in_file: bool = False
    given_bytes: int = 0

    def turn(self) -> None:
        """The program looks at its memory, and rests."""
        self.look()
        self.rest()

    def look(self) -> None:
        """It looks at its memory, which must be right."""
        self.program.begin("look")
        self.go_on(self.program.answered)
        assert self.program.answer() == "right"

    def rest(self) -> None:
        """It sleeps, mostly, and is left so."""
        if self.chance.random() < 0.9:
            self.bring_out()
        self.heard.clear()
        if not self.sleeps:
            self.peer.peer.send(wire.Sleep(1))
            self.go_on(lambda: bool(self.heard & {wire.Asleep, wire.NotAsleep}), wakes=False)
        if not self.sleeps or self.in_file or self.chance.random() < 0.2:
            return
        file = empty_file(self.folder)
        ask_to_store(self.peer, file)
        os.close(file)
        if not self.may_die():
            self.go_on(lambda: bool(self.heard & {wire.Stored, wire.NotStored}), wakes=False)
            self.may_die()

    def bring_out(self) -> None:
        """All that it has leaves the device."""
        if self.holds:
            self.peer.peer.revoke()
        self.peer.evict(0)
        order, lives = self.peer.order, self.lives
        self.go_on(
            lambda: (
                self.lives > lives
                or (not self.holds and self.peer.resident.order >= order and not self.peer.resident.resident_bytes)
            ),
            wakes=False,
        )

    def go_on(self, until: Callable[[], bool], wakes: bool = True) -> None:
        """Hears and answers until something is so; wakes the program if it sleeps."""

        def is_so() -> bool:
            try:
                if wakes and self.sleeps:
                    self.wake()
                while select.select([self.peer.peer.connection], [], [], 0.002)[0]:
                    self.hear(self.peer.peer.receive())
            except (ConnectionError, BrokenPipeError):
                self.meet()
            return until()

        poll_until(is_so, "the program goes on", PATIENCE_SECONDS)

    def wake(self) -> None:
        """As far as that goes now."""
        if self.in_file and self.given_bytes < ARENA_BYTES:
            left = (ARENA_BYTES - self.given_bytes) // GRANULE
            size = self.chance.choice([left, self.chance.randint(1, left)]) * GRANULE
            self.peer.arena(size)
            self.given_bytes += size
            self.may_die()
        elif not self.in_file:
            self.sleeps = False
            self.peer.peer.send(wire.Awake())
            self.peer.allot(ARENA_BYTES, ARENA_BYTES)

    def may_die(self) -> bool:
        """Ends, at a moment when nobody expects it, and is there again as another one."""
        if self.chance.random() >= self.dies:
            return False
        select.select([self.peer.peer.connection], [], [], self.chance.choice([0, 0.01, 0.1]))
        self.scheduler.die()
        self.scheduler.listen()
        self.meet()
        return True

    def meet(self) -> None:
        """The program comes, and says how it is."""
        self.lives += 1
        self.peer = MemoryPeer(self.scheduler.register(epoch=self.lives))
        self.peer.peer.grants = 1000 * self.lives
        state = self.peer.peer.register.state
        self.holds = state in {wire.State.HOLDING, wire.State.DRAINING}
        self.sleeps = self.in_file = False
        self.given_bytes = 0
        if self.lives == 1:
            self.peer.arena(ARENA_BYTES)
        if state is wire.State.WAITING:
            self.grant()
        elif self.holds:
            self.peer.peer.send(wire.LockOk(self.peer.peer.grants))

    def grant(self) -> None:
        """Room first, then the lock."""
        self.peer.allot(ARENA_BYTES, ARENA_BYTES)
        self.peer.peer.grant()
        self.holds = True

    def hear(self, frame: wire.Frame) -> None:
        """One frame."""
        self.heard.add(type(frame))
        match frame:
            case wire.Resident():
                self.peer.resident = frame
            case wire.Grow(request=request):
                self.peer.allot(ARENA_BYTES, ARENA_BYTES, request)
            case wire.ReqLock():
                self.grant()
            case wire.LockReleased():
                self.holds = False
            case wire.Asleep():
                self.sleeps = True
            case wire.Stored():
                # Whoever was woken by one that did not know of it needs its memory all the same.
                self.sleeps = self.in_file = True
                self.stored += 1
            case wire.Loaded(lost=lost):
                assert not lost
                self.in_file = False
                self.given_bytes = 0
            case _:
                kinds = wire.NotAsleep | wire.NotStored | wire.Wake | wire.Footprint | wire.AskReason
                assert isinstance(frame, kinds), frame
