"""Managed memory beside memory that swaps on one device: who pages leaves nobody waiting, and gets its room."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    FootprintChanged,
    GangJoined,
    Policy,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, REST, TOTAL, Table


def comes(table: Table, name: str, size: float | None, backend: Backend = Backend.MANAGED, on: str = DEVICE) -> None:
    """A client registers that does not swap; nobody is told anything because of that."""
    footprint = None if size is None else int(size * GIB)
    assert table.feed(ClientRegistered(ord(name), on, footprint, ClaimedState.IDLE, backend=backend)) == []


def test_who_is_behind_a_managed_waiter_is_not_sent_in_and_out() -> None:
    """N holds, and none of it can leave. S would be alone with the reserve, but for M, which comes before it."""
    table = Table(Policy.EXCLUSIVE)
    comes(table, "N", 0, Backend.NATIVE)
    table.asks("N")
    comes(table, "M", 4)
    table.comes("S", 11.5, 0)
    table.has("S", 11.5, 0)
    assert table.asks("M") == []
    assert table.asks("S") == ["allot S 11"]
    assert table.has("S", 11.5, 11) == []
    assert table.releases("N") == ["grant M"]
    assert table.releases("M") == ["allot S 11.5"]
    assert table.has("S", 11.5, 11.5) == ["grant S"]


@pytest.mark.parametrize("size", [10, None])
def test_host_memory_is_made_for_who_leaves_for_managed_memory(size: float | None) -> None:
    """S fits the device by itself; when M has its turn, which is as large or may be, S needs somewhere to go."""
    table = Table()
    assert table.comes("S", 8, arena=0) == []
    footprint = None if size is None else int(size * GIB)
    registers = ClientRegistered(ord("M"), DEVICE, footprint, ClaimedState.IDLE)
    assert table.feed(registers) == ["arena S 1"]


def test_host_memory_is_made_when_managed_memory_grows() -> None:
    """M begins with nothing, as each does; what it had is not counted when it is gone."""
    table = Table()
    table.comes("S", 8, arena=0)
    comes(table, "M", 0)
    assert table.feed(FootprintChanged(ord("M"), 2 * GIB)) == []
    assert table.feed(FootprintChanged(ord("M"), 10 * GIB)) == ["arena S 1"]
    table.feed(ClientGone(ord("M")))
    assert table.arena("S", 1) == []


def test_a_gang_with_a_managed_member_waits_for_no_other_event() -> None:
    """S leaves as far as its host memory takes it: then M pages beside the rest, and X comes in with it, at once."""
    table = Table(host=0)
    table.feed(DeviceSeen("GPU-b", TOTAL * GIB))
    table.comes("S", 10, arena=4)
    comes(table, "M", 10)
    comes(table, "X", 1, on="GPU-b")
    for name in "MX":
        table.feed(GangJoined(ord(name), "key", 2, 1))
    assert table.asks("M") == [f"evict S {6 + REST:g}"]
    assert table.has("S", 10, 6 + REST) == ["grant M", "grant X"]


def test_a_managed_waiter_comes_in_with_the_growth_that_kept_it_out() -> None:
    """What room there is, is kept for B, for which S leaves: when others' memory is gone there is enough at once."""
    table = Table()
    table.comes("S", 2)
    table.comes("A", 9)
    table.asks("A")
    table.comes("B", 1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 2 * GIB))
    comes(table, "M", 0.5)
    assert table.grows("B", 1, fixed=2) == ["evict S 1"]
    assert table.asks("M") == []
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB)) == ["allot B 1 as 1", "grant M"]
