"""Gangs by name, with and without a size, step by step. Quantum 30 s, policy ``exclusive`` where none is named."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.actions import ConfirmJoin, FormGang
from nvshare.scheduler.core.events import ClientGone, GangJoined, GangLeft, Policy, PolicySet
from tests.scheduler.core.gangs.gang_node import Node, number


def test_nobody_begins_before_all_have_come() -> None:
    """Who comes first waits, however long; when the last one has come all are told, and begin in one step."""
    node = Node()
    node.comes("a1", "b1", "c1")
    assert node.calls_itself("a1", 3) == ""
    assert node.asks("a1") == ""
    node.now = 5.0
    assert node.calls_itself("b1", 3) == ""
    assert node.asks("b1") == ""
    assert node.has_come("a1") == (2, 3)
    assert node.calls_itself("c1", 3) == (
        "gang a1+b1+c1, joined a1, joined b1, joined c1, grant a1, grant b1, grant c1"
    )
    assert node.has_come("a1") == (0, 0)


def test_two_jobs_that_begin_crosswise() -> None:
    """Each has one device's member first and the other one's seconds later: neither holds one device for itself."""
    node = Node()
    node.comes("a1", "b2")
    for name, job in (("a1", "first"), ("b2", "second")):
        node.calls_itself(name, 2, job=job)
        assert node.asks(name) == ""
    node.now = 3.0
    node.comes("b1", "a2")
    assert node.calls_itself("b1", 2, job="first") == "gang a1+b1, joined a1, joined b1, grant a1, grant b1"
    joined = node.calls_itself("a2", 2, job="second")
    assert joined == "gang a2+b2, joined a2, joined b2, waiters a1 1, waiters b1 1"
    assert node.wait(33.0) == "revoke a1, revoke b1"


@pytest.mark.parametrize("policy", [Policy.EXCLUSIVE, Policy.AUTO])
def test_two_jobs_without_a_size_that_began_crosswise(policy: Policy) -> None:
    """One of each can't stop before the other one of it comes in, on a device that one of the other job has."""
    node = Node(policy)
    begin_crosswise(node)
    assert node.wait(41.0) == "unresponsive a1, unresponsive b2, grant b1, grant a2"
    assert node.wait(42.0) == "revoke b1, revoke a2"
    assert node.releases("a1") + node.releases("b1") + node.releases("a2") == ""
    assert node.asks("a1") + node.asks("b1") == ""
    assert node.releases("b2") == "grant a1, grant b1"


def test_who_can_not_stop_is_not_helped_where_there_is_no_room() -> None:
    """What the other job's members have is all of a device, and stays there."""
    node = Node()
    begin_crosswise(node, gib=9)
    assert node.wait(41.0) == "unresponsive a1, unresponsive b2"
    assert node.releases("b2") == "grant b1"


def test_two_of_a_job_that_fell_out_of_step_keep_nobody_out() -> None:
    """A1 stops before a2, which then can't without it. A1 comes in for that, and leaves when a2 has stopped: if it went
    on alone it could not stop without a2 next, and the two would keep a9 out by turns."""
    node = Node()
    node.comes("a1", "a2", "a9")
    for name in ("a1", "a2"):
        node.calls_itself(name)
    node.asks("a1")
    node.asks("a2")
    assert node.wait(1.0) == "grant a1, grant a2"
    node.asks("a9")
    assert node.wait(31.0) == "revoke a1, revoke a2"
    node.releases("a1")
    node.asks("a1")
    assert node.wait(41.0) == "unresponsive a2, grant a1"
    assert node.releases("a2") == "revoke a1"
    node.asks("a2")
    assert node.releases("a1") == "grant a9, waiters a9 1"


def test_who_helps_and_has_no_room_keeps_out_nobody() -> None:
    """B1 does not fit beside b8, which does not stop either, and b9 does."""
    node = Node(Policy.AUTO)
    node.comes("a1", "b1", "b8", gib=9)
    node.comes("a9", gib=9)
    node.comes("b9")
    node.calls_itself("a1", job="first")
    for name in ("a1", "b8"):
        node.asks(name)
    assert node.wait(1.0) == "grant a1"
    node.calls_itself("b1", job="first")
    for name in ("b1", "a9"):
        node.asks(name)
    said = ""
    while "unresponsive a1" not in said:
        deadline = node.core.deadline()
        assert deadline is not None
        said += node.wait(deadline) + ", "
    assert "unresponsive b8" in said
    assert "grant b1" not in said
    assert node.asks("b9") == "grant b9"


def begin_crosswise(node: Node, gib: int = 1) -> None:
    """The first members of two jobs have a device each when the others come, and they are to leave."""
    node.comes("a1", "b2", gib=gib)
    for name, job in (("a1", "first"), ("b2", "second")):
        node.calls_itself(name, job=job)
        assert node.asks(name) == ""
    assert node.wait(1.0) == "grant a1, grant b2"
    node.comes("b1", "a2", gib=gib)
    for name, job in (("b1", "first"), ("a2", "second")):
        node.calls_itself(name, job=job)
        node.asks(name)
    assert node.wait(31.0) == "revoke a1, revoke b2"


def test_others_are_not_held_up() -> None:
    """A gang whose members never come is passed by all, for ever; it is said once that it waits."""
    node = Node()
    node.comes("a1", "a8", "a9")
    node.calls_itself("a1", 2)
    node.asks("a1")
    assert node.asks("a8") == "grant a8"
    assert node.wait(10.0) == "a1 of job: 1 of 2 after 10 s"
    assert node.core.deadline() is None
    assert node.asks("a9") == "waiters a8 1"
    assert node.releases("a8") == "grant a9"
    assert node.releases("a9") == ""


def test_it_is_said_again_of_another_gang() -> None:
    """A gang that was complete and is one of others later is said once more."""
    node = Node()
    node.comes("a1")
    node.calls_itself("a1", 2)
    node.asks("a1")
    assert node.core.client(number("a1"), 4.0).wait is not None
    node.wait(10.0)
    node.tell(GangLeft(number("a1"), "job"))
    node.releases("a1")
    node.calls_itself("a1", 2)
    node.asks("a1")
    assert node.wait(20.0) == "a1 of job: 1 of 2 after 10 s"


def test_processes_count_and_not_clients() -> None:
    """One that uses two devices is one of those that must come."""
    node = Node()
    node.comes("a1", "b1", "c2")
    assert node.calls_itself("a1", 2, process=7) == ""
    assert node.calls_itself("b1", 2, process=7) == ""
    assert node.asks("a1") == ""
    assert node.has_come("b1") == (1, 2)
    assert "grant a1, grant b1, grant c2" in node.calls_itself("c2", 2, process=8)


def test_once_complete_it_is_complete() -> None:
    """Members that have done their work leave; the others go on, also the last one, and one that comes after it."""
    node = Node()
    node.comes("a1", "b1", "c1")
    for name in ("a1", "b1", "c1"):
        node.calls_itself(name, 3)
    node.tell(ClientGone(number("b1")))
    node.tell(ClientGone(number("c1")))
    node.now = 5.0
    assert node.asks("a1") == "grant a1"
    node.releases("a1")
    node.comes("b1")
    assert node.calls_itself("b1", 3) == "gang a1+b1, joined b1"
    assert node.asks("a1") == "grant a1, grant b1"


def test_the_next_gang_of_the_name_is_another_one() -> None:
    """When all have left, those that come must be complete again."""
    node = Node()
    node.comes("a1", "b1")
    for name in ("a1", "b1"):
        node.calls_itself(name, 2)
    for name in ("a1", "b1"):
        node.tell(GangLeft(number(name), "job"))
    node.calls_itself("a1", 2)
    assert node.asks("a1") == ""


def test_who_left_before_it_was_complete_does_not_count() -> None:
    """One that ended early is missing, until another one comes."""
    node = Node()
    node.comes("a1", "b1", "c1")
    node.calls_itself("a1", 3)
    node.asks("a1")
    node.calls_itself("b1", 3)
    assert node.has_come("a1") == (2, 3)
    node.tell(ClientGone(number("b1")))
    assert node.has_come("a1") == (1, 3)
    node.now = 5.0
    assert node.calls_itself("c1", 3) == ""
    node.comes("b2")
    assert node.calls_itself("b2", 3).endswith("grant a1, grant b2, grant c1")


def test_a_scheduler_after_this_one_hears_that_it_was_complete() -> None:
    """Who is left of a gang that was complete says so, and does not wait for those that have ended."""
    node = Node()
    node.comes("a1")
    assert node.calls_itself("a1", 4, was_complete=True) == "joined a1"
    assert node.asks("a1") == "grant a1"


@pytest.mark.parametrize("said", [3, 0])
def test_the_first_size_counts(said: int) -> None:
    """Who says another one, or none, is one of the gang, and that is said."""
    node = Node()
    node.comes("a1", "b1")
    node.calls_itself("a1", 2)
    assert node.calls_itself("b1", said) == f"b1 of job says {said}, not 2, gang a1+b1, joined a1, joined b1"


def test_who_holds_leaves_until_all_have_come() -> None:
    """It came back holding, and nobody knows that its gang was complete: it is asked to leave, and waits."""
    node = Node()
    node.comes("a1", "b1")
    node.asks("a1")
    assert node.calls_itself("a1", 2) == "revoke a1"
    assert node.releases("a1") == ""
    assert node.asks("a1") == ""
    assert "grant a1, grant b1" in node.calls_itself("b1", 2)


def test_all_or_none_of_a_complete_gang() -> None:
    """One of its processes uses one more device: those that hold leave, and all come in together."""
    node = Node()
    node.comes("a1", "b2", "c2")
    node.calls_itself("a1", 2)
    node.calls_itself("b2", 2)
    assert node.asks("a1") == "grant a1, grant b2"
    assert node.calls_itself("c2", 2, process=number("b2")) == "revoke a1, revoke b2"
    node.asks("c2")
    node.releases("a1")
    assert "grant a1, grant b2, grant c2" in node.releases("b2")


def test_off_means_that_nobody_waits() -> None:
    """Everyone runs; when that ends those that are not complete leave."""
    node = Node(Policy.OFF)
    node.comes("a1")
    node.calls_itself("a1", 2)
    assert node.asks("a1") == "grant a1"
    assert node.tell(PolicySet(Policy.AUTO)) == "revoke a1"


def test_without_a_size_who_holds_keeps_it() -> None:
    """The first one waits for others for a moment; who comes later waits for the device that it lacks."""
    node = Node()
    node.comes("a1")
    assert node.calls_itself("a1") == "joined a1"
    assert node.asks("a1") == ""
    assert node.wait(1.0) == "grant a1"
    node.comes("b1")
    assert node.calls_itself("b1") == "gang a1+b1, joined b1"
    assert node.asks("b1") == "grant b1"


def test_without_a_size_they_leave_together() -> None:
    """Somebody waits for one of its devices alone: who is asked to leave there can stop only with the other one."""
    node = Node()
    node.comes("a1", "b1", "a9")
    node.calls_itself("a1")
    node.calls_itself("b1")
    node.asks("a1")
    assert node.wait(1.0) == "grant a1, grant b1"
    assert node.asks("a9") == "waiters a1 1, waiters b1 1"
    assert node.wait(31.0) == "revoke a1, revoke b1"


def test_a_lost_member_comes_back() -> None:
    """The others of a gang that was complete wait for it a moment."""
    node = Node()
    node.comes("a1", "b1")
    for name in ("a1", "b1"):
        node.calls_itself(name, 2)
    node.tell(ClientGone(number("b1")))
    assert node.asks("a1") == ""
    node.comes("b2")
    assert node.calls_itself("b2", 2, was_complete=True) == "gang a1+b2, joined b2"
    assert node.wait(1.0) == "grant a1, grant b2"


def test_who_says_a_name_again_and_again_is_told_once() -> None:
    """The last time counts: what is kept of a client that says it without end does not grow."""
    node = Node()
    node.comes("a1", "b1")
    for request in range(1, 1000):
        assert node.core.handle(GangJoined(number("a1"), "job", 0, request, "job", 1, 2), node.now) == []
    first, *others = node.core.handle(GangJoined(number("b1"), "job", 0, 1, "job", 2, 2), node.now)
    assert isinstance(first, FormGang)
    assert others == [ConfirmJoin(number("a1"), 999), ConfirmJoin(number("b1"), 1)]
