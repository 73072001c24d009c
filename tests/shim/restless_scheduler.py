"""A scheduler that never rests: it takes the lock and the memory away all the time, and dies now and then."""

from __future__ import annotations

import random
import select
import subprocess
from dataclasses import dataclass, field

from nvshare.protocol import wire
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer

SLACK = CHUNK
ARENA = 6 * CHUNK


@dataclass(slots=True)
class Restless:
    """Serves one client until it ends; what it does is by chance, and always what a scheduler may do."""

    scheduler: FakeScheduler
    chance: random.Random
    refuses_above: int = 1 << 40
    """A larger footprint is not granted."""
    lives: int = 0
    left: int = 0
    """How often it has heard that some of the client's memory had left the device."""
    spared: int = 0
    """And how often, that some had without being copied."""
    peer: MemoryPeer | None = field(default=None, init=False)
    holds: bool = False
    revoked: bool = False
    waits: bool = False

    def serve(self, process: subprocess.Popen[str]) -> None:
        """Until the process has ended."""
        while process.poll() is None:
            if self.peer is None:
                self.meet()
                continue
            try:
                self.live(self.peer)
            except ConnectionError:
                self.peer = None
            if self.chance.random() < 0.001:
                self.die()

    def die(self) -> None:
        """Ends, and is there again as another one."""
        self.scheduler.die()
        self.scheduler.listen()
        self.peer = None

    def meet(self) -> None:
        """The client comes, or does not because it has ended."""
        if not select.select([self.scheduler.listener], [], [], 0.1)[0]:
            return
        try:
            peer = MemoryPeer(self.scheduler.register(epoch=self.lives + 1))
        except ConnectionError:
            return
        self.lives += 1
        state = peer.peer.register.state
        self.peer = peer
        self.holds = state in {wire.State.HOLDING, wire.State.DRAINING}
        self.revoked = state is wire.State.DRAINING
        self.waits = state is wire.State.WAITING
        peer.resident = wire.Resident(0, peer.peer.register.footprint_bytes, 0)
        peer.peer.grants = 1000 * self.lives
        if self.holds:
            peer.peer.send(wire.LockOk(peer.peer.grants))
        if self.lives == 1:
            for size in (CHUNK, 2 * CHUNK, 3 * CHUNK):
                peer.arena(size)

    def live(self, peer: MemoryPeer) -> None:
        """Hears something, or does something."""
        while select.select([peer.peer.connection], [], [], self.chance.random() * 0.002)[0]:
            self.hear(peer, peer.peer.receive())
        self.act(peer)

    def hear(self, peer: MemoryPeer, frame: wire.Frame) -> None:
        """One frame."""
        match frame:
            case wire.Resident():
                self.left += frame.resident_bytes < peer.resident.resident_bytes
                self.spared += frame.spared_bytes > peer.resident.spared_bytes
                peer.resident = frame
            case wire.Grow() if frame.footprint_bytes > self.refuses_above:
                peer.peer.send(wire.RefuseGrowth(frame.request, "by chance"))
            case wire.Grow():
                size = frame.footprint_bytes + self.chance.choice([0, SLACK])
                peer.allot(size, size, frame.request)
            case wire.ReqLock():
                self.waits = True
            case wire.LockReleased():
                self.holds = self.revoked = False
            case _:
                assert isinstance(frame, wire.Footprint | wire.Notice | wire.DrainReport | wire.AskReason), frame

    def act(self, peer: MemoryPeer) -> None:
        """What comes next."""
        footprint = peer.resident.footprint_bytes
        if self.holds and not self.revoked and self.chance.random() < 0.3:
            peer.peer.revoke()
            self.revoked = True
            if self.chance.random() < 0.5:
                peer.evict(self.chance.randint(0, footprint))
        elif not self.holds and self.chance.random() < 0.3:
            peer.evict(self.chance.choice([0, self.chance.randint(0, footprint)]))
        elif self.waits and not self.holds:
            self.bring_in(peer)

    def bring_in(self, peer: MemoryPeer) -> None:
        """Room first, then the lock, which is mostly given when all is in."""
        footprint = peer.resident.footprint_bytes
        if peer.resident.resident_bytes < footprint or peer.resident.order < peer.order:
            peer.allot(footprint, max(footprint, peer.resident.admitted_bytes))
        if peer.resident.resident_bytes == footprint or self.chance.random() < 0.1:
            peer.peer.grants += 1
            peer.peer.send(wire.LockOk(peer.peer.grants))
            self.holds, self.waits = True, False
