"""Who comes in and who leaves, rule by rule. Nothing here is larger than the device: 15 GiB beside the reserve."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ArenaGrown,
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    FootprintChanged,
    HostMemorySet,
    MemoryFreed,
    PinnedMeasured,
    Policy,
    ResidentRecorded,
    ResidentSettled,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, REST, TOTAL, Table


def two_that_do_not_fit(policy: Policy = Policy.AUTO) -> Table:
    """A holds 10 GiB; B waits with 10 GiB, 5 of them in, which is all that there is room for."""
    table = Table(policy)
    table.comes("A", 10)
    assert table.asks("A") == ["grant A"]
    table.comes("B", 10, 0)
    # It was charged with all of it until it said what it has.
    assert table.orders["B"]
    assert table.asks("B") == ["allot B 5"]
    assert table.has("B", 10, 5) == []
    return table


def test_a_grant_waits_until_all_is_in() -> None:
    """The lock is free for B, but 4 GiB of it are out."""
    table = Table()
    assert table.comes("A", 10, 6) == ["allot A 6"]
    assert table.asks("A") == ["allot A 10"]
    assert table.has("A", 10, 8) == []
    assert table.has("A", 10, 10) == ["grant A"]


def test_who_comes_back_is_told_what_it_may_have() -> None:
    """The scheduler before this one had B leave: B goes by that until it hears something else."""
    table = Table()
    table.comes("A", 10)
    assert table.asks("A") == ["grant A"]
    assert table.comes("B", 10, 4) == ["allot B 4"]
    assert table.has("B", 10, 4) == []
    assert table.asks("B") == ["allot B 5"]


def test_who_comes_back_keeps_its_host_memory() -> None:
    """It is not given as much once more before it has said what it has."""
    table = Table()
    table.comes("A", 10)
    register = ClientRegistered(ord("B"), DEVICE, 10 * GIB, ClaimedState.IDLE, backend=Backend.SWAP)
    assert table.feed(register) == ["evict A 5"]
    table.arenas["B"] = 0
    assert "arena B 1" in table.has("B", 10, 10)


def test_old_orders_may_keep_a_client_out() -> None:
    """A was told to leave 5 GiB and then not to: until it goes by the second order it may still do the first."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 10)
    table.comes("B", 10, 0)
    table.asks("B")
    assert table.orders["A"] == 1
    table.feed(ClientGone(ord("B")))
    table.feed(MemoryFreed(ord("B")))
    assert table.asks("A") == ["allot A 10"]
    assert table.has("A", 10, 10, order=1) == []
    assert table.has("A", 10, 10) == ["grant A"]


def test_what_was_allotted_counts_until_the_client_goes_by_less() -> None:
    """B has nothing on the device, but may be bringing in all of it: A gets nothing of that before B has read."""
    table = Table()
    table.comes("B", 10, 0)
    table.comes("A", 4)
    assert table.asks("A") == ["grant A"]
    assert table.grows("A", 8) == []
    assert table.has("B", 10, 0, order=0) == []
    assert "allot A 8.5 as 1" in table.has("B", 10, 0)


def test_the_first_waiter_comes_in_as_others_leave() -> None:
    """A leaves what B lacks when it is asked to leave, and each chunk that left is B's at once."""
    table = two_that_do_not_fit()
    assert table.timer() == ["revoke A", "evict A 5"]
    assert table.releases("A") == []
    assert table.has("A", 10, 9) == ["allot B 6"]
    assert table.has("A", 10, 5) == ["allot B 10"]
    assert table.has("B", 10, 10) == ["grant B"]


def test_idle_clients_leave_first_the_least_recently_used_before_others() -> None:
    """C has been idle for longer than D; the holder and the waiters behind are left alone."""
    table = Table(Policy.EXCLUSIVE)
    for name in "CDAWB":
        table.comes(name, 3)
        table.now += 1
    table.asks("A")
    table.now += 1
    table.has("B", 5, 3)
    assert table.asks("B") == ["evict C 1"]
    table.asks("W")
    assert table.has("C", 3, 1) == ["allot B 5"]


def test_the_farthest_turn_leaves_first() -> None:
    """Nobody is idle: of the waiters behind B the last one leaves, and only what B lacks."""
    table = Table(Policy.EXCLUSIVE)
    for name in "ABCDE":
        table.comes(name, 3)
        table.asks(name)
    assert table.has("B", 4, 3) == ["allot B 3", "evict E 2"]


def test_never_a_holder() -> None:
    """Nobody else has anything: B waits for the end of A's quantum."""
    table = two_that_do_not_fit()
    assert table.orders.get("A", 0) == 0
    assert table.core.deadline() == 30.0


def test_one_client_leaves_at_a_time() -> None:
    """C has not enough, but D begins when C is done."""
    table = Table(Policy.EXCLUSIVE)
    for name in "CDAB":
        table.comes(name, 3)
        table.now += 1
    table.asks("A")
    table.has("B", 9, 3)
    assert table.asks("B") == ["allot B 6", "evict C 0"]
    assert table.has("C", 3, 2) == ["allot B 7"]
    assert table.has("C", 3, 0) == ["allot B 9"]


def test_no_more_leaves_than_host_memory_takes() -> None:
    """C has host memory for one GiB of its three, and a rest; what B lacks more is D's."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("C", 3, arena=1 + REST)
    table.now += 1
    for name in "DAB":
        table.comes(name, 3)
    table.now += 1
    table.asks("A")
    table.has("B", 8, 3)
    assert table.asks("B") == ["allot B 6", "evict C 2"]
    assert "evict D 2" in table.has("C", 3, 2)


def test_a_growth_of_a_holder_is_answered_when_the_room_is_there() -> None:
    """B is idle and leaves what A lacks; A's answer comes when it has left."""
    table = Table()
    table.comes("A", 4)
    table.asks("A")
    table.comes("B", 10)
    assert table.grows("A", 8) == ["evict B 7"]
    assert table.has("B", 10, 9) == []
    assert "allot A 8 as 1" in table.has("B", 10, 7)


def test_a_growth_of_another_client_needs_no_room() -> None:
    """B does not hold: what it allocates has no device memory until its turn, and what leaves for A still does."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 14.5)
    table.asks("A")
    table.comes("B", 1)
    assert table.grows("B", 9) == ["allot B 0.5 as 1"]


def test_more_than_the_device_is_refused() -> None:
    """Alone it would not fit beside the contexts that may come."""
    table = Table()
    table.comes("A", 1)
    assert table.grows("A", 15) == ["refuse A 1"]
    assert table.grows("A", 13)[0].endswith("as 2")


def test_nothing_is_refused_before_the_device_was_measured_anew() -> None:
    """What A lacks counted as foreign, but was its own: its connection had been lost. B need not wait for that."""
    table = Table()
    table.comes("A", 1)
    table.comes("B", 1)
    table.measures = False
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB))
    assert table.grows("A", 10) == ["measure"]
    assert table.core.snapshot(0.0)[0].in_doubt
    assert any(said.endswith("as 1") for said in table.grows("B", 1.5))
    assert any(said.endswith("as 1") for said in table.feed(DeviceSeen(DEVICE, TOTAL * GIB)))
    assert not table.core.snapshot(0.0)[0].in_doubt


def test_a_measurement_that_never_comes_is_not_waited_for() -> None:
    """After the grace time what is known counts."""
    table = Table()
    table.comes("A", 1)
    table.measures = False
    assert table.grows("A", 15) == ["measure"]
    assert table.timer() == ["refuse A 1"]


def test_what_the_host_has_no_memory_for_is_refused() -> None:
    """B would have to be brought out for A and A for B: 5 GiB of either."""
    table = Table(host=8)
    table.comes("A", 10, arena=2)
    table.comes("B", 1, arena=2)
    assert table.grows("B", 10) == ["refuse B 1"]
    table.feed(HostMemorySet(20 * GIB))
    assert "refuse B 2" not in table.grows("B", 10)


def test_a_growth_waits_for_host_memory() -> None:
    """It is answered when there is as much as has to be able to leave."""
    table = Table()
    table.comes("A", 10, arena=0)
    table.comes("B", 0, arena=0)
    said = table.grows("B", 6 - REST)
    assert sorted(said) == ["arena A 1", "arena B 1"]
    assert table.arena("A", 1) == ["arena A 1"]
    assert any(text.endswith("as 1") for text in table.arena("B", 1))


def test_host_memory_that_a_client_tells_of_before_all_of_it_is_there_counts_once() -> None:
    """It comes in parts, and the core hears of it when the last one went."""
    table = Table()
    table.comes("A", 10, arena=0)
    table.comes("B", 0, arena=0)
    table.grows("B", 6)
    table.arenas["A"] = GIB // 4
    table.has("A", 10, 10)
    assert table.core.host_memory().used_bytes == 2 * GIB
    table.feed(ArenaGrown(ord("A"), GIB))
    assert table.core.host_memory().used_bytes == 3 * GIB, "and the next one is being made"


def test_a_context_needs_room_and_idle_clients_leave_for_it() -> None:
    """C comes to a full device: its context waits until B has left as much as it takes."""
    table = Table(pinned=1)
    table.comes("A", 6)
    table.asks("A")
    table.comes("B", 7)
    assert "evict B 6" in table.comes("C")
    assert table.grows("C", 0) == []
    assert "allot C 0 as 1" in [text.replace("0.0625", "0") for text in table.has("B", 7, 6)]


def test_a_holder_leaves_for_a_context() -> None:
    """Only A has memory: it is asked to leave when its quantum is over, though nobody waits for the lock."""
    table = Table(pinned=1)
    table.comes("A", 13.5)
    table.asks("A")
    table.comes("C")
    assert table.grows("C", 0) == []
    assert table.timer() == ["revoke A", "evict A 13"]
    table.releases("A")
    assert "allot C 0 as 1" in table.has("A", 13.5, 13)


def test_what_a_dead_client_had_counts_until_it_is_free() -> None:
    """The driver needs a while; B gets nothing of it before, and all of it then."""
    table = Table()
    table.comes("A", 10)
    table.comes("B", 10, 5)
    assert table.feed(ClientGone(ord("A"))) == []
    assert table.asks("B") == []
    assert table.has("B", 10, 5) == []
    assert table.feed(MemoryFreed(ord("A"))) == ["allot B 10"]
    assert table.has("B", 10, 10) == ["grant B"]
    assert table.feed(MemoryFreed(ord("A"))) == []


def test_nothing_is_given_before_recorded_clients_are_back() -> None:
    """The scheduler before knew one that swaps; B waits for it, and for what it says that it has."""
    table = Table()
    table.feed(ResidentRecorded(DEVICE, 1))
    table.comes("B", 10, 5)
    assert table.grows("B", 12) == []
    table.comes("A", 4)
    assert table.feed(ResidentSettled(1))[-1].startswith("allot B")
    with pytest.raises(IllegalEvent):
        table.feed(ResidentSettled(1))


def test_foreign_memory_takes_from_the_idle() -> None:
    """Another program took 3 GiB: B, which is idle, leaves them."""
    table = Table()
    table.comes("A", 8)
    table.asks("A")
    table.comes("B", 6)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 3 * GIB))[-1] == "evict B 4"


def test_what_the_driver_refuses_counts_until_the_next_measurement() -> None:
    """A lacks 1 GiB though 5 seem to be free; B leaves it, and the shortage is forgotten with a measurement."""
    table = Table()
    table.comes("A", 4)
    table.asks("A")
    table.comes("B", 6)
    assert table.has("A", 4, 4, lacking=1) == ["evict B 5"]
    assert table.core.snapshot(0.0)[0].shortage_bytes == 6 * GIB
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    assert table.core.snapshot(0.0)[0].shortage_bytes == 0


def test_who_can_never_fit_is_passed_over() -> None:
    """Foreign memory has come to stay: B waits and is told why, C has its turn."""
    table = Table()
    table.comes("B", 12, 0)
    table.comes("C", 2)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 6 * GIB))
    table.asks("B")
    assert "grant C" in table.asks("C")
    line = table.core.client(ord("B"), table.now).line
    assert line is not None
    assert line.too_large


def test_who_is_passed_over_leaves_for_others() -> None:
    """B can't fit any more and keeps nobody out: what it has on the device makes room for C."""
    table = Table()
    table.comes("B", 12, 6)
    table.asks("B")
    table.comes("C", 6)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 6 * GIB))
    said = table.asks("C") + table.has("B", 12, 3) + table.has("C", 6, 6)
    assert said[-1] == "grant C"


def test_a_context_that_was_refused_is_charged_no_more() -> None:
    """A would not fit beside another context; when that is refused A can go on, and the next attempt counts again."""
    table = Table(pinned=1)
    table.comes("A", 14.5)
    assert table.asks("A") + table.has("A", 14.5, 14.5) == ["allot A 14.5", "grant A"]
    table.feed(PinnedMeasured(ord("A"), GIB))
    table.comes("B")
    assert table.core.snapshot(0.0)[0].clients[1].pinned_bytes == GIB
    assert "refuse B 1" in table.grows("B", 0)
    assert table.core.snapshot(0.0)[0].clients[1].pinned_bytes == 0
    assert "refuse B 2" in table.grows("B", 0)


def test_who_does_not_leave_in_time_is_not_waited_for() -> None:
    """C does not obey: after the grace time D leaves in its place."""
    table = Table(Policy.EXCLUSIVE)
    for name in "CDAB":
        table.comes(name, 3)
        table.now += 1
    table.asks("A")
    table.has("B", 8, 3)
    assert table.asks("B") == ["allot B 6", "evict C 1"]
    table.has("B", 8, 6)
    assert table.timer() == ["late C", "evict D 1"]


def test_who_does_not_come_in_has_its_turn_all_the_same() -> None:
    """B has all the room and does nothing: it is granted the lock after the grace time, and can be asked to leave."""
    table = Table()
    table.comes("B", 10, 5)
    assert table.asks("B") == ["allot B 10"]
    assert table.has("B", 10, 5) == []
    assert table.timer() == ["grant B"]


def test_a_client_that_pages_needs_room_before_its_grant() -> None:
    """M is not of those that swap; B leaves for it first."""
    table = Table()
    table.comes("B", 10)
    table.feed(ClientRegistered(ord("M"), DEVICE, 8 * GIB, ClaimedState.IDLE, backend=Backend.MANAGED))
    assert table.asks("M") == ["evict B 7"]
    assert table.has("B", 10, 7) == ["grant M"]
    assert table.asks("B") == []


def test_reports_that_can_not_be() -> None:
    """Orders that were never given, memory that it has not, words of another kind of client: nothing changes."""
    table = Table()
    table.comes("A", 4)
    with pytest.raises(IllegalEvent):
        table.has("A", 4, 4, order=1)
    with pytest.raises(IllegalEvent):
        table.has("A", 4, 5)
    with pytest.raises(IllegalEvent):
        table.feed(FootprintChanged(ord("A"), 1))
    with pytest.raises(IllegalEvent):
        table.arena("A", 1)
    table.feed(PinnedMeasured(ord("A"), GIB))
    assert table.core.snapshot(0.0)[0].clients[0].swap is not None
