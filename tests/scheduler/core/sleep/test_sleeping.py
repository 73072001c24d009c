"""Who sleeps, when, and how it wakes."""

from __future__ import annotations

import itertools

import pytest

from nvshare.scheduler.core.actions import Sleep, Wake
from nvshare.scheduler.core.core import Core
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
    LockRequested,
    MemoryFreed,
    PinnedMeasured,
    ResidencyReported,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.sleep.sleeping import IDLE_SECONDS, MOST_PATIENCE
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepAsked, SleepOffered, StayedAwake, WakeWanted, Woke
from nvshare.scheduler.core.snapshot import ClientSnapshot, ShownState
from nvshare.scheduler.core.terms import SleepWhen, Terms
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table

MIB = 1 << 20
OTHER = "GPU-b"


def sleepers(names: str = "", *, context: float = 0, after: float | None = None) -> Table:
    """Clients that can sleep, each idle with a gibibyte; the process of each has its number."""
    table = Table(pinned=context)
    table.core = Core(
        Settings(
            quantum_seconds=30.0,
            assumed_pinned_bytes=int(context * GIB),
            reserve_bytes=GIB,
            host_bytes=1000 * GIB,
            sleep_after_seconds=after,
        )
    )
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    for name in names:
        comes(table, name)
    return table


def full() -> Table:
    """Four that have nothing but contexts, of a GiB each, which take all that others leave, the reserve included."""
    table = sleepers(context=1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB))
    for name in "ABCD":
        comes(table, name, 0)
        table.grows(name, 0)
        table.has(name, 0, 0)
        table.feed(PinnedMeasured(ord(name), GIB))
    return table


def comes(table: Table, name: str, size: float = 1) -> None:
    table.comes(name, size)
    table.feed(PinnedMeasured(ord(name), pinned(table, name)))
    table.feed(SleepOffered(ord(name), ord(name)))


def pinned(table: Table, name: str) -> int:
    return shown(table, name).pinned_bytes


def shown(table: Table, name: str) -> ClientSnapshot:
    return table.core.client(ord(name), table.now)


def falls_asleep(table: Table, name: str) -> list[str]:
    """It leaves as it was told, and is put to sleep."""
    assert f"sleep {name}" in table.has(name, 1, 0)
    return table.feed(FellAsleep(ord(name)))


def leaves(table: Table, name: str) -> None:
    """Time passes until it leaves, if it has anything there, and is put to sleep."""
    while (said := table.timer()) != [f"sleep {name}"]:
        if said == [f"evict {name} 0"]:
            assert table.has(name, 1, 0) == [f"sleep {name}"]
            return


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


def test_who_wakes_in_vain_stays_awake_twice_as_long() -> None:
    table = sleepers("A", after=10)
    awake = []
    for _ in range(3):
        since = table.now
        leaves(table, "A")
        awake.append(table.now - since)
        table.feed(FellAsleep(ord("A")))
        table.feed(WakeWanted(ord("A")))
        table.feed(Woke(ord("A")))
        table.has("A", 1, 0)
    assert awake == [10.0, 20.0, 40.0]


def test_who_works_when_it_wakes_sleeps_as_soon_as_before() -> None:
    table = sleepers("A", after=10)
    for _ in range(3):
        since = table.now
        leaves(table, "A")
        assert table.now - since == 10.0
        table.feed(FellAsleep(ord("A")))
        table.feed(WakeWanted(ord("A")))
        table.feed(Woke(ord("A")))
        table.has("A", 1, 0)
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


def test_the_operator_is_told_why_it_does_not_sleep() -> None:
    table = sleepers("AB")
    table.asks("A")
    with pytest.raises(IllegalEvent, match="it is holding"):
        table.feed(SleepAsked(ord("A")))
    table.feed(GangJoined(ord("B"), "key", 2, 1))
    with pytest.raises(IllegalEvent, match="together with other processes"):
        table.feed(SleepAsked(ord("B")))
    with pytest.raises(IllegalEvent, match="no clients that can sleep"):
        table.feed(SleepAsked(1))


def test_a_memory_request_keeps_it_awake() -> None:
    table = sleepers("A", after=10)
    table.feed(ContainerFound(ord("A"), "a", Terms(memory_request_bytes=GIB)))
    with pytest.raises(IllegalEvent, match="a memory request"):
        table.feed(SleepAsked(ord("A")))


def test_host_memory_is_made_for_who_is_about_to_sleep() -> None:
    """Nobody lacks room, so it has none yet."""
    table = sleepers("")
    table.comes("A", 1, arena=0)
    table.feed(SleepOffered(ord("A"), ord("A")))
    assert table.feed(SleepAsked(ord("A"))) == ["arena A 1"]
    table.arena("A", 1)
    assert table.has("A", 1, 1) == ["evict A 0"]
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
    assert table.core.deadline() is None or table.timer() == []
    with pytest.raises(IllegalEvent, match="no clients that can sleep"):
        table.feed(Woke(ord("A")))
    comes(table, "B")
    assert shown(table, "B").state is ShownState.IDLE


def wide(table: Table, process: int, device: str) -> int:
    """A client of a process with several devices; it has nothing but a context."""
    number = 10 * process + (device == OTHER)
    table.feed(ClientRegistered(number, device, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(number, 0, 0, 0))
    table.feed(GrowthRequested(number, 1, 0, 0))
    table.feed(ResidencyReported(number, 1, 0, 0))
    table.feed(PinnedMeasured(number, GIB))
    table.feed(SleepOffered(number, process))
    return number


def test_a_process_sleeps_and_wakes_on_all_of_its_devices() -> None:
    """And of two such only one comes back at a time."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    core = table.core
    clients = {process: [wide(table, process, device) for device in (DEVICE, OTHER)] for process in (5, 6)}
    for process in clients:
        said = core.handle(SleepAsked(process), 1.0)
        assert [str(action) for action in said] == [f"Sleep(process={process}, clients={tuple(clients[process])})"]
        core.handle(FellAsleep(process), 1.0)
    states = {core.client(number, 1.0).state for numbers in clients.values() for number in numbers}
    assert states == {ShownState.ASLEEP}
    # There is room for one context on the second device.
    seen = DeviceSeen(OTHER, TOTAL * GIB, 14 * GIB + GIB // 2)
    core.handle(seen, 2.0)
    core.handle(WakeWanted(5), 2.0)
    core.handle(WakeWanted(6), 2.0)
    said = [*core.handle(DeviceSeen(DEVICE, TOTAL * GIB), 2.1), *core.handle(seen, 2.1)]
    assert [action for action in said if isinstance(action, Wake)] == [Wake(5, tuple(clients[5]))]
    core.handle(Woke(5), 3.0)
    assert {core.client(number, 3.0).state for number in clients[5]} == {ShownState.IDLE}
    assert {core.client(number, 3.0).state for number in clients[6]} == {ShownState.WAKING}
    for number in clients[5]:
        core.handle(PinnedMeasured(number, GIB), 3.0)
        core.handle(ResidencyReported(number, 2, 0, 0), 3.0)
    assert core.handle_timer(core.deadline() or 0.0) == [Sleep(5, tuple(clients[5]))]


def test_it_wakes_when_a_measurement_shows_the_room() -> None:
    """Somebody unknown took what its context needs, and B has to leave for that."""
    table = sleepers("A", context=1)
    table.comes("B", 12)
    table.feed(SleepAsked(ord("A")))
    falls_asleep(table, "A")
    table.measures = False
    assert "measure" in table.feed(WakeWanted(ord("A")))
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 3 * GIB)) == ["evict B 10"]
    assert "wake A" in table.has("B", 12, 10)
