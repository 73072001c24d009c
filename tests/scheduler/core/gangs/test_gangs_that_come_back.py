"""Gangs whose members lost their connection, and come back one by one. Quantum 30 s, policy ``exclusive``."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    HolderDied,
    HolderRecorded,
)
from tests.scheduler.core.gangs.gang_node import Node, number

GIB = 1 << 30


def test_a_lost_holder_is_waited_for_on_all_devices() -> None:
    """While it may come back nobody of its gang is asked to leave; when it is dead the rule is as for all."""
    node = Node()
    node.gang("a1", "b1")
    node.comes("b9")
    node.asks("a1")
    node.asks("b9")
    node.now = 29.9
    node.tell(HolderRecorded("a", node.grants["a1"]))
    assert "revoke" not in node.tell(ClientGone(number("a1")))
    node.now = 31.0
    assert node.tell(HolderDied(node.grants["a1"])) == ""
    assert node.wait(32.0) == "revoke b1"


def test_a_holder_waits_for_those_to_whom_it_may_be_tied() -> None:
    """It is the first of its gang that is here: while a holder on another device may come back it keeps its device."""
    node = Node()
    node.comes("a1", "a9")
    assert node.asks("a1") == "grant a1"
    assert node.joins("a1", size=2) == "joined a1"
    node.asks("a9")
    node.tell(HolderRecorded("b", 7))
    assert "revoke" not in node.wait(30.0)
    node.now = 31.0
    assert "revoke" not in node.tell(HolderDied(7))
    assert node.wait(32.0) == "revoke a1"


def test_nobody_who_comes_back_is_one_too_many_before_it_said_to_whom_it_is_tied() -> None:
    """Two of three hold one device. Asked to leave before all know each other they would stop one by one."""
    node = Node()
    for grant, device in enumerate("aab", 1):
        node.tell(HolderRecorded(device, grant))
    for grant, name in enumerate(("a1", "a2", "b1"), 1):
        assert node.tell(ClientRegistered(number(name), name[0], GIB, ClaimedState.HOLDING, grant, grant)) == ""
        node.grants[name] = grant
    node.comes("a9")
    assert "revoke" not in node.asks("a9")
    said = [node.calls_itself(name) for name in ("a1", "a2", "b1")]
    assert "revoke" not in "".join(said)
    assert "gang a1+a2+b1" in said[2]
    assert "revoke" not in node.wait(1.0)
    assert node.wait(30.0) == "revoke a1, revoke a2, revoke b1"


def test_who_comes_back_and_is_tied_to_nobody_is_one_too_many_a_moment_later() -> None:
    """Two held, as another policy lets them, and the scheduler after that goes by ``exclusive``."""
    node = Node()
    for grant in (1, 2):
        node.tell(HolderRecorded("a", grant))
    for grant, name in enumerate(("a1", "a2"), 1):
        node.now += 0.5
        assert node.tell(ClientRegistered(number(name), "a", GIB, ClaimedState.HOLDING, grant, grant)) == ""
    assert node.wait(2.0) == "revoke a2"


def test_a_waiting_gang_waits_for_a_member_that_was_just_lost() -> None:
    """It may be back in a moment; a second later the others go on without it."""
    node = Node()
    node.gang("a1", "b1")
    node.comes("b9")
    node.asks("b9")
    node.asks("a1")
    assert "grant" not in node.tell(ClientGone(number("a1")))
    assert node.releases("b9") == ""
    assert node.wait(1.0) == "grant b1"


def test_who_was_tied_before_waits_for_the_others_a_moment() -> None:
    """It says so before its first grant: its work may wait for those who have not come back yet."""
    node = Node()
    node.comes("a9", "b1")
    node.asks("a9")
    node.joins("b1")
    assert node.asks("b1") == ""
    node.comes("a1")
    assert node.joins("a1") == "gang a1+b1, joined a1"
    assert node.asks("a1") == ""
    assert node.wait(1.0) == "waiters a9 1"
    assert node.wait(30.0) == "revoke a9"
    assert node.releases("a9") == "grant a1, grant b1"


def test_who_was_tied_before_does_not_wait_for_ever() -> None:
    """Nobody else has come."""
    node = Node()
    node.comes("b1")
    node.joins("b1")
    assert node.asks("b1") == ""
    assert node.wait(1.0) == "grant b1"


def test_nobody_leaves_while_a_holder_of_its_gang_is_about_to_be_gone() -> None:
    """That a1 is gone comes a moment after that it is awaited: b1, whose turn is over just then, waits for it."""
    node = Node()
    node.gang("a1", "b1")
    node.asks("a1")
    node.comes("b2")
    assert node.asks("b2") == "waiters a1 1, waiters b1 1"
    node.now = 30.0
    assert node.tell(HolderRecorded("a", node.grants["a1"])) == "waiters a1 0, waiters b1 0"
    assert node.tell(ClientGone(number("a1"))) == "no gang b1"
