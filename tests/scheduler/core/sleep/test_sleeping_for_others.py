"""Who sleeps because others lack memory, and how it comes back beside them."""

from __future__ import annotations

import itertools

import pytest

from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    GangJoined,
    GrowthRequested,
    MemoryFreed,
    PinnedMeasured,
    ResidencyReported,
)
from nvshare.scheduler.core.records.memory import CONTEXT_SECONDS
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepAsked, SleepOffered, WakeWanted, Woke
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.core.terms import SleepWhen, Terms
from tests.scheduler.core.memory.requesting import enters, kept
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL
from tests.scheduler.core.sleep.sleepers import OTHER, comes, falls_asleep, full, shown, sleepers


def test_a_context_that_does_not_fit_puts_the_least_recently_used_to_sleep() -> None:
    """A did nothing for longest, but for what it does now."""
    table = full()
    table.now = 5.0
    assert table.asks("A") == ["grant A"]
    table.releases("A")
    table.comes("E")
    assert table.grows("E", 0) == ["sleep B"]
    assert "allot E 0 as 1" in table.feed(FellAsleep(ord("B")))
    assert [shown(table, name).state for name in "ABCD"] == [ShownState.IDLE, ShownState.ASLEEP] + [ShownState.IDLE] * 2


def test_nobody_sleeps_for_others_before_it_has_rested() -> None:
    table = full()
    table.comes("E")
    assert table.grows("E", 0) == []
    assert table.timer() == ["sleep A"]
    assert table.now == 1.0


@pytest.mark.parametrize("larger", [False, True])
def test_contexts_that_are_made_at_once_may_be_larger_than_assumed(larger: bool) -> None:
    """Four are made, of which each may take twice what is assumed: a fifth one waits until that is known, rather than
    that the driver has no room for it. If they do, somebody sleeps for it."""
    table = sleepers(context=0.5)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB))
    said: list[str] = []
    for name in "ABCDE":
        table.comes(name)
        table.feed(SleepOffered(ord(name), ord(name)))
        said = table.grows(name, 0)
        assert said == [] if name == "E" else said[0].endswith("as 1")
    table.now = CONTEXT_SECONDS
    for name in "ABCD":
        table.has(name, 0, 0)
        said += table.feed(PinnedMeasured(ord(name), GIB if larger else GIB // 2))
    if larger:
        assert said == ["sleep A"]
        said = table.feed(FellAsleep(ord("A")))
    assert "allot E 0 as 1" in said


def test_nobody_sleeps_for_what_fits_all_the_same() -> None:
    table = sleepers("ABC", context=1)
    table.comes("D")
    assert "allot D 0 as 1" in table.grows("D", 0)
    assert table.core.deadline() is None or table.timer() == []


def test_nobody_sleeps_for_what_would_not_fit_then_either() -> None:
    table = sleepers("ABC", context=1)
    table.answers = table.measures = True
    table.comes("D")
    table.grows("D", 0)
    table.feed(GrowthRequested(ord("D"), 2, 20 * GIB, 0))
    while table.core.deadline() is not None:
        assert not [text for text in table.timer() if text.startswith("evict")]
    assert all(shown(table, name).state is ShownState.IDLE for name in "ABC")


def test_it_comes_back_only_where_there_is_room_for_its_context() -> None:
    """E has what A had; B did nothing for longest now."""
    table = full()
    table.comes("E", 0)
    table.grows("E", 0)
    assert table.timer() == ["sleep A"]
    table.feed(FellAsleep(ord("A")))
    table.has("E", 0, 0)
    table.feed(PinnedMeasured(ord("E"), GIB))
    table.feed(SleepOffered(ord("E"), ord("E")))
    table.now = 10.0
    assert table.feed(WakeWanted(ord("A"))) == ["sleep B"]
    assert shown(table, "A").state is ShownState.WAKING
    assert "wake A" in table.feed(FellAsleep(ord("B")))


def test_who_never_sleeps_takes_nothing_that_a_sleeper_needs_to_come_back() -> None:
    """E would be there for good, as B, C and D are: A could never come back."""
    table = full()
    for name in "BCD":
        table.feed(ContainerFound(ord(name), name, Terms(sleep=SleepWhen.NEVER)))
    assert table.feed(SleepAsked(ord("A"))) == ["sleep A"]
    table.feed(FellAsleep(ord("A")))
    table.comes("E")
    table.feed(ContainerFound(ord("E"), "E", Terms(sleep=SleepWhen.NEVER)))
    assert table.grows("E", 0) == ["refuse E 1"]
    assert "wake A" in table.feed(WakeWanted(ord("A")))


def test_a_memory_request_leaves_room_for_who_sleeps() -> None:
    """All else is kept for B, beside a GiB for what A has, and one for its context, whether that is there or not."""
    table = sleepers("AB", context=1)
    enters(table, "B", TOTAL)
    assert kept(table, "B") == 12
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    assert kept(table, "B") == 12
    assert "wake A" in table.feed(WakeWanted(ord("A")))
    assert kept(table, "B") == 12


@pytest.mark.parametrize(("context_bytes", "kept_for_others"), [(GIB, 12), (None, 11)])
def test_it_is_back_with_another_connection(context_bytes: int | None, kept_for_others: int) -> None:
    """As much is left for its context as that takes, or twice what is assumed if nobody knows it."""
    table = sleepers("AB", context=1)
    enters(table, "B", TOTAL)
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    table.feed(ClientGone(ord("A")))
    table.comes("Z", 1, 0)
    table.feed(SleepOffered(ord("Z"), ord("A"), context_bytes))
    table.feed(FellAsleep(ord("A")))
    table.feed(MemoryFreed(ord("A")))
    assert kept(table, "B") == kept_for_others
    assert "wake Z" in table.feed(WakeWanted(ord("A")))


def test_it_wakes_when_a_measurement_shows_the_room() -> None:
    """Somebody unknown took what its context needs, and B has to leave for that."""
    table = sleepers("A", context=1)
    table.comes("B", 12)
    table.feed(PinnedMeasured(ord("B"), GIB))
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    table.measures = False
    assert "measure" in table.feed(WakeWanted(ord("A")))
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 3 * GIB)) == ["evict B 10"]
    assert "wake A" in table.has("B", 12, 10)


@pytest.mark.parametrize(("foreign", "wakes"), [(13, False), (12.5, True)])
def test_nobody_wakes_where_a_new_context_may_take_the_room(foreign: float, wakes: bool) -> None:
    """B's was just admitted, as one GiB; two are reckoned with. So a stream of new programs does not keep A asleep."""
    table = sleepers(context=1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, int(foreign * GIB)))
    comes(table, "A", 0)
    table.grows("A", 0)
    table.has("A", 0, 0)
    table.feed(PinnedMeasured(ord("A"), GIB))
    assert table.feed(SleepAsked(ord("A"))) == ["sleep A"]
    table.feed(FellAsleep(ord("A")))
    table.comes("B")
    assert "allot B 0 as 1" in table.grows("B", 0)
    assert ("wake A" in table.feed(WakeWanted(ord("A")))) is wakes
    if not wakes:
        assert "wake A" in table.feed(PinnedMeasured(ord("B"), GIB))


def test_who_could_never_come_back_stays_awake() -> None:
    table = sleepers("A", context=1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 15 * GIB))
    with pytest.raises(IllegalEvent, match="no room to bring its context back"):
        table.feed(SleepAsked(ord("A")))


def test_who_slept_before_its_context_was_measured_comes_back_at_any_size() -> None:
    """With twice what is assumed of its context it would not fit; with what that really took, it was there."""
    table = sleepers(context=1)
    table.comes("A", 14.75)
    table.feed(SleepOffered(ord("A"), ord("A")))
    assert table.feed(SleepAsked(ord("A"))) == ["evict A 0"]
    assert "sleep A" in table.has("A", 14.75, 0)
    table.feed(FellAsleep(ord("A")))
    assert "wake A" in table.feed(WakeWanted(ord("A")))


def test_who_comes_back_does_not_wait_for_those_behind_it() -> None:
    """There is room for A; B has asked for its own, and nobody has slept for that yet."""
    table = full()
    for name in "AB":
        assert table.feed(SleepAsked(ord(name))) == [f"sleep {name}"]
        table.feed(FellAsleep(ord(name)))
    seen = DeviceSeen(DEVICE, TOTAL * GIB, 13 * GIB - GIB // 4)
    table.feed(seen)
    table.measures = False
    assert "measure" in table.feed(WakeWanted(ord("A")))
    table.feed(WakeWanted(ord("B")))
    assert "wake A" in table.feed(seen)


def test_with_a_small_reserve_all_of_it_stays_free_for_a_wake() -> None:
    """Those that fill the device in turns make room for the context, and no more."""
    table = sleepers("A", context=1, reserve=0)
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    for name, resident in ("B", 10), ("C", 0):
        table.comes(name, 10, resident)
        table.feed(PinnedMeasured(ord(name), GIB))
        table.asks(name)
    table.has("C", 10, 4)
    assert table.feed(WakeWanted(ord("A"))) == ["evict C 3"]
    assert "wake A" in table.has("C", 10, 3)


def test_a_moment_to_sleep_outlives_what_happens_to_a_gang_elsewhere() -> None:
    """D works with X on another GPU. What X does there has both planned anew, and A is to sleep at the same moment."""
    table = full()
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    table.feed(ClientRegistered(ord("X"), OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    for name in "DX":
        table.feed(GangJoined(ord(name), "key", 2, 1))
    table.asks("D")
    table.comes("E")
    assert table.grows("E", 0) == []
    assert table.core.deadline() == 1.0
    table.feed(ResidencyReported(ord("X"), 0, GIB, 0))
    assert table.timer() == ["sleep A"]
    assert table.now == 1.0


@pytest.mark.parametrize(("fixed", "answer"), [(5, "allot B 8 as 1"), (6, "refuse B 1")])
def test_who_can_sleep_no_more_leaves_room_for_a_sleepers_context(fixed: int, answer: str) -> None:
    """B is never asleep once it has memory that can't move; A's context has room beside all that B has."""
    table = sleepers("A", context=1)
    comes(table, "B", 8)
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    assert answer in table.grows("B", 8, fixed=fixed)


def test_who_can_sleep_no_more_has_what_it_has_beside_who_is_awake() -> None:
    """B's own memory fits when C sleeps, with A's context beside it when D does as well: C is put to sleep for it."""
    table = sleepers("A", context=1)
    comes(table, "B", 8)
    for name in "CD":
        table.comes(name, 0)
        table.grows(name, 0)
        table.has(name, 0, 0)
        table.feed(PinnedMeasured(ord(name), GIB))
        table.feed(SleepOffered(ord(name), ord(name)))
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    assert table.grows("B", 8, fixed=4.5) == []
    assert table.timer() == ["sleep C"]
    assert "allot B 8 as 1" in table.feed(FellAsleep(ord("C")))


def test_who_wakes_and_asks_for_nothing_is_behind_others_the_next_time() -> None:
    """There is room for one context. A comes back for a call that needs no turn, and sleeps again for C."""
    table = full()
    for name in "BCD":
        assert table.feed(SleepAsked(ord(name))) == [f"sleep {name}"]
        table.feed(FellAsleep(ord(name)))
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 15 * GIB - GIB // 4))

    def changes(falls: str, wakes: str) -> None:
        assert f"sleep {falls}" in itertools.chain(*(table.timer() for _ in range(10)))
        assert f"wake {wakes}" in table.feed(FellAsleep(ord(falls)))
        table.feed(Woke(ord(wakes)))
        table.has(wakes, 0, 0)
        table.feed(PinnedMeasured(ord(wakes), GIB))

    table.feed(WakeWanted(ord("B")))
    changes("A", "B")
    table.feed(WakeWanted(ord("A")))
    changes("B", "A")
    table.feed(WakeWanted(ord("C")))
    changes("A", "C")
    table.feed(WakeWanted(ord("D")))
    table.feed(WakeWanted(ord("A")))
    changes("C", "D")


def test_who_waited_for_memory_was_not_idle() -> None:
    """A has no more memory than before it asked, but did so after the others did anything."""
    table = full()
    table.now = 5.0
    seen = table.seen
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    assert "allot A 1.0625 as 2" in table.grows("A", 1)
    table.has("A", 0, 0)
    table.feed(seen)
    table.now = 10.0
    table.comes("E")
    assert table.grows("E", 0) == ["sleep B"]
