"""Messages that a socket does not take yet, and the descriptors that go with some of them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from nvshare.scheduler.clients.outbox import Outbox, Parcel
from nvshare.scheduler.registered_client import Delivery

SIZE = 240


class Pipe:
    """A descriptor to send, and what became of it."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.number = os.fstat(self.writing).st_ino
        self.done: list[Delivery] = []

    def parcel(self) -> Parcel:
        return Parcel(self.writing, self.done.append)


@pytest.fixture
def pipes() -> Iterator[list[Pipe]]:
    made = [Pipe() for _ in range(3)]
    yield made
    for pipe in made:
        os.close(pipe.reading)
        os.close(pipe.writing)


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
    """That it went is told once."""
    ours, theirs = ends
    assert Outbox(ours, message(1), pipes[0].parcel()).send()
    assert pipes[0].done == [Delivery.WENT]
    assert receive(theirs, 1) == [(1, [pipes[0].number])]


def test_order_when_the_socket_is_full(ends: tuple[socket.socket, socket.socket], pipes: list[Pipe]) -> None:
    """Each waits with its message, behind those that came before."""
    ours, theirs = ends
    full = fill(ours)
    outbox = Outbox(ours, message(1), pipes[0].parcel())
    assert not outbox.send()
    assert pipes[0].done == []
    outbox.add(message(2), None)
    outbox.add(message(3), pipes[1].parcel())
    while full:
        full -= len(theirs.recv(full))
    assert outbox.send()
    assert receive(theirs, 3) == [(1, [pipes[0].number]), (2, []), (3, [pipes[1].number])]
    assert [pipe.done for pipe in pipes] == [[Delivery.WENT], [Delivery.WENT], []]


def test_nothing_is_kept_of_a_peer_that_is_gone(ends: tuple[socket.socket, socket.socket], pipes: list[Pipe]) -> None:
    """Or that reads nothing; what did not go is told."""
    ours, theirs = ends
    fill(ours)
    outbox = Outbox(ours, message(1), pipes[0].parcel())
    outbox.add(message(2), pipes[1].parcel())
    theirs.close()
    assert outbox.send()
    stuck = Outbox(ours, message(1), pipes[2].parcel())
    assert not all(stuck.add(message(2), None) for _ in range(100))
    assert [pipe.done for pipe in pipes] == [[Delivery.NEVER]] * 3


def test_too_many_descriptors_on_their_way(
    ends: tuple[socket.socket, socket.socket], pipes: list[Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes no more of one user's: that message alone does not go, and its owner can send it again."""
    ours, theirs = ends
    with monkeypatch.context() as full:

        def refuse(*_: object) -> int:
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

        full.setattr(socket, "send_fds", refuse)
        outbox = Outbox(ours, message(1), None)
        outbox.add(message(2), pipes[0].parcel())
        outbox.add(message(3), None)
        assert outbox.send()
    assert pipes[0].done == [Delivery.NOT_NOW]
    assert Outbox(ours, message(2), pipes[0].parcel()).send()
    assert receive(theirs, 3) == [(1, []), (3, []), (2, [pipes[0].number])]
