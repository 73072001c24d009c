"""Gangs, step by step: what the core answers to each event. Quantum 30 s, policy ``exclusive`` where none is named."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClientGone,
    ClientIdle,
    FootprintChanged,
    GangJoined,
    GangLeft,
    Policy,
    PolicySet,
)
from tests.scheduler.core.gangs.gang_node import Node, number

GIB = 1 << 30


def test_a_gang_is_formed_before_a_join_counts() -> None:
    """The first that joins is alone; with the second both are told before that one goes on."""
    node = Node()
    node.comes("a1", "b1")
    assert node.joins("a1") == "joined a1"
    assert node.joins("b1") == "gang a1+b1, joined b1"
    assert node.tell(GangLeft(number("b1"), "k")) == "no gang b1, no gang a1"


def test_all_or_none() -> None:
    """One asks and all get it, also the one whose own request comes later; that is legal once."""
    node = Node()
    node.gang("a1", "b1")
    assert node.asks("a1") == "grant a1, grant b1"
    assert node.asks("b1") == ""
    with pytest.raises(IllegalEvent):
        node.asks("b1")


def test_a_held_device_keeps_the_free_one_free_of_the_gang() -> None:
    """A holder keeps its quantum; the other device is lent meanwhile, and taken back when the gang can come in."""
    node = Node()
    node.comes("b9", "a9")
    node.gang("a1", "b1")
    assert node.asks("b9") == "grant b9"
    node.now = 10.0
    assert node.asks("a1") == "waiters b9 1"
    node.now = 20.0
    assert node.asks("a9") == "grant a9, waiters a9 1"
    assert node.wait(30.0) == "revoke a9, revoke b9"
    assert node.releases("b9") == ""
    assert node.releases("a9") == "grant a1, grant b1"


def test_who_holds_is_revoked_when_the_last_quantum_is_over() -> None:
    """Nobody idles for the slowest device: the holder that had its time goes on until the gang can come in."""
    node = Node()
    node.comes("a9", "b9")
    node.gang("a1", "b1")
    assert node.asks("a9") == "grant a9"
    node.now = 20.0
    assert node.asks("b9") == "grant b9"
    assert node.asks("a1") == "waiters a9 1, waiters b9 1"
    assert node.wait(50.0) == "revoke a9, revoke b9"


def test_two_gangs_on_the_same_devices_take_turns() -> None:
    """Asked for in different orders on different devices, they get both devices one after the other."""
    node = Node()
    node.gang("a1", "b1", key="one")
    node.gang("a2", "b2", key="two")
    assert node.asks("a1") == "grant a1, grant b1"
    assert node.asks("b2") == "waiters a1 1, waiters b1 1"
    assert node.wait(30.0) == "revoke a1, revoke b1"
    assert node.releases("a1") == ""
    assert node.asks("a1") == ""
    assert node.releases("b1") == "grant a2, grant b2, waiters a2 1, waiters b2 1"


def test_overlapping_gangs_do_not_wait_for_each_other() -> None:
    """Three gangs in a ring of three devices: each gets its turn, in the order in which they asked."""
    node = Node()
    node.gang("a1", "b1", key="one")
    node.gang("b2", "c2", key="two")
    node.gang("c3", "a3", key="three")
    assert node.asks("a1") == "grant a1, grant b1"
    assert "grant" not in node.asks("b2")
    assert "grant" not in node.asks("c3")
    assert node.wait(30.0) == "revoke b1, revoke a1"
    node.releases("a1")
    assert node.releases("b1").startswith("grant b2, grant c2")


def test_a_member_that_must_leave_takes_all_with_it() -> None:
    """A single client waits for one of the devices: all members are told, and all are asked to leave."""
    node = Node()
    node.gang("a1", "b1", "c1")
    node.comes("b9")
    assert node.asks("c1") == "grant a1, grant b1, grant c1"
    assert node.asks("b9") == "waiters a1 1, waiters b1 1, waiters c1 1"
    assert node.wait(30.0) == "revoke b1, revoke a1, revoke c1"
    assert node.releases("b1") == "grant b9"


def test_a_gang_is_idle_when_all_its_members_are() -> None:
    """What a member said counts for a quarter of a second, and only while somebody waits."""
    node = Node()
    node.gang("a1", "b1")
    node.comes("b9")
    node.asks("a1")
    assert node.tell(ClientIdle(number("a1"))) == ""
    node.asks("b9")
    assert node.tell(ClientIdle(number("a1"))) == ""
    node.now = 0.3
    assert node.tell(ClientIdle(number("b1"))) == ""
    node.now = 0.5
    assert node.tell(ClientIdle(number("a1"))) == "revoke a1, revoke b1"


@pytest.mark.parametrize("names", [("a1", "b1"), ("a1", "a2")])
def test_what_was_said_in_the_turn_before_does_not_count(names: tuple[str, str]) -> None:
    """A gang that left because it was idle is back at once; then it may have work, on one device as on several."""
    node = Node()
    node.gang(*names)
    node.comes("a9")
    node.asks("a1")
    node.asks("a9")
    assert [node.tell(ClientIdle(number(name))) for name in names] == [
        "",
        ", ".join(f"revoke {each}" for each in names),
    ]
    assert [node.releases(name) for name in names].count("grant a9") == 1
    node.asks("a1")
    assert node.releases("a9") == ", ".join(f"grant {name}" for name in names)
    assert "revoke" not in node.asks("a9")


def test_who_holds_when_it_joins_leaves_first() -> None:
    """It holds and the other one does not: it is revoked, and hears that it has joined when it has left."""
    node = Node()
    node.comes("a1", "b1")
    node.asks("a1")
    assert node.joins("a1") == "joined a1"
    assert node.joins("b1") == "revoke a1"
    assert node.releases("a1") == "gang a1+b1, joined b1"


def test_who_hold_all_join_without_leaving() -> None:
    """Both hold already, as after a lost connection: they are a gang at once."""
    node = Node()
    node.comes("a1", "b1")
    node.asks("a1")
    node.asks("b1")
    node.joins("a1")
    assert node.joins("b1") == "gang a1+b1, joined b1"


def test_members_on_one_device_count_as_one() -> None:
    """Under ``exclusive`` they hold together, and others do not."""
    node = Node()
    node.gang("a1", "a2")
    node.comes("a9")
    assert node.asks("a1") == "grant a1, grant a2"
    assert node.asks("a9") == "waiters a1 1, waiters a2 1"
    assert node.wait(30.0) == "revoke a1, revoke a2"
    assert node.releases("a1") == ""
    assert node.releases("a2") == "grant a9"


def test_a_gang_that_does_not_fit_its_device_is_none() -> None:
    """Its members there do not fit together: they take turns as single clients, until they fit."""
    node = Node(Policy.AUTO)
    node.comes("a1", "a2", gib=10)
    node.joins("a1")
    assert node.joins("a2") == "joined a2"
    assert node.core.client(number("a1"), 0.0).gang is not None
    node.now = 1.0
    assert node.asks("a1") == "grant a1"
    assert node.asks("a2") == "waiters a1 1"
    assert node.tell(FootprintChanged(number("a1"), GIB)) == "revoke a1"
    assert node.releases("a1") == "gang a1+a2, grant a1, grant a2"


def test_who_is_left_of_a_gang_without_room_is_not_held_apart() -> None:
    """There is nobody from whom it could be."""
    node = Node(Policy.AUTO)
    node.comes("a1", "a2", gib=10)
    node.joins("a1")
    node.joins("a2")
    shown = node.core.client(number("a1"), 0.0).gang
    assert shown is not None
    assert shown.apart
    node.tell(ClientGone(number("a2")))
    shown = node.core.client(number("a1"), 0.0).gang
    assert shown is not None
    assert not shown.apart


def test_under_auto_a_gang_on_several_devices_is_alone() -> None:
    """There is room for all, but ranks that wait for each other lose more beside others than they gain."""
    node = Node(Policy.AUTO)
    node.gang("a1", "b1")
    node.comes("a9", "c9")
    assert node.asks("a9") == "grant a9"
    assert node.asks("a1") == "waiters a9 1"
    assert node.asks("c9") == "grant c9"
    assert node.wait(30.0) == "revoke a9"
    assert node.releases("a9") == "grant a1, grant b1"


def test_nobody_passes_in_beside_a_gang_on_several_devices() -> None:
    """A waiter that fits beside it by memory waits for the end of its turn like the large one before it."""
    node = Node(Policy.AUTO)
    node.gang("a1", "b1")
    node.comes("a8", gib=15)
    node.comes("a9", gib=0)
    assert node.asks("b1") == "grant a1, grant b1"
    assert node.asks("a8") == "waiters a1 1, waiters b1 1"
    assert node.asks("a9") == ""


def test_off_means_that_gangs_do_nothing() -> None:
    """Everyone runs; when that ends those that hold without the others leave."""
    node = Node(Policy.OFF)
    node.gang("a1", "b1")
    assert node.asks("a1") == "grant a1"
    assert node.tell(PolicySet(Policy.AUTO)) == "revoke a1"
    assert node.releases("a1") == "gang a1+b1"


def test_a_member_that_is_gone_makes_way() -> None:
    """The others are a gang without it; a last one is none."""
    node = Node()
    node.gang("a1", "b1", "c1")
    node.asks("a1")
    assert node.tell(ClientGone(number("c1"))) == "gang a1+b1"
    assert node.tell(ClientGone(number("b1"))) == "no gang a1"


def test_a_member_that_tied_the_others_leaves_each_alone() -> None:
    """One was tied to each of two by another key: without it both are in no gang, and hold by themselves."""
    node = Node()
    node.comes("a1", "b1", "c1")
    node.joins("a1", "one")
    node.joins("b1", "one")
    node.joins("b1", "two")
    assert node.joins("c1", "two") == "gang a1+b1+c1, joined c1"
    assert node.tell(ClientGone(number("b1"))) == "no gang a1, no gang c1"
    node.now = 2.0
    assert node.asks("c1") == "grant c1"


def test_one_that_can_not_stop_is_joined_by_the_others() -> None:
    """It does not leave, maybe because it waits for work of one that does not hold: that one comes in."""
    node = Node()
    node.gang("a1", "b1")
    node.comes("a9")
    node.asks("a1")
    node.asks("a9")
    assert node.wait(30.0) == "revoke a1, revoke b1"
    node.releases("b1")
    assert node.asks("b1") == ""
    assert node.wait(40.0) == "unresponsive a1, grant b1"
    assert node.releases("a1") == "revoke b1, grant a9"


@pytest.mark.parametrize("name", ["", "job"])
def test_those_that_joined_one_that_can_not_stop_leave_with_it(name: str) -> None:
    """Nobody waits that could get their device, since that one's is not free; and it only stops when they do."""
    node = Node()
    node.comes("a1", "b1")
    for member in ("a1", "b1"):
        node.tell(GangJoined(number(member), "k", 2, 1, name))
    node.gang("a8", "b8", key="other")
    node.asks("a1")
    node.asks("a8")
    node.wait(30.0)
    node.releases("b1")
    node.asks("b1")
    assert node.wait(40.0) == "unresponsive a1, grant b1"
    assert node.wait(41.0) == "revoke b1"
    assert node.releases("b1") == ""
    assert node.releases("a1") == "grant a8, grant b8"


def test_what_belongs_to_it_elsewhere_is_shown() -> None:
    """A gang of four of which two are on this node."""
    node = Node()
    node.comes("a1", "b1")
    node.joins("a1", size=4)
    node.joins("b1", size=4)
    shown = node.core.client(number("a1"), 0.0).gang
    assert shown is not None
    assert (shown.members, shown.size, shown.apart) == (2, 4, False)


def test_a_key_that_was_not_said_can_not_be_left() -> None:
    """That is a fault of the client, and changes nothing."""
    node = Node()
    node.gang("a1", "b1")
    with pytest.raises(IllegalEvent):
        node.tell(GangLeft(number("a1"), "another"))
    assert node.asks("a1") == "grant a1, grant b1"
