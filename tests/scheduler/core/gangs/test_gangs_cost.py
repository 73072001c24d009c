"""What gangs cost those that are in none, in calls of functions: a count that no busy machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from nvshare.scheduler.core.events import ClientGone, GangLeft
from tests.scheduler.core.checked import check_all, check_none
from tests.scheduler.core.gangs.gang_node import Node, number

MANY = 90
"""That many clients, each of which says a key that nobody else does."""

Says = Callable[[Node, str], object]


@pytest.fixture(autouse=True)
def nothing_else_counts() -> Iterator[None]:
    """The cores do no more than those of a scheduler."""
    check_none()
    yield
    check_all()


def by_a_communicator(node: Node, name: str) -> None:
    """Of eight ranks; the others are on other nodes."""
    node.joins(name, key=name, size=8)


def by_memory(node: Node, name: str) -> None:
    """That others may open, or not."""
    node.joins(name, key=name)


def by_a_name(node: Node, name: str) -> None:
    """Of which nobody said how many say it."""
    node.calls_itself(name, job=name)


def by_a_name_with_a_size(node: Node, name: str) -> None:
    """It does not ask for the lock before all are there."""
    node.calls_itself(name, size=2, job=name)


@pytest.mark.parametrize("says", [by_a_communicator, by_memory, by_a_name, by_a_name_with_a_size])
def test_ties_that_nobody_shares_cost_others_nothing(says: Says) -> None:
    """A hand-over takes as many calls beside them as beside as many clients that say nothing, and so does a join."""
    plain, tied = a_node(lambda node, name: None), a_node(says)
    assert calls_of(lambda: hand_over(tied)) <= 1.1 * calls_of(lambda: hand_over(plain))
    few = a_node(says, many=2)
    for node in (few, tied):
        node.comes("a99")
    assert calls_of(lambda: says(tied, "a99")) <= 1.1 * calls_of(lambda: says(few, "a99"))


def test_who_was_alone_is_planned_for_as_soon_as_another_one_joins() -> None:
    """And no more when it is alone again."""
    node = a_node(by_memory)
    plain = a_node(lambda node, name: None)
    node.comes("b1")
    assert node.joins("b1", key="a7") == "gang a7+b1, joined b1"
    assert node.tell(GangLeft(number("b1"), "a7")) == "no gang b1, no gang a7"
    node.joins("b1", key="a7")
    assert node.tell(ClientGone(number("b1"))) == "no gang a7"
    node.now += 2.0
    node.core.handle_timer(node.now)
    assert calls_of(lambda: hand_over(node)) <= 1.1 * calls_of(lambda: hand_over(plain))


def in_pairs(node: Node, name: str) -> None:
    """Two say each key."""
    node.joins(name, key=f"k{number(name) // 2}", size=2)


def test_gangs_that_are_idle_cost_others_nothing() -> None:
    """However many there are; and what a member says of its ties costs what its own gang does."""
    few, pairs = a_node(in_pairs, many=2), a_node(in_pairs)
    assert calls_of(lambda: hand_over(pairs)) <= 1.1 * calls_of(lambda: hand_over(a_node(lambda node, name: None)))
    assert calls_of(lambda: in_pairs(pairs, "a1")) <= 1.1 * calls_of(lambda: in_pairs(few, "a1"))


def test_a_gang_is_planned_for_from_its_first_request_to_its_last_release() -> None:
    """It comes in as one though it was idle, and costs others nothing when it is again."""
    node, plain = a_node(in_pairs, many=2), a_node(lambda node, name: None)
    assert node.asks("a1") == ""
    assert node.releases("a97") == "grant a98, waiters a98 1"
    assert node.releases("a98") == "grant a0, grant a1"
    assert [node.releases(name) for name in ("a0", "a1")] == ["revoke a1", ""]
    assert node.asks("a97") == "grant a97"
    node.asks("a98")
    assert calls_of(lambda: hand_over(node)) <= 1.1 * calls_of(lambda: hand_over(plain))


def a_node(says: Says, many: int = MANY) -> Node:
    """Two clients take turns, and beside them are many that said something."""
    node = Node()
    node.comes(*(f"a{each}" for each in range(many)), "a97", "a98")
    for each in range(many):
        says(node, f"a{each}")
    assert node.asks("a97") == "grant a97"
    assert node.asks("a98") == "waiters a97 1"
    return node


def hand_over(node: Node) -> None:
    """There and back."""
    for name, other in (("a97", "a98"), ("a98", "a97")):
        assert f"grant {other}" in node.releases(name)
        node.asks(name)


def calls_of(act: Callable[[], object]) -> int:
    """How many functions are called meanwhile."""
    calls = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls
