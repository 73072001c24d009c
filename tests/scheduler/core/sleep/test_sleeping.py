"""Who sleeps, when, and how it wakes."""

from __future__ import annotations

import itertools

import pytest

from nvshare.scheduler.core.actions import TellWaiters
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClientGone,
    ContainerFound,
    GangJoined,
    LockRequested,
    MemoryFreed,
    PinnedMeasured,
    TermsSet,
)
from nvshare.scheduler.core.records.process import MOST_PATIENCE
from nvshare.scheduler.core.sleep.idleness import IDLE_SECONDS
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepAsked, SleepOffered, StayedAwake, WakeWanted, Woke
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.core.terms import SleepWhen, Terms
from tests.scheduler.core.memory.swap_transcript import GIB
from tests.scheduler.core.sleep.sleepers import comes, falls_asleep, leaves, pinned, shown, sleepers, wakes


def test_who_has_been_idle_for_long_enough_sleeps() -> None:
    """Its memory leaves first, though nobody needs the room; then it is put to sleep."""
    table = sleepers("A", context=0.5, after=10)
    assert table.core.deadline() == 10.0
    assert table.timer() == ["evict A 0"]
    assert table.now == 10.0
    falls_asleep(table, "A")
    assert shown(table, "A").state is ShownState.ASLEEP
    assert (pinned(table, "A"), shown(table, "A").sleeps) == (0, 1)
    assert table.core.deadline() is None


@pytest.mark.parametrize("sleep", [SleepWhen.NEVER, SleepWhen.PRESSURE])
def test_terms_go_before_the_settings(sleep: SleepWhen) -> None:
    table = sleepers("A", after=10)
    table.feed(ContainerFound(ord("A"), "a", Terms(sleep=sleep)))
    while table.core.deadline() is not None:
        assert table.timer() == []
    assert shown(table, "A").state is ShownState.IDLE


def test_what_keeps_an_idle_one_awake_is_shown() -> None:
    """From when it would sleep, and until it does."""
    table = sleepers("A")
    table.feed(ContainerFound(ord("A"), "a", Terms(sleep=SleepWhen.IDLE, memory_request_bytes=GIB)))
    while table.now < IDLE_SECONDS:
        assert shown(table, "A").awake_reason == ""
        assert table.timer() == []
    assert shown(table, "A").awake_reason == "a memory request keeps memory of it on the GPU"
    assert "evict A 0" in table.feed(TermsSet("a", Terms(sleep=SleepWhen.IDLE)))
    assert shown(table, "A").awake_reason == ""


def test_who_asks_for_it_sleeps_when_idle_without_any_setting() -> None:
    table = sleepers("A")
    assert table.core.deadline() is None
    table.feed(ContainerFound(ord("A"), "a", Terms(sleep=SleepWhen.IDLE)))
    while table.now < IDLE_SECONDS:
        said = table.timer()
    assert said == ["evict A 0"]
    assert table.now == IDLE_SECONDS


def test_a_holder_that_has_nothing_to_do_is_to_rest() -> None:
    """Nobody waits, so it would keep the lock: it is told to give way after a second of idleness, waiters or none."""
    table = sleepers("A", after=10)
    actions = table.core.handle(LockRequested(ord("A")), 0.0)
    assert "TellWaiters(client=65, waiters=0, idle_seconds=1.0)" in map(str, actions)
    table.grants["A"] = 1
    while table.now < 30:
        assert table.timer() == []
    table.releases("A")
    table.has("A", 1, 1)
    while table.now < 40:
        said = table.timer()
    assert said == ["evict A 0"]


def test_a_call_at_the_door_wakes_it() -> None:
    table = sleepers("A", context=1, after=10)
    table.timer()
    falls_asleep(table, "A")
    table.now = 20.0
    said = table.feed(WakeWanted(ord("A")))
    assert "wake A" in said
    assert shown(table, "A").state is ShownState.WAKING
    assert pinned(table, "A") == GIB
    table.feed(Woke(ord("A")))
    assert shown(table, "A").state is ShownState.IDLE


def test_who_wakes_in_vain_stays_awake_twice_as_long() -> None:
    table = sleepers("A", after=10)
    awake = []
    for _ in range(3):
        since = table.now
        leaves(table, "A")
        awake.append(table.now - since)
        table.feed(FellAsleep(ord("A")))
        table.feed(WakeWanted(ord("A")))
        wakes(table, "A")
    assert awake == [10.0, 20.0, 40.0]


def test_who_works_when_it_wakes_sleeps_as_soon_as_before() -> None:
    table = sleepers("A", after=10)
    for _ in range(3):
        since = table.now
        leaves(table, "A")
        assert table.now - since == 10.0
        table.feed(FellAsleep(ord("A")))
        table.feed(WakeWanted(ord("A")))
        wakes(table, "A")
        table.asks("A")
        assert table.has("A", 1, 1) == ["grant A"]
        table.releases("A")


def test_who_can_not_be_put_to_sleep_is_tried_again_later_and_later() -> None:
    table = sleepers("A", after=10)
    moments = []
    for _ in range(12):
        leaves(table, "A")
        moments.append(table.now)
        table.feed(StayedAwake(ord("A"), "a thread is in the driver"))
        assert shown(table, "A").awake_reason == "a thread is in the driver"
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert gaps[:3] == [20.0, 40.0, 80.0]
    assert max(gaps) == 10.0 * MOST_PATIENCE


def test_who_never_can_is_not_tried_again() -> None:
    table = sleepers("A", after=10)
    table.timer()
    table.has("A", 1, 0)
    table.feed(StayedAwake(ord("A"), "it uses managed memory", final=True))
    assert table.core.deadline() is None
    with pytest.raises(IllegalEvent, match="managed memory"):
        table.feed(SleepAsked(ord("A")))


def test_what_is_needed_meanwhile_stays_awake() -> None:
    """Its memory is on its way out when it asks for the lock."""
    table = sleepers("A", after=10)
    table.timer()
    assert "grant A" in table.asks("A") + table.has("A", 1, 1)
    assert shown(table, "A").state is ShownState.HOLDING


def test_a_call_while_it_falls_asleep_wakes_it_at_once() -> None:
    table = sleepers("A", after=10)
    table.timer()
    table.has("A", 1, 0)
    assert table.feed(WakeWanted(ord("A"))) == []
    assert "wake A" in table.feed(FellAsleep(ord("A")))


def test_the_operator_is_told_why_it_never_sleeps() -> None:
    table = sleepers("B")
    table.feed(GangJoined(ord("B"), "key", 2, 1))
    with pytest.raises(IllegalEvent, match="together with other processes"):
        table.feed(SleepAsked(ord("B")))
    with pytest.raises(IllegalEvent, match="no clients that can sleep"):
        table.feed(SleepAsked(1))


def test_who_is_asked_while_it_holds_sleeps_when_it_rests() -> None:
    """And is told to rest, since nobody waits."""
    table = sleepers("A")
    # It would be told for host memory that is to go back, too.
    table.gives_back("A", 99)
    table.has("A", 1, 1)
    table.asks("A")
    table.has("A", 1, 1)
    actions = table.core.handle(SleepAsked(ord("A")), 0.0)
    assert actions == [TellWaiters(ord("A"), 0, 1.0)]
    assert table.releases("A") == []
    assert table.timer() == ["evict A 0"]
    assert table.has("A", 1, 0) == ["sleep A"]
    table.feed(StayedAwake(ord("A"), "a thread is in the driver"))
    leaves(table, "A")


def test_a_memory_request_keeps_it_awake() -> None:
    table = sleepers("A", after=10)
    table.feed(ContainerFound(ord("A"), "a", Terms(memory_request_bytes=GIB)))
    with pytest.raises(IllegalEvent, match="a memory request"):
        table.feed(SleepAsked(ord("A")))


def test_host_memory_is_made_for_who_is_about_to_sleep() -> None:
    """Nobody lacks room, so it has none yet."""
    table = sleepers("")
    table.comes("A", 1, arena=0)
    table.feed(PinnedMeasured(ord("A"), 0))
    table.feed(SleepOffered(ord("A"), ord("A")))
    assert table.feed(SleepAsked(ord("A"))) == ["arena A 1"]
    assert table.arena("A", 1) == ["evict A 0"]
    falls_asleep(table, "A")


def test_one_that_registers_asleep_is_asleep() -> None:
    """A scheduler before this one put it to sleep."""
    table = sleepers("A", context=1)
    table.feed(FellAsleep(ord("A")))
    assert (shown(table, "A").state, pinned(table, "A")) == (ShownState.ASLEEP, 0)
    table.feed(PinnedMeasured(ord("A"), 0))
    assert "wake A" in table.feed(WakeWanted(ord("A")))
    assert pinned(table, "A") == GIB


@pytest.mark.parametrize("steps", range(5))
def test_its_end_leaves_nothing(steps: int) -> None:
    """In whatever state it ends."""
    table = sleepers("A", context=1, after=10)
    happens = [
        lambda: table.timer(),
        lambda: table.has("A", 1, 0),
        lambda: table.feed(FellAsleep(ord("A"))),
        lambda: table.feed(WakeWanted(ord("A"))),
    ]
    for happen in happens[:steps]:
        happen()
    table.feed(ClientGone(ord("A")))
    table.feed(MemoryFreed(ord("A")))
    assert table.core.deadline() is None
    with pytest.raises(IllegalEvent, match="no clients that can sleep"):
        table.feed(Woke(ord("A")))
    comes(table, "B")
    assert shown(table, "B").state is ShownState.IDLE


def test_who_is_being_put_to_sleep_is_given_nothing() -> None:
    """It asked before it heard that: it says that it stays awake, and is answered then."""
    table = sleepers("A", context=1)
    table.feed(SleepAsked(ord("A")))
    assert "sleep A" in table.has("A", 1, 0)
    assert table.grows("A", 2, 1) == []
    assert "allot A 2.125 as 1" in table.feed(StayedAwake(ord("A"), "a thread is in the driver"))
