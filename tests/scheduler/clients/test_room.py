"""How many connections a process and a user may have."""

from __future__ import annotations

import pytest

from nvshare.scheduler.clients.room import NoPlaceError, Room

ROOT, OTHER = 0, 1000


def test_a_process_has_a_limit() -> None:
    """128 connections of one process, and then another process; what ended does not count."""
    room = Room[int](1000)
    for number in range(128):
        assert room.make_place(7, ROOT) is None
        room.add(number, 7, ROOT)
    with pytest.raises(NoPlaceError, match="its process has 128"):
        room.make_place(7, ROOT)
    assert room.make_place(8, ROOT) is None
    room.remove(5)
    assert room.make_place(7, ROOT) is None


def test_processes_that_cannot_be_told_apart_have_none() -> None:
    """Where pids are hidden all have pid 0."""
    room = Room[int](1000)
    for number in range(500):
        assert room.make_place(0, ROOT) is None
        room.add(number, 0, ROOT)


def test_the_last_places_are_for_others() -> None:
    """One user takes nine of ten; the rest is for those who have less."""
    room = Room[int](20)
    for pid in range(1, 19):
        assert not room.crowded
        room.add(pid, pid, ROOT)
        room.registered(pid)
    with pytest.raises(NoPlaceError, match="its user has 18 of 20 connections"):
        room.make_place(99, ROOT)
    assert room.crowded
    assert room.make_place(99, OTHER) is None
    room.remove(1)
    assert room.make_place(99, ROOT) is None


def test_the_greediest_process_makes_room() -> None:
    """Its oldest connection that has not registered goes; those that registered stay."""
    room = Room[str](5)
    for name, pid in (("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3)):
        assert room.make_place(pid, pid) is None
        room.add(name, pid, pid)
    room.registered("b")
    assert not room.full
    assert room.make_place(4, 4) == "c"
    room.remove("c")
    room.add("f", 4, 4)
    for name in ("a", "d", "e"):
        room.registered(name)
    assert room.make_place(5, 5) == "f"
    room.registered("f")
    assert room.full
    with pytest.raises(NoPlaceError):
        room.make_place(5, 5)
    for name in room:
        room.remove(name)
    assert not room.count
    assert not room.full
