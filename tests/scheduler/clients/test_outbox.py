"""Messages that a socket does not take yet, and the descriptors that go with some of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from nvshare.scheduler.clients.outbox import Outbox, Parcel

SIZE = 240


class Pipe:
    """A descriptor to send: how it is told from others, and whether this process has it still."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.number = os.fstat(self.writing).st_ino
        self.sent = 0

    def parcel(self) -> Parcel:
        return Parcel(self.writing, self._note)

    def _note(self) -> None:
        self.sent += 1

    @property
    def closed(self) -> bool:
        """Nobody can write any more."""
        os.set_blocking(self.reading, False)
        try:
            return os.read(self.reading, 1) == b""
        except BlockingIOError:
            return False


@pytest.fixture
def pipes() -> Iterator[list[Pipe]]:
    made = [Pipe() for _ in range(3)]
    yield made
    for pipe in made:
        os.close(pipe.reading)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def message(number: int) -> bytes:
    return bytes([number]) * SIZE


def fill(ours: socket.socket) -> int:
    """Sends until nothing more goes; the answer is how many bytes went."""
    sent = 0
    try:
        while True:
            sent += ours.send(bytes(SIZE))
    except BlockingIOError:
        return sent


def receive(theirs: socket.socket, count: int) -> list[tuple[int, list[int]]]:
    """The first byte of each message, with the numbers of the descriptors that came with it."""
    found = []
    for _ in range(count):
        data, descriptors, _flags, _address = socket.recv_fds(theirs, SIZE, 4)
        while len(data) < SIZE:
            data += theirs.recv(SIZE - len(data))
        assert data == data[:1] * SIZE
        found.append((data[0], [os.fstat(each).st_ino for each in descriptors]))
        for each in descriptors:
            os.close(each)
    return found


def test_a_descriptor_goes_with_its_message(ends: tuple[socket.socket, socket.socket], pipes: list[Pipe]) -> None:
    """This process keeps none; that it went is told once."""
    ours, theirs = ends
    assert Outbox(ours, message(1), pipes[0].parcel()).send()
    assert pipes[0].sent == 1
    assert receive(theirs, 1) == [(1, [pipes[0].number])]
    assert pipes[0].closed


def test_order_when_the_socket_is_full(ends: tuple[socket.socket, socket.socket], pipes: list[Pipe]) -> None:
    """Each waits with its message, behind those that came before."""
    ours, theirs = ends
    full = fill(ours)
    outbox = Outbox(ours, message(1), pipes[0].parcel())
    assert not outbox.send()
    assert pipes[0].sent == 0
    outbox.add(message(2), None)
    outbox.add(message(3), pipes[1].parcel())
    while full:
        full -= len(theirs.recv(full))
    assert outbox.send()
    assert receive(theirs, 3) == [(1, [pipes[0].number]), (2, []), (3, [pipes[1].number])]
    assert [pipe.sent for pipe in pipes] == [1, 1, 0]


def test_nothing_is_kept_of_a_peer_that_is_gone(ends: tuple[socket.socket, socket.socket], pipes: list[Pipe]) -> None:
    """Or that reads nothing: no descriptor, and nobody is told that it went."""
    ours, theirs = ends
    fill(ours)
    outbox = Outbox(ours, message(1), pipes[0].parcel())
    outbox.add(message(2), pipes[1].parcel())
    theirs.close()
    assert outbox.send()
    stuck = Outbox(ours, message(1), pipes[2].parcel())
    assert not all(stuck.add(message(2), None) for _ in range(100))
    assert [(pipe.sent, pipe.closed) for pipe in pipes] == [(0, True)] * 3
