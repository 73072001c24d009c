"""A scheduler that has its one program sleep whenever that rests, its host memory away or not, and dies a lot."""

from __future__ import annotations

import os
import random
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from nvshare.protocol.catalogue import NO_BLOCK
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import GRANULE, MemoryPeer
from tests.shim.packing import name_blocks, new_catalogue, new_pack, seal, sums_in
from tests.shim.storing import ARENA_BYTES, empty_file

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
    deduped: int = 0
    """And that some of it is in a pack."""
    peer: MemoryPeer = field(init=False)
    heard: dict[type[wire.Frame], wire.Frame] = field(default_factory=dict)
    """The last of each kind, since that was looked at."""
    holds: bool = False
    sleeps: bool = False
    is_away: bool = False
    """Some of its host memory is, or is on its way back."""
    left_bytes: int = 0
    """To be given, before it may wake."""
    pack: int = -1
    """The last one, and the sums of its blocks."""
    known: list[int] = field(default_factory=list)

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
            self.hear_one_of(wire.Asleep, wire.NotAsleep)
        if not self.sleeps or self.is_away or self.chance.random() < 0.2:
            return
        if self.chance.random() < 0.4:
            file = empty_file(self.folder)
            self.step(wire.Store(), file, wire.Stored, wire.NotStored)
            os.close(file)
        else:
            catalogue = new_catalogue()
            self.share(catalogue)
            os.close(catalogue)
        self.may_die()

    def hear_one_of(self, *kinds: type[wire.Frame]) -> wire.Frame | None:
        """Goes on until it has heard one of them, or is another scheduler."""
        lives = self.lives
        self.go_on(lambda: self.lives > lives or bool(self.heard.keys() & set(kinds)), wakes=False)
        return next((self.heard.pop(kind) for kind in kinds if kind in self.heard), None)

    def step(self, frame: wire.Frame, file: int, *kinds: type[wire.Frame]) -> wire.Frame | None:
        """Asks for something with its host memory; None: it died then."""
        for kind in kinds:
            self.heard.pop(kind, None)
        self.peer.send_with(wire.encode(frame), file)
        return None if self.may_die() else self.hear_one_of(*kinds)

    def share(self, catalogue: int) -> None:
        """Some of its blocks are to be in a pack: in the last one, if that has any of them."""
        summed = self.step(wire.Sum(), catalogue, wire.Summed)
        if not isinstance(summed, wire.Summed) or not summed.count:
            return
        sums = sums_in(catalogue, summed.count)
        if not set(sums) & set(self.known):
            name_blocks(catalogue, sums)
            if self.known:
                os.close(self.pack)
            self.pack, self.known = new_pack(len(sums)), sums
            if self.step(wire.Pack(), self.pack, wire.Packed) != wire.Packed():
                self.known = []
                os.close(self.pack)
                return
            seal(self.pack)
        numbers = {found: number for number, found in enumerate(self.known) if self.chance.random() < 0.9}
        name_blocks(catalogue, sums, [numbers.get(found, NO_BLOCK) for found in sums])
        self.step(wire.Dedup(), self.pack, wire.Deduped)

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
        if self.left_bytes:
            left = self.left_bytes // GRANULE
            size = self.chance.choice([left, self.chance.randint(1, left)]) * GRANULE
            self.peer.arena(size)
            self.left_bytes -= size
            self.may_die()
        elif not self.is_away:
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
        self.sleeps = self.is_away = False
        self.left_bytes = 0
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
        self.heard[type(frame)] = frame
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
                self.sleeps = self.is_away = True
                self.left_bytes = ARENA_BYTES
                self.stored += 1
            case wire.Deduped(away_bytes=away_bytes) if away_bytes:
                self.sleeps = self.is_away = True
                self.left_bytes = away_bytes
                self.deduped += 1
            case wire.Loaded(lost=lost):
                assert not lost
                assert not self.left_bytes
                self.is_away = False
            case _:
                kinds = wire.NotAsleep | wire.NotStored | wire.Wake | wire.Footprint | wire.AskReason
                assert isinstance(frame, kinds | wire.Summed | wire.Packed | wire.Deduped), frame
