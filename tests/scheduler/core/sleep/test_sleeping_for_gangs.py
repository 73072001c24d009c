"""Others sleep for a gang as for a client alone."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    GangJoined,
    PinnedMeasured,
    Policy,
    PolicySet,
)
from nvshare.scheduler.core.sleep_events import FellAsleep, WakeWanted
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.core.terms import Priority, Terms
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table
from tests.scheduler.core.sleep.sleepers import OTHER, comes, shown, sleepers


def gang_beside(names: str) -> Table:
    """Y and Z belong together and have 1.5 GiB each, beside these, that have nothing but contexts of a GiB each: half a
    GiB is lacking."""
    table = sleepers(context=1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 21 * GIB // 2 - len(names) * GIB))
    for name in names:
        comes(table, name, 0)
        table.grows(name, 0)
        table.has(name, 0, 0)
        table.feed(PinnedMeasured(ord(name), GIB))
    for name in "YZ":
        comes(table, name, 0)
        table.grows(name, 1.5)
        table.feed(PinnedMeasured(ord(name), GIB))
        table.has(name, 1.5, 0)
        table.feed(GangJoined(ord(name), "key", 2, 1))
    return table


def test_a_gang_is_one_that_has_room_for_all_of_it_when_others_sleep() -> None:
    """Else each would hold by itself, and its work wait for the other's for good."""
    table = gang_beside("ABC")
    table.now = 5.0
    assert table.asks("Y") == ["sleep A"]
    assert shown(table, "Z").state is ShownState.WAITING
    table.feed(FellAsleep(ord("A")))
    assert table.has("Y", 1.5, 1.5) == ["allot Z 1.5"]
    assert table.has("Z", 1.5, 1.5) == ["grant Y", "grant Z"]


def test_who_slept_for_a_gang_comes_back_after_its_turn() -> None:
    """Each of the gang alone would have room beside it, all together have not."""
    table = gang_beside("ABC")
    table.now = 5.0
    table.asks("Y")
    table.feed(FellAsleep(ord("A")))
    assert table.feed(WakeWanted(ord("A"))) == []
    table.has("Y", 1.5, 1.5)
    assert table.has("Z", 1.5, 1.5)[:2] == ["grant Y", "grant Z"]
    table.has("Y", 1.5, 1.5)
    assert table.timer() == ["revoke Y", "evict Y 1", "revoke Z"]
    assert table.now == 35.0
    assert [*table.releases("Y"), *table.releases("Z")] == []
    assert table.has("Y", 1.5, 1) == ["allot A 0", "wake A"]


def gang_of_two() -> Table:
    """Y belongs to Z on another device, and has no room beside contexts that are larger than was thought: it has 4.5
    GiB where there are 8.5."""
    table = sleepers(context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 15 * GIB // 2))
    comes(table, "Y", 0)
    table.feed(PinnedMeasured(ord("Y"), GIB))
    table.grows("Y", 4.5)
    table.has("Y", 4.5, 0)
    for name in "AB":
        comes(table, name, 0)
        table.grows(name, 0)
        table.has(name, 0, 0)
        table.feed(PinnedMeasured(ord(name), 2 * GIB))
    table.has("Y", 4.5, 0)
    for name in "VWZ":
        table.feed(ClientRegistered(ord(name), OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP))
        table.arenas[name] = GIB
        table.has(name, 0, 0)
    table.gang("YZ")
    table.now = 5.0
    return table


def test_others_sleep_for_one_whose_gang_is_on_two_devices() -> None:
    """It would be first in line on both."""
    table = gang_of_two()
    assert table.asks("Y") == ["sleep A"]
    assert table.feed(FellAsleep(ord("A"))) == ["allot Y 4.5"]
    assert table.has("Y", 4.5, 4.5) == ["grant Y", "grant Z"]


def test_nobody_sleeps_for_a_gang_before_it_is_next_on_both_devices() -> None:
    """On the other one V has its turn, and W is before it."""
    table = gang_of_two()
    table.feed(PolicySet(Policy.EXCLUSIVE))
    table.asks("V")
    assert [*table.asks("W"), *table.asks("Y")] == []
    assert table.timer() == ["revoke V"]
    assert table.releases("V") == ["grant W", "sleep A"]


def test_who_slept_for_a_gang_stays_asleep_though_another_one_goes_before_it() -> None:
    """W, of a higher class, is before it on the other device, where V has its turn."""
    table = gang_of_two()
    table.feed(PolicySet(Policy.EXCLUSIVE))
    table.feed(ContainerFound(ord("W"), "high", Terms(priority=Priority.HIGH)))
    assert table.asks("V") == ["grant V"]
    assert table.asks("Y") == ["sleep A"]
    assert table.feed(FellAsleep(ord("A"))) == ["allot Y 4.5"]
    assert table.feed(WakeWanted(ord("A"))) == []
    assert table.asks("W") == ["revoke V"]


def test_a_gang_stays_one_while_who_could_sleep_for_it_asks_for_memory() -> None:
    """Else Y, which is there, would have a turn by itself."""
    table = gang_beside("A")
    table.now = 5.0
    table.has("Y", 1.5, 1.5)
    assert table.asks("A") == ["grant A"]
    assert table.asks("Y") == []
    assert "grant Y" not in table.grows("A", 0.1)
