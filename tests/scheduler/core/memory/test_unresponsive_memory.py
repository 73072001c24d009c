"""Who does not leave the device as it was told, and does not hold: shown, and killed where the operator chose so."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import ClientGone, MemoryFreed, Policy
from nvshare.scheduler.core.settings import Unresponsive
from nvshare.scheduler.core.snapshot import ShownState, Turn
from tests.scheduler.core.memory.swap_transcript import TOTAL, Table

ROOM = TOTAL - 1


def shown(table: Table, name: str) -> ShownState:
    return table.core.client(ord(name), table.now).state


def scene(unresponsive: Unresponsive = Unresponsive.KILL, policy: Policy = Policy.EXCLUSIVE) -> Table:
    """A is idle with most of the device, and stopped; B wants more than the rest, and A was told to leave."""
    table = Table(policy, unresponsive=unresponsive)
    table.comes("A", ROOM - 4)
    assert table.comes("B", ROOM - 2, 2) == ["evict A 2", "allot B 2"]
    assert table.asks("B") == ["allot B 4"]
    assert table.has("B", ROOM - 2, 4) == []
    return table


def test_who_keeps_its_memory_is_shown() -> None:
    """Once, and to who waits; and no longer when it has obeyed."""
    table = scene(Unresponsive.REPORT)
    assert shown(table, "A") is ShownState.IDLE
    # Nobody else can leave: B has the reserve.
    assert table.timer() == ["late A", "allot B 5"]
    assert shown(table, "A") is ShownState.UNRESPONSIVE
    line = table.core.client(ord("B"), table.now).line
    assert line is not None
    assert line.behind == (Turn(ord("A"), table.now, holds=False),)
    assert table.core.snapshot(table.now)[0].totals.unresponsive == 1
    assert table.has("B", ROOM - 2, 5) == []
    table.now += 100
    assert table.has("A", ROOM - 4, 2) == ["allot B 13"]
    assert shown(table, "A") is ShownState.IDLE


def test_it_is_killed() -> None:
    """Since B can't come in otherwise; once, and B has the room when it is gone."""
    table = scene()
    assert table.timer() == ["late A", "allot B 5", "kill A"]
    assert table.has("B", ROOM - 2, 5) == []
    table.feed(ClientGone(ord("A")))
    assert table.feed(MemoryFreed(ord("A"))) == ["allot B 13"]


def test_nobody_is_killed_whom_nobody_waits_for() -> None:
    """B has gone meanwhile."""
    table = scene()
    table.feed(ClientGone(ord("B")))
    assert table.timer() == ["late A"]


def test_it_is_not_killed_while_others_can_leave() -> None:
    """D leaves in its place; or the holder does when it has had its turn."""
    table = Table(Policy.EXCLUSIVE, unresponsive=Unresponsive.KILL)
    for name in "CDAB":
        table.comes(name, 3)
        table.now += 1
    table.asks("A")
    table.has("B", 8, 3)
    assert table.asks("B") == ["allot B 6", "evict C 1"]
    table.has("B", 8, 6)
    assert table.timer() == ["late C", "evict D 1"]


@pytest.mark.parametrize(("size", "said"), [(ROOM - 5, ["late A"]), (ROOM - 3, ["late A", "kill A"])])
def test_it_is_killed_for_what_holders_do_not_leave(size: int, said: list[str]) -> None:
    """W waits behind a holder: what that has is enough for it, or is not."""
    table = Table(Policy.EXCLUSIVE, unresponsive=Unresponsive.KILL)
    table.comes("A", 5)
    table.comes("H", ROOM - 5)
    assert table.asks("H") == ["grant H"]
    assert table.comes("W", size, 0)[0] == "evict A 0"
    table.has("W", size, 0)
    table.asks("W")
    assert table.timer() == said


def test_who_was_passed_over_is_first_again_when_it_answers() -> None:
    """B has the lock meanwhile, and leaves when it has had its turn."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("S", 3, 0)
    table.comes("B", 4)
    assert table.asks("S") == ["allot S 3"]
    assert table.asks("B") == []
    assert table.timer() == ["grant B"]
    assert table.has("S", 3, 3) == []
    assert table.timer() == ["revoke B"]
    assert table.releases("B") == ["grant S"]
