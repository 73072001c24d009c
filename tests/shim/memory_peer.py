"""What a test's scheduler says about memory that swaps, and what it hears."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TypeVar

from nvshare.protocol import wire
from tests.shim.lock_server import Peer

MIB = 1 << 20
GRANULE = 2 * MIB
CHUNK = 64 * MIB
CAPACITY = 1 << 40

FrameT = TypeVar("FrameT", bound=wire.Frame)


def memory_file(size: int) -> int:
    """A file in memory of that size."""
    descriptor = os.memfd_create("arena")
    os.truncate(descriptor, size)
    return descriptor


@dataclass(slots=True)
class MemoryPeer:
    """A client whose memory swaps, as its scheduler sees it."""

    peer: Peer
    order: int = 0
    resident: wire.Resident = field(default_factory=lambda: wire.Resident(0, 0, 0))
    """The newest."""

    def expect(self, kind: type[FrameT]) -> FrameT:
        """The next frame that is not about what is resident, which must be of that kind."""
        while True:
            frame = self.peer.receive()
            if not isinstance(frame, wire.Resident):
                assert isinstance(frame, kind), frame
                return frame
            self.resident = frame

    def heard(self, **numbers: int) -> wire.Resident:
        """Reads until what is resident has been said with these numbers, by a frame that comes from now on."""
        while True:
            frame = self.peer.receive()
            assert isinstance(frame, wire.Resident), frame
            self.resident = frame
            if all(getattr(frame, name) == value for name, value in numbers.items()):
                return frame

    def allot(self, allotted: int, admitted: int, request: int = 0, capacity: int = CAPACITY) -> None:
        """Says what may be resident, and what the footprint may become."""
        self.order += 1
        self.peer.send(wire.Allot(self.order, allotted, admitted, capacity, request))

    def tell(self, allotted: int, admitted: int) -> None:
        """The same, and waits until the client goes by it."""
        self.allot(allotted, admitted)
        self.heard(order=self.order)

    def evict(self, allotted: int) -> None:
        """Lowers what may be resident."""
        self.order += 1
        self.peer.send(wire.Evict(self.order, allotted))

    def grow(self, slack: int = 0) -> wire.Grow:
        """Grants the next wish in full, with some slack."""
        grow = self.expect(wire.Grow)
        self.allot(grow.footprint_bytes + slack, grow.footprint_bytes + slack, grow.request)
        return grow

    def arena(self, size: int) -> None:
        """Gives host memory."""
        descriptor = memory_file(size)
        self.send_with(wire.encode(wire.Arena(size)), descriptor)
        os.close(descriptor)

    def send_with(self, data: bytes, *descriptors: int) -> None:
        """Sends bytes with descriptors."""
        socket.send_fds(self.peer.connection, [data], list(descriptors))

    def out_and_back(self, footprint: int) -> None:
        """Brings all of it out, and in again."""
        self.evict(0)
        self.heard(resident_bytes=0, order=self.order)
        self.allot(footprint, footprint)
        self.heard(resident_bytes=footprint, order=self.order)

    def grant(self) -> None:
        """Gives the lock to a client that asks for it."""
        self.expect(wire.ReqLock)
        self.peer.grant()

    def take_back(self) -> None:
        """Asks for the lock back and waits until the client gives it."""
        self.peer.revoke()
        assert self.expect(wire.LockReleased).grant == self.peer.grants
