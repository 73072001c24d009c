"""The order in which the slice has the GPUs."""

from __future__ import annotations

from nvshare.deviceplugin.claims.order import LEAST_SECONDS, Order


class Clock:
    """One that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_the_least_claimed_comes_first() -> None:
    """By a share at least; those that are equal stay as they are."""
    order = Order(Clock())
    assert order.spread({"a": 0, "b": 0, "c": 0}, 0.1) == ["a", "b", "c"]
    assert order.spread({"a": 0.05, "b": 0, "c": 0}, 0.1) == ["a", "b", "c"]
    assert order.spread({"a": 0.5, "b": 0.25, "c": 0.25}, 0.1) == ["b", "c", "a"]


def test_not_more_often_than_every_ten_seconds() -> None:
    clock = Clock()
    order = Order(clock)
    assert order.spread({"a": 1, "b": 0}, 0.1) == ["b", "a"]
    clock.seconds = LEAST_SECONDS - 1
    assert order.spread({"a": 0, "b": 1}, 0.1) == ["b", "a"]
    clock.seconds = LEAST_SECONDS
    assert order.spread({"a": 0, "b": 1}, 0.1) == ["a", "b"]


def test_nothing_changes_by_itself() -> None:
    """What the first one lacks of being the least claimed is not worth a write, however long it is so."""
    clock = Clock()
    order = Order(clock)
    for _ in range(100):
        clock.seconds += LEAST_SECONDS
        assert order.spread({"a": 0.5, "b": 0.9, "c": 0.41}, 0.1) == ["a", "b", "c"]


def test_the_next_instance_goes_on() -> None:
    """With the order that it finds."""
    order = Order(Clock())
    assert not order.known
    order.follow(["b", "a"])
    assert order.known
    assert order.spread({"a": 0, "b": 0.05, "c": 0}, 0.1) == ["b", "a", "c"]


def test_gpus_come_and_go() -> None:
    order = Order(Clock())
    assert order.spread({}, 0.1) == []
    assert order.spread({"b": 0, "a": 0}, 0.1) == ["b", "a"]
    assert order.spread({"c": 0, "a": 0, "b": 0}, 0.1) == ["b", "a", "c"]
    assert order.spread({"a": 0, "c": 0}, 0.1) == ["a", "c"]
