"""Host memory of sleepers in files, rule by rule. Ten GiB of host memory; contexts take nothing."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ArenaGrown, ClientGone, DeviceSeen, HostMemorySet, MemoryFreed
from nvshare.scheduler.core.sleep_events import (
    ArenaLoaded,
    ArenaNotStored,
    ArenaStored,
    FellAsleep,
    SleepAsked,
    SleepOffered,
    WakeWanted,
)
from nvshare.scheduler.core.snapshot import HostMemory, ShownState
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table
from tests.scheduler.core.sleep.sleepers import shown, sleepers

REST = 1 / 16
"""GiB that stay free beside what the largest may ask for."""


def asleep(table: Table, name: str, size: float) -> list[str]:
    """A client comes with so much and is put to sleep; whose host memory is to go meanwhile."""
    said = table.comes(name, size, arena=size)
    said += table.feed(SleepOffered(ord(name), ord(name)))
    said += table.feed(SleepAsked(ord(name)))
    said += table.has(name, size, 0)
    assert f"sleep {name}" in said
    table.now += 1
    return [text for text in said + table.feed(FellAsleep(ord(name))) if text.startswith("store")]


def three() -> Table:
    """A, B and C sleep, with three GiB each; there is one left, so the first one's goes."""
    table = sleepers(host=10, file=100)
    assert asleep(table, "A", 3) == []
    assert asleep(table, "B", 3) == []
    assert asleep(table, "C", 3) == ["store A"]
    return table


def stored(table: Table, name: str) -> list[str]:
    return table.feed(ArenaStored(ord(name)))


def host(table: Table) -> tuple[float, float]:
    """GiB in use of host memory and of the disk."""
    memory = table.core.host_memory()
    return memory.used_bytes / GIB, memory.file_used_bytes / GIB


def test_without_files_nothing_is_stored() -> None:
    table = sleepers(host=10)
    for name in "ABC":
        assert asleep(table, name, 3) == []
    assert host(table) == (9, 0)


def test_who_has_slept_longest_is_stored_one_at_a_time_until_there_is_enough() -> None:
    """As much is kept as the largest may need, to fall asleep or to come back."""
    table = three()
    assert host(table) == (9, 3)
    assert stored(table, "A") == []
    assert host(table) == (6, 3)
    assert "store B" in table.comes("D", 2, arena=2)
    assert host(table) == (8, 6)
    assert stored(table, "B") == []
    assert shown(table, "A").swap.stored_bytes == 3 * GIB  # type: ignore[union-attr]


def test_no_more_is_stored_than_the_disk_takes() -> None:
    table = sleepers(host=8, file=5)
    said = [text for name, size in (("A", 2), ("B", 2), ("C", 2), ("D", 2)) for text in asleep(table, name, size)]
    assert said == ["store A"]
    assert stored(table, "A") == ["store B"]
    assert stored(table, "B") == []
    assert table.core.host_memory() == HostMemory(8 * GIB, 4 * GIB, 5 * GIB, 4 * GIB)


def test_nobody_is_stored_who_is_wanted_awake() -> None:
    table = three()
    table.feed(WakeWanted(ord("B")))
    stored(table, "A")
    assert "store C" in table.comes("D", 2, arena=2)


def test_what_could_not_be_stored_is_tried_again_later() -> None:
    table = three()
    assert table.feed(ArenaNotStored(ord("A"), "the disk is full")) == ["store B"]
    assert stored(table, "B") == []
    assert host(table) == (6, 3)
    assert table.timer() == []
    assert table.now == 33
    assert "store A" in table.comes("D", 2, arena=2)


def two_stored() -> Table:
    """A and B are, and C is in host memory, since D took more for a while."""
    table = three()
    stored(table, "A")
    assert "store B" in table.comes("D", 2, arena=2)
    stored(table, "B")
    table.feed(ClientGone(ord("D")))
    table.feed(MemoryFreed(ord("D")))
    return table


def test_host_memory_comes_back_before_the_process_wakes() -> None:
    """In steps of a GiB. C stays, since as much as B needs to come back is still there."""
    table = two_stored()
    assert table.feed(WakeWanted(ord("A"))) == ["arena A 1"]
    assert shown(table, "A").state is ShownState.WAKING
    for _ in range(2):
        assert table.feed(ArenaGrown(ord("A"), GIB)) == ["arena A 1"]
    assert table.feed(ArenaGrown(ord("A"), GIB)) == []
    assert host(table) == (6, 6)
    assert table.feed(ArenaLoaded(ord("A"))) == ["allot A 0", "wake A"]
    assert host(table) == (6, 3)


def test_one_comes_back_at_a_time() -> None:
    table = two_stored()
    assert "arena A 1" in table.feed(WakeWanted(ord("A")))
    assert table.feed(WakeWanted(ord("B"))) == []
    for _ in range(3):
        table.feed(ArenaGrown(ord("A"), GIB))
    assert "arena B 1" in table.feed(ArenaLoaded(ord("A")))


def test_nothing_goes_while_something_comes_back() -> None:
    """Somebody waits for that, and nobody for what goes: as much as has to be kept is free again afterwards."""
    table = sleepers(host=8, file=100)
    assert asleep(table, "A", 3) == []
    for name, goes in ("B", "A"), ("C", "B"):
        assert asleep(table, name, 3) == [f"store {goes}"]
        stored(table, goes)
    said = table.feed(WakeWanted(ord("A")))
    for _ in range(3):
        said += table.feed(ArenaGrown(ord("A"), GIB))
    assert said == ["arena A 1"] * 3
    assert table.feed(ArenaLoaded(ord("A"))) == ["store C", "allot A 0", "wake A"]


def test_who_is_wanted_while_it_goes_comes_back_then() -> None:
    table = three()
    assert table.feed(WakeWanted(ord("A"))) == []
    assert "arena A 1" in stored(table, "A")


def test_less_was_made_than_was_asked_for() -> None:
    """The rest is asked for when there is host memory again."""
    table = two_stored()
    table.feed(WakeWanted(ord("A")))
    table.feed(HostMemorySet(3 * GIB))
    assert table.feed(ArenaGrown(ord("A"), GIB // 2)) == []
    assert table.feed(HostMemorySet(10 * GIB)) == ["arena A 1"]
    assert table.feed(ArenaGrown(ord("A"), GIB)) == ["arena A 1"]
    assert table.feed(ArenaGrown(ord("A"), GIB)) == ["arena A 0.5"]


def test_it_is_shown_what_it_waits_for() -> None:
    table = two_stored()
    table.feed(HostMemorySet(5 * GIB))
    assert table.feed(WakeWanted(ord("A"))) == []
    swap = shown(table, "A").swap
    assert swap is not None
    assert swap.wait == "host memory to bring 3072 MiB back into is not left (--host-memory); others have to sleep"
    assert "arena A 1" in table.feed(HostMemorySet(10 * GIB))
    swap = shown(table, "A").swap
    assert swap is not None
    assert not swap.wait


def test_what_one_needs_to_come_back_nobody_else_gets() -> None:
    """D and E are together larger than the device, and get host memory for that."""
    table = two_stored()
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 8 * GIB))
    sizes = {"D": 5, "E": 2}
    said = [text for name, size in sizes.items() for text in table.comes(name, size, arena=0)]
    said += table.grows("E", 5)
    while made := next((text for text in said if text.startswith(("arena", "store"))), None):
        said.remove(made)
        what, name, *size = made.split()
        said += stored(table, name) if what == "store" else table.arena(name, float(size[0]))
        said += table.has(name, sizes[name], sizes[name]) if name in sizes else []
    assert 3 < host(table)[0] <= 5
    assert table.feed(WakeWanted(ord("A"))) == ["arena A 1"]


def test_who_is_gone_has_no_file() -> None:
    table = two_stored()
    table.feed(ClientGone(ord("A")))
    assert host(table) == (3, 3)
    table.feed(MemoryFreed(ord("A")))
    assert host(table) == (3, 3)


def test_who_registers_with_a_file_has_it() -> None:
    """The scheduler before this one had it stored."""
    table = sleepers(host=10, file=100)
    table.comes("A", 3, 0, arena=3)
    assert host(table) == (3, 0)
    stored(table, "A")
    assert host(table) == (0, 3)
    table.feed(SleepOffered(ord("A"), ord("A")))
    table.feed(FellAsleep(ord("A")))
    assert table.feed(WakeWanted(ord("A"))) == ["arena A 1"]


def test_it_comes_back_where_there_are_no_files_any_more() -> None:
    table = sleepers(host=10)
    table.comes("A", 1, 0, arena=1)
    stored(table, "A")
    table.feed(SleepOffered(ord("A"), ord("A")))
    table.feed(FellAsleep(ord("A")))
    assert table.feed(WakeWanted(ord("A"))) == ["arena A 1"]
    table.feed(ArenaGrown(ord("A"), GIB))
    assert "wake A" in table.feed(ArenaLoaded(ord("A")))
    # Nothing is kept for it any more.
    table.comes("B", 9, arena=0)
    table.feed(SleepOffered(ord("B"), ord("B")))
    assert table.feed(SleepAsked(ord("B"))) == ["arena B 1"]


@pytest.mark.parametrize("event", [ArenaNotStored, ArenaLoaded, ArenaStored], ids=lambda each: each.__name__)
def test_nobody_asked(event: type[ArenaLoaded]) -> None:
    table = two_stored()
    said = event(ord("A"), "why") if event is ArenaNotStored else event(ord("A"))  # type: ignore[call-arg]
    with pytest.raises(IllegalEvent):
        table.feed(said)
    with pytest.raises(IllegalEvent, match="unknown"):
        table.feed(ArenaStored(ord("Z")))


def test_those_that_fall_asleep_together_do_not_divide_what_is_enough_for_some() -> None:
    """Host memory takes two of them, and the third one when theirs is in files."""
    table = sleepers(host=7, file=100, after=5)
    for name in "ABC":
        table.comes(name, 3, arena=0)
        table.feed(SleepOffered(ord(name), ord(name)))
    asleep: list[str] = []
    said = table.timer()
    for _ in range(100):
        if not said:
            if len(asleep) == 3:
                break
            said = table.timer()
            continue
        what, name, *size = said.pop(0).split()
        if what == "arena":
            said += table.arena(name, float(size[0])) + table.has(name, 3, 3)
        elif what == "evict":
            said += table.has(name, 3, 0)
        elif what == "sleep":
            asleep.append(name)
            said += table.feed(FellAsleep(ord(name)))
        elif what == "store":
            said += stored(table, name)
    assert asleep[2:] == ["C"]
