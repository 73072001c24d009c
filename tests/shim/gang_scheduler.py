"""A scheduler that knows one gang, and gives all its members the lock, or takes it from all."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import time
from dataclasses import dataclass, field
from typing import TypeVar

from nvshare.protocol import gang, wire
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import Peer

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
FrameT = TypeVar("FrameT", bound=wire.Frame)


def page_file(size: int = gang.PAGE_BYTES, seals: int = SEALS) -> int:
    """The descriptor of a new page."""
    descriptor = os.memfd_create("gang", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def send_page(peer: Peer, descriptor: int, slot: int, slots: int, size: int = gang.PAGE_BYTES) -> None:
    """The frame GANG with its descriptor."""
    frame = wire.encode(wire.Gang(slot, slots, size))
    assert socket.send_fds(peer.connection, [frame], [descriptor]) == len(frame)


def expect_late(peer: Peer, kind: type[FrameT]) -> FrameT:
    """The next frame of that kind; others are passed over."""
    while not isinstance(frame := peer.receive(), kind):
        pass
    return frame


@dataclass(slots=True)
class GangScheduler:
    """One gang."""

    scheduler: FakeScheduler
    peers: list[Peer] = field(default_factory=list)
    """By slot."""
    page: mmap.mmap = field(init=False)
    stopped: list[tuple[int, int]] = field(default_factory=list)
    """From when to when all had given the lock back, in nanoseconds of CLOCK_MONOTONIC."""
    stopped_at: int = 0

    def gather(self, count: int) -> None:
        """Waits for so many clients, of which the first to want the lock need not be all, and makes them a gang."""
        self.peers = [self.scheduler.register() for _ in range(count)]
        self.form()

    def form(self) -> None:
        """Makes a page for all members."""
        descriptor = self.make_page(len(self.peers))
        for slot, peer in enumerate(self.peers):
            send_page(peer, descriptor, slot, len(self.peers))
        os.close(descriptor)

    def make_page(self, slots: int) -> int:
        """The descriptor of a new page for so many, which counts from now on."""
        descriptor = page_file()
        self.page = mmap.mmap(descriptor, gang.PAGE_BYTES)
        head = gang.head(slots)
        self.page[: len(head)] = head
        return descriptor

    def grant(self) -> None:
        """All have the lock."""
        if self.stopped_at:
            self.stopped.append((self.stopped_at, time.monotonic_ns()))
        for slot in range(len(self.peers)):
            gang.count_grant(self.page, slot)
        for peer in self.peers:
            peer.grant()

    def revoke(self) -> None:
        """All are to give it back."""
        for peer in self.peers:
            peer.revoke()

    def cut(self) -> None:
        """The same, and waits until they have."""
        self.revoke()
        self.expect_released()

    def expect_released(self) -> None:
        """Waits until all have given the lock back."""
        for peer in self.peers:
            assert expect_late(peer, wire.LockReleased).grant == peer.grants
        self.stopped_at = time.monotonic_ns()
