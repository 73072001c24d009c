"""Equal host memory of sleepers in packs, rule by rule. Twenty GiB of host memory; contexts take nothing."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ArenaGrown, ClientGone, HostMemorySet, MemoryFreed
from nvshare.scheduler.core.sleep_events import (
    ArenaLoaded,
    ArenaNotShared,
    ArenaNotStored,
    ArenaShared,
    ArenaStored,
    FellAsleep,
    OwnerFound,
    SleepAsked,
    SleepOffered,
    StoreEvent,
    WakeWanted,
    Woke,
)
from nvshare.scheduler.core.snapshot import ShownState
from tests.scheduler.core.memory.swap_transcript import GIB, Table
from tests.scheduler.core.sleep.sleepers import shown, sleepers

PACK = 77


def asleep(table: Table, name: str, size: float, owner: str = "me") -> list[str]:
    """A client comes with so much and is put to sleep; who is asked to share then."""
    said = table.comes(name, size, arena=size)
    said += table.feed(OwnerFound(ord(name), owner))
    said += table.feed(SleepOffered(ord(name), ord(name)))
    said += table.feed(SleepAsked(ord(name)))
    said += table.has(name, size, 0)
    assert f"sleep {name}" in said
    table.now += 1
    return [text for text in said + table.feed(FellAsleep(ord(name))) if text.startswith("share")]


def three(*, file: float = 0) -> Table:
    """A, B and C sleep, with four GiB each of twenty, and A is asked."""
    table = sleepers(host=20, file=file)
    assert asleep(table, "A", 4) == []
    assert asleep(table, "B", 4) == []
    assert asleep(table, "C", 4) == ([] if file else ["share A 4"])
    return table


def shared(table: Table, name: str, away: float, pack: int = PACK, size: float = 3) -> list[str]:
    return table.feed(ArenaShared(ord(name), int(away * GIB), pack, int(size * GIB)))


def kept(table: Table, name: str) -> list[str]:
    return table.feed(ArenaNotShared(ord(name), "nobody has the same"))


def all_shared() -> Table:
    """Three of four GiB of each are in one pack, which C was the first to have."""
    table = three()
    assert kept(table, "A") == ["share B 4"]
    assert kept(table, "B") == ["share C 4"]
    assert shared(table, "C", 3) == ["share A 4"]
    assert shared(table, "A", 3) == []
    return table


def host(table: Table) -> tuple[float, float, float]:
    """GiB in use of host memory, what is away, and what packs take."""
    memory = table.core.host_memory()
    return memory.used_bytes / GIB, memory.shared_bytes / GIB, memory.packs_bytes / GIB


def test_what_may_be_made_counts_until_the_answer() -> None:
    table = three()
    assert host(table) == (16, 0, 0)
    assert kept(table, "A") == ["share B 4"]
    assert host(table) == (16, 0, 0)


def test_a_pack_counts_once() -> None:
    """With the first one nothing is gained, with each later one what it lets go of; below a half nobody is asked."""
    table = three()
    kept(table, "A")
    kept(table, "B")
    assert host(table) == (16, 0, 0)
    shared(table, "C", 3)
    assert host(table) == (12 + 4, 3, 3)
    assert shared(table, "A", 3) == []
    assert host(table) == (9, 6, 3)


def test_who_was_tried_is_tried_again_when_there_is_a_new_pack() -> None:
    """And only then."""
    table = three()
    for name in "ABC":
        kept(table, name)
    assert host(table) == (12, 0, 0)
    assert asleep(table, "D", 1) == ["share D 1"]
    assert shared(table, "D", 1, size=1) == ["share A 4"]
    assert kept(table, "A") == ["share B 4"]


@pytest.mark.parametrize("owners", [("me", "me", "you"), ("", "", "")])
def test_clients_of_other_owners_do_not_count(owners: tuple[str, str, str]) -> None:
    table = sleepers(host=20)
    for name, owner in zip("ABC", owners, strict=True):
        assert asleep(table, name, 4, owner) == []


def test_an_owner_may_be_known_later() -> None:
    table = sleepers(host=20)
    for name in "ABC":
        assert asleep(table, name, 4, "") == []
    table.feed(OwnerFound(ord("A"), "me"))
    table.feed(OwnerFound(ord("B"), "me"))
    assert table.feed(OwnerFound(ord("C"), "me")) == ["share A 4"]


def test_nobody_is_asked_while_there_is_room_for_two_more() -> None:
    """It costs who wakes time, and nobody lacks anything."""
    table = sleepers(host=21)
    for name in "ABC":
        assert asleep(table, name, 4) == []
    assert table.feed(HostMemorySet(20 * GIB)) == ["share A 4"]


def test_nobody_is_asked_where_there_is_a_disk() -> None:
    three(file=100)


def test_a_pack_takes_no_more_than_is_left() -> None:
    """Where that is too little only those are asked who may have something in a pack that there is."""
    table = sleepers(host=13)
    for name in "AB":
        assert asleep(table, name, 4) == []
    assert asleep(table, "C", 4) == ["share A 1"]
    table.feed(HostMemorySet(12 * GIB))
    assert kept(table, "A") == []
    assert table.feed(HostMemorySet(13 * GIB)) == ["share B 1"]
    table.feed(HostMemorySet(12 * GIB))
    assert shared(table, "B", 1, size=1) == ["share A 0"]


def test_who_was_tried_is_tried_again_when_there_is_much_more_room() -> None:
    """Not for a little more."""
    table = sleepers(host=14)
    for name in "AB":
        assert asleep(table, name, 4) == []
    assert asleep(table, "C", 4) == ["share A 2"]
    for name in "AB":
        kept(table, name)
    assert kept(table, "C") == []
    assert table.feed(HostMemorySet(15 * GIB)) == []
    assert table.feed(HostMemorySet(16 * GIB)) == ["share A 4"]


def test_where_room_to_come_back_is_lacking_it_is_for_a_pack() -> None:
    """Which the scheduler before this one had not said. With what two let go of for it there is enough."""
    table = sleepers(host=15)
    table.comes("Z", 4, 0, arena=4)
    table.feed(SleepOffered(ord("Z"), ord("Z")))
    table.feed(FellAsleep(ord("Z")))
    shared(table, "Z", 4, size=1)
    for name in "ABC":
        assert asleep(table, name, 4) == []
    assert host(table) == (13, 4, 1)
    assert table.feed(WakeWanted(ord("Z"))) == ["share A 2"]
    kept(table, "A")
    kept(table, "B")
    assert shared(table, "C", 2, 78, 2) == ["share A 2"]
    assert shared(table, "A", 2, 78, 2) == ["arena Z 1", "share B 0"]


def test_memory_comes_back_before_the_process_wakes() -> None:
    """In steps of a GiB, while the pack stays for the others."""
    table = all_shared()
    assert table.feed(WakeWanted(ord("A"))) == ["arena A 1"]
    assert shown(table, "A").state is ShownState.WAKING
    for _ in range(2):
        assert table.feed(ArenaGrown(ord("A"), GIB)) == ["arena A 1"]
    assert table.feed(ArenaGrown(ord("A"), GIB)) == []
    assert table.feed(ArenaLoaded(ord("A"))) == ["allot A 0", "wake A"]
    assert host(table) == (12, 3, 3)


def test_with_its_last_client_a_pack_ends() -> None:
    table = all_shared()
    for name in "AC":
        table.feed(WakeWanted(ord(name)))
        for _ in range(3):
            table.feed(ArenaGrown(ord(name), GIB))
        table.feed(ArenaLoaded(ord(name)))
    assert host(table) == (12, 0, 0)


def test_the_last_one_comes_back_for_its_pack() -> None:
    """There is no room for both, but for the one or the other."""
    table = all_shared()
    table.feed(WakeWanted(ord("A")))
    for _ in range(3):
        table.feed(ArenaGrown(ord("A"), GIB))
    table.feed(ArenaLoaded(ord("A")))
    table.feed(HostMemorySet(13 * GIB))
    assert host(table) == (12, 3, 3)
    assert table.feed(WakeWanted(ord("C"))) == ["arena C 1"]
    for _ in range(2):
        assert table.feed(ArenaGrown(ord("C"), GIB)) == ["arena C 1"]
    table.feed(ArenaGrown(ord("C"), GIB))
    assert "wake C" in table.feed(ArenaLoaded(ord("C")))
    assert host(table) == (12, 0, 0)


def test_who_is_not_the_last_one_waits() -> None:
    table = all_shared()
    table.feed(HostMemorySet(10 * GIB))
    assert table.feed(WakeWanted(ord("A"))) == []
    swap = shown(table, "A").swap
    assert swap is not None
    assert "host memory to bring 3072 MiB back into is not left" in swap.wait


def test_the_last_one_is_gone_while_it_comes_back() -> None:
    """What it may have counts until nothing is left of it; its pack does not."""
    table = all_shared()
    table.feed(ClientGone(ord("A")))
    table.feed(MemoryFreed(ord("A")))
    table.feed(HostMemorySet(9 * GIB))
    assert table.feed(WakeWanted(ord("C"))) == ["arena C 1"]
    table.feed(ClientGone(ord("C")))
    table.feed(MemoryFreed(ord("C")))
    assert host(table) == (4, 0, 0)


def test_room_is_kept_for_the_largest_to_come_back() -> None:
    table = all_shared()
    table.comes("D", 14, arena=0)
    table.feed(SleepOffered(ord("D"), ord("D")))
    assert table.feed(SleepAsked(ord("D"))) == []
    reason = table.core.client(ord("D"), table.now).swap
    assert reason is not None
    assert host(table)[0] <= 17


def test_waking_waits_for_the_answer() -> None:
    table = three()
    assert table.feed(WakeWanted(ord("A"))) == []
    assert kept(table, "A") == ["allot A 0", "wake A"]


def test_who_wakes_and_sleeps_again_is_asked_again() -> None:
    table = three()
    for name in "ABC":
        kept(table, name)
    table.feed(WakeWanted(ord("A")))
    table.feed(Woke(ord("A")))
    table.feed(SleepAsked(ord("A")))
    assert "sleep A" in table.has("A", 4, 0)
    assert table.feed(FellAsleep(ord("A"))) == ["share A 4"]


def test_those_that_are_gone_count_until_nothing_is_left_of_them() -> None:
    """The last one with all of the pack."""
    table = all_shared()
    table.feed(ClientGone(ord("A")))
    assert host(table) == (9, 3, 3)
    table.feed(MemoryFreed(ord("A")))
    assert host(table) == (8, 3, 3)
    table.feed(ClientGone(ord("C")))
    assert host(table) == (8, 0, 0)
    table.feed(MemoryFreed(ord("C")))
    assert host(table) == (4, 0, 0)


def test_who_is_gone_while_it_is_asked() -> None:
    """What was made for it counts as long; another one is asked meanwhile."""
    table = three()
    kept(table, "A")
    table.feed(ClientGone(ord("B")))
    assert host(table)[0] == 16
    table.feed(MemoryFreed(ord("B")))
    assert host(table) == (8, 0, 0)
    assert asleep(table, "D", 4) == ["share C 4"]


def test_who_registers_with_some_away_has_it() -> None:
    """The scheduler before this one had it shared; nobody comes to that pack any more."""
    table = sleepers(host=20)
    for name in "ABC":
        table.comes(name, 4, 0, arena=4)
        table.feed(SleepOffered(ord(name), ord(name)))
        table.feed(FellAsleep(ord(name)))
        assert shared(table, name, 3) == []
        table.feed(OwnerFound(ord(name), "me"))
    assert host(table) == (6, 9, 3)
    assert table.feed(WakeWanted(ord("A"))) == ["arena A 1"]


@pytest.mark.parametrize(
    "event",
    [
        ArenaNotShared(ord("A"), "why"),
        ArenaNotStored(ord("A"), "why"),
        ArenaStored(ord("A")),
        ArenaLoaded(ord("A")),
        ArenaShared(ord("A"), GIB, PACK, GIB),
        ArenaShared(ord("B"), 5 * GIB, PACK, 3 * GIB),
        ArenaShared(ord("B"), 0, PACK, 3 * GIB),
        ArenaShared(ord("B"), GIB + 1, PACK, 3 * GIB),
        ArenaShared(ord("B"), GIB, 0, 3 * GIB),
        ArenaShared(ord("B"), GIB, PACK, 0),
        ArenaShared(ord("Z"), GIB, PACK, GIB),
    ],
    ids=str,
)
def test_nobody_asked(event: StoreEvent) -> None:
    """Or it can't be so: nothing changes."""
    table = all_shared()
    before = host(table)
    with pytest.raises(IllegalEvent):
        table.feed(event)
    assert host(table) == before


def test_it_is_asked_for_one_thing_at_a_time() -> None:
    table = three()
    for event in ArenaStored(ord("A")), ArenaNotStored(ord("A"), "why"):
        with pytest.raises(IllegalEvent):
            table.feed(event)
    assert kept(table, "A") == ["share B 4"]
