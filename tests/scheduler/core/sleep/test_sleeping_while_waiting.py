"""Who waits for its turn sleeps for one that was before it, and keeps its place in line."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import ContainerFound, DeviceSeen, PinnedMeasured, Policy, PolicySet
from nvshare.scheduler.core.sleep.relief import Relief
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepAsked, SleepOffered, WakeWanted, Woke
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.core.terms import Priority, SleepWhen, Terms
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table
from tests.scheduler.core.sleep.sleepers import comes, falls_asleep, full, shown, sleepers


def crowd(names: str = "ABCD") -> Table:
    """Contexts that turned out twice as large as was assumed; each program has half a GiB, for which none is left."""
    table = sleepers(context=0.5, reserve=0.25)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, int((TOTAL - len(names) - 0.25) * GIB)))
    for name in names:
        comes(table, name, 0)
        table.grows(name, 0)
        table.has(name, 0, 0)
    for name in names:
        table.grows(name, 0.5)
        table.has(name, 0.5, 0)
    for name in names:
        table.feed(PinnedMeasured(ord(name), GIB))
    for name in names:
        table.has(name, 0.5, 0)
    return table


def until_sleep(table: Table) -> list[str]:
    """What is said, until somebody is to sleep."""
    said: list[str] = []
    while not [text for text in said if text.startswith("sleep")]:
        said += table.timer()
    return said


def test_the_last_in_line_sleeps_for_the_first() -> None:
    """Nobody fits, and all of them wait: none would ever be idle."""
    table = crowd()
    for name in "ABCD":
        assert table.asks(name) == []
    assert until_sleep(table) == ["sleep D"]
    assert shown(table, "D").state is ShownState.WAITING
    said = table.feed(FellAsleep(ord("D")))
    assert "allot A 0.5" in said
    assert "grant A" in table.has("A", 0.5, 0.5)
    assert shown(table, "D").state is ShownState.ASLEEP
    assert shown(table, "D").line is None


def test_a_core_that_lets_them_wait_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """To their user it would look as if others had to end."""
    monkeypatch.setattr(Relief, "choose", lambda *_: (None, []))
    table = crowd()
    with pytest.raises(AssertionError, match="a client waits for ever"):
        table.asks("A")


def test_it_comes_back_for_who_is_idle() -> None:
    """There is room for what A has or for D's context, not for both; A has had its turn."""
    table = crowd()
    for name in "ABCD":
        table.asks(name)
    until_sleep(table)
    table.feed(FellAsleep(ord("D")))
    # Nobody makes room meanwhile for what is not possible yet.
    assert table.feed(WakeWanted(ord("D"))) == []
    table.has("A", 0.5, 0.5)
    swap = shown(table, "D").swap
    assert swap is not None
    assert swap.wait == "there is room for it when others sleep"
    table.releases("A")
    table.has("B", 0.5, 0.5)
    table.releases("B")
    assert "allot C 0.5" in table.has("A", 0.5, 0)
    assert until_sleep(table) == ["sleep A"]
    assert "wake D" in table.feed(FellAsleep(ord("A")))


def test_who_wants_to_wake_has_its_place_from_then_on() -> None:
    """C asks for the lock before A can, and after A wanted to be awake; B holds it."""
    table = sleepers("ABC", exclusive=True)
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    assert table.asks("B") == ["grant B"]
    assert "wake A" in table.feed(WakeWanted(ord("A")))
    table.asks("C")
    table.feed(Woke(ord("A")))
    table.asks("A")
    lines = [shown(table, name).line for name in "AC"]
    assert [line.position for line in lines if line is not None] == [1, 2]


def test_a_request_that_crosses_sleep_is_none() -> None:
    """It asks again when it is awake."""
    table = sleepers("A", context=1)
    table.feed(SleepAsked(ord("A")))
    table.has("A", 1, 0)
    table.feed(FellAsleep(ord("A")))
    assert table.asks("A") == []
    assert shown(table, "A").state is ShownState.ASLEEP
    assert "wake A" in table.feed(WakeWanted(ord("A")))
    table.feed(Woke(ord("A")))
    assert "allot A 1" in table.asks("A")


def test_what_is_made_free_for_a_higher_class_wakes_nobody_of_a_lower_one() -> None:
    """B sleeps for E, and E for F. B's place in line is older than F's request, and it would have to sleep again."""
    table = full()
    for name in "CD":
        table.feed(ContainerFound(ord(name), name, Terms(sleep=SleepWhen.NEVER)))
    table.feed(PolicySet(Policy.EXCLUSIVE))
    for name in "CAB":
        table.asks(name)
    for name, sleeps in ("E", "B"), ("F", "E"):
        table.comes(name, 0)
        table.feed(ContainerFound(ord(name), name, Terms(priority=Priority.HIGH)))
        assert f"sleep {sleeps}" in table.grows(name, 0) + until_sleep(table)
        assert f"allot {name} 0 as 1" in table.feed(FellAsleep(ord(sleeps)))
        table.has(name, 0, 0)
        table.feed(PinnedMeasured(ord(name), GIB))
        table.feed(SleepOffered(ord(name), ord(name)))
        table.feed(WakeWanted(ord(sleeps)))


def test_who_can_not_come_in_sleeps_for_one_behind_it_that_asks_for_memory() -> None:
    """A fits when B sleeps, and what B asks for fits when A does; who asks does not sleep."""
    table = sleepers(context=1, reserve=0.25)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, GIB))
    comes(table, "B")
    table.comes("A", 13.25, 0)
    table.feed(PinnedMeasured(ord("A"), GIB))
    table.feed(SleepOffered(ord("A"), ord("A")))
    table.asks("A")
    table.asks("B")
    table.grows("B", 1, fixed=1 / 64)
    table.has("A", 13.25, 0)
    assert "grant B" in table.has("B", 1, 1)
    assert table.timer() == ["sleep A"]
    assert "allot B 1 as 1" in table.feed(FellAsleep(ord("A")))
    table.has("B", 1, 1, fixed=1 / 64)
    assert "wake A" in table.feed(WakeWanted(ord("A")))
    table.feed(Woke(ord("A")))
    table.has("A", 13.25, 0)
    table.asks("A")
    assert any("revoke B" in table.timer() for _ in range(10))
    table.releases("B")
    assert any("evict B 0" in table.timer() for _ in range(3))
    assert "sleep B" in table.has("B", 1, 0, fixed=1 / 64)
