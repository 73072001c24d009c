"""Processes that somebody stopped while they were to do something: others go on without them."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import ArenaGrown, ClientGone, DeviceSeen, MemoryFreed
from nvshare.scheduler.core.gangs.gangs import AGAIN_SECONDS
from nvshare.scheduler.core.sleep.sleeping import Sleeping
from nvshare.scheduler.core.sleep.still import STILL_SECONDS
from nvshare.scheduler.core.sleep_events import (
    ArenaLoaded,
    ArenaShared,
    ArenaStored,
    FellAsleep,
    SleepAsked,
    StayedAwake,
    WakeWanted,
    Woke,
)
from nvshare.scheduler.core.snapshot import ShownState
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table
from tests.scheduler.core.sleep import test_sharing, test_storing
from tests.scheduler.core.sleep.sleepers import comes, full, shown, sleepers


def crowd(room: float) -> Table:
    """A, B and C are idle with a context of a GiB and a quarter of one each, in so many GiB beside the reserve."""
    table = sleepers(context=1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, int((TOTAL - 1 - room) * GIB)))
    for name in "ABC":
        comes(table, name, 0.25)
    table.now = 5.0
    return table


def timers(table: Table, until: float) -> list[str]:
    """All that is said until then, by itself."""
    said = []
    while (deadline := table.core.deadline()) is not None and deadline <= until:
        said += table.timer()
    return said


def obey(table: Table, said: list[str], who: str) -> str:
    """These do what they are told until E may come; who of them slept then."""
    slept = ""
    while "allot E 0 as 1" not in said:
        assert table.now < 100.0, "it waits for ever"
        what, name, *_ = said.pop(0).split() if said else ("", "")
        if not what:
            said += table.timer()
        elif what == "evict" and name in who:
            said += table.has(name, 0.25, 0)
        elif what == "sleep":
            slept += name
            said += table.feed(FellAsleep(ord(name)))
    return slept


@pytest.mark.parametrize(("room", "asleep"), [(5, ""), (4, ""), (3.5, ""), (3, "B"), (2.5, "B"), (2.25, "BC")])
def test_others_make_room_when_the_first_does_not_let_go(room: float, asleep: str) -> None:
    """By what they have, or else by their contexts: it was told to leave, and is stopped, maybe for good."""
    table = crowd(room)
    assert obey(table, table.comes("E", 0) + table.grows("E", 0), "BC") == asleep
    assert table.now <= 40.0


@pytest.mark.parametrize("room", [1.75, 2.25, 3])
def test_who_waits_for_its_turn_and_does_not_let_go_is_not_told_to_sleep(room: float) -> None:
    """Again and again: what it has stays, and then E lacks more than its sleep."""
    table = sleepers(context=1, exclusive=True)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, int((TOTAL - 1 - room) * GIB)))
    for name in "ABC":
        comes(table, name, 0.25)
    table.now = 5.0
    table.asks("B")
    table.asks("A")
    table.comes("E", 0)
    table.grows("E", 0)
    timers(table, 100.0)
    assert not table.core.unsettled


def test_a_plan_ends_whatever_the_rules_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left over is done a moment later."""
    table = sleepers("A")
    monkeypatch.setattr(Sleeping, "plan", lambda _self, devices, _now: ([], list(devices)))
    table.core.handle(DeviceSeen(DEVICE, TOTAL * GIB), 1.0)
    assert table.core.unsettled == 1
    assert table.core.deadline() == 1.0 + AGAIN_SECONDS


def test_who_goes_on_does_what_it_was_told() -> None:
    """B had been told to leave in its place."""
    table = crowd(3)
    said = table.comes("E", 0) + table.grows("E", 0) + timers(table, 18.0)
    assert {"late A", "evict B 0"} <= {*said}
    said = table.has("A", 0.25, 0)
    assert "sleep A" in said
    assert obey(table, ["evict B 0", *said], "BC") == "A"


def test_another_one_sleeps_when_the_first_does_not_fall_asleep() -> None:
    table = full()
    table.now = 5.0
    table.comes("E")
    assert table.grows("E", 0) == ["sleep A"]
    assert timers(table, 5.0 + STILL_SECONDS - 1) == []
    assert "sleep B" in timers(table, 5.0 + STILL_SECONDS)
    assert "allot E 0 as 1" in table.feed(FellAsleep(ord("B")))
    table.feed(StayedAwake(ord("A"), "a thread is in the driver", final=False))
    assert shown(table, "A").state is ShownState.IDLE


@pytest.mark.parametrize("answers", [True, False])
def test_one_that_does_not_wake_is_shown_to_stand_still(*, answers: bool) -> None:
    """Only who stopped it can end that, whether it had answered what it may have or not. Awake it is not late."""
    table = full()
    table.now = 5.0
    assert table.feed(SleepAsked(ord("A"))) == ["sleep A"]
    table.feed(FellAsleep(ord("A")))
    assert "wake A" in table.feed(WakeWanted(ord("A")))
    if answers:
        table.has("A", 0, 0)
    told_at = table.now
    timers(table, told_at + STILL_SECONDS - 1)
    assert still_seconds(table, "A") == 0
    timers(table, told_at + STILL_SECONDS)
    assert still_seconds(table, "A") == STILL_SECONDS
    table.feed(Woke(ord("A")))
    assert still_seconds(table, "A") == 0


def still_seconds(table: Table, name: str) -> float:
    swap = shown(table, name).swap
    assert swap is not None
    return swap.still_seconds


def test_another_ones_host_memory_goes_into_a_file() -> None:
    """B's is enough. A's counts when it goes on and has written it."""
    table = test_storing.three()
    assert timers(table, table.now + STILL_SECONDS) == ["store B"]
    assert test_storing.stored(table, "B") == []
    assert test_storing.host(table) == (6, 6)
    test_storing.stored(table, "A")
    assert test_storing.host(table) == (3, 6)
    assert "arena A 1" in table.feed(WakeWanted(ord("A")))


def all_stored() -> Table:
    """A, B and C are, with three GiB each of ten."""
    table = test_storing.three()
    for name in "AB":
        test_storing.stored(table, name)
        assert f"store {chr(ord(name) + 1)}" in table.comes("D", 6, arena=6)
        table.feed(ClientGone(ord("D")))
        table.feed(MemoryFreed(ord("D")))
    test_storing.stored(table, "C")
    return table


def test_another_one_comes_back_beside_the_first_where_there_is_room_for_both() -> None:
    """What the first one lacks is kept for it; it goes on whenever it does, and a third one waits for it."""
    table = all_stored()
    assert "arena A 1" in table.feed(WakeWanted(ord("A")))
    table.feed(ArenaGrown(ord("A"), GIB))
    assert table.feed(WakeWanted(ord("B"))) == []
    assert timers(table, table.now + STILL_SECONDS) == ["arena B 1"]
    for _ in range(3):
        table.feed(ArenaGrown(ord("B"), GIB))
    assert "wake B" in table.feed(ArenaLoaded(ord("B")))
    for _ in range(2):
        table.feed(ArenaGrown(ord("A"), GIB))
    assert "wake A" in table.feed(ArenaLoaded(ord("A")))


def test_nobody_gets_what_one_that_stands_still_needs_to_come_back() -> None:
    """Else two could have a part of what each needs, and neither could go on."""
    table = sleepers(host=7, file=100)
    for name, goes in (("A", ""), ("B", "A"), ("C", "B")):
        assert test_storing.asleep(table, name, 3) == ([f"store {goes}"] if goes else [])
        if goes:
            test_storing.stored(table, goes)
    table.feed(WakeWanted(ord("A")))
    table.feed(WakeWanted(ord("B")))
    assert [text for text in timers(table, table.now + STILL_SECONDS) if text.startswith("arena")] == []


def test_another_one_is_asked_for_equal_data() -> None:
    """What the first one lets go of counts when it goes on."""
    table = test_sharing.three()
    assert timers(table, table.now + STILL_SECONDS) == ["share B 4"]
    assert test_sharing.kept(table, "B") == ["share C 4"]
    assert test_sharing.shared(table, "C", 3) == ["share B 1"]
    # What may be made for A, and for B, counts.
    assert test_sharing.host(table) == (4 + 4 + 1 + 3 + 4 + 1, 3, 3)
    table.feed(ArenaShared(ord("A"), 3 * GIB, test_sharing.PACK, 3 * GIB))
    assert test_sharing.host(table) == (1 + 4 + 1 + 3 + 1, 6, 3)
    test_sharing.kept(table, "B")
    assert test_sharing.host(table) == (1 + 4 + 1 + 3, 6, 3)


def test_a_late_answer_is_not_taken_for_anothers() -> None:
    """One is asked at a time."""
    table = test_sharing.three()
    assert timers(table, table.now + STILL_SECONDS) == ["share B 4"]
    assert test_sharing.kept(table, "A") == []
    assert test_sharing.kept(table, "B") == ["share C 4"]


def test_one_that_stands_still_and_is_gone_leaves_nothing() -> None:
    table = test_sharing.three()
    timers(table, table.now + STILL_SECONDS)
    table.feed(ClientGone(ord("A")))
    table.feed(MemoryFreed(ord("A")))
    assert test_sharing.host(table) == (12, 0, 0)
    assert test_sharing.kept(table, "B") == []
    assert test_sharing.host(table) == (8, 0, 0)
    assert table.feed(ArenaStored(ord("B"))) == []
