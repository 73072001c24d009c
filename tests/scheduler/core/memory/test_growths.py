"""Growths: answered when there is room, with what is nobody else's; in doubt; refused."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Policy,
    QuantumSet,
    ResidentRecorded,
    ResidentSettled,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table

CHUNK = 1 / 16
"""GiB."""


def two_hold(idle: float) -> Table:
    """A and B hold 5 GiB each, and C idles."""
    table = Table()
    for name in "AB":
        table.comes(name, 5)
        assert table.asks(name) == [f"grant {name}"]
    table.comes("C", idle)
    return table


def test_others_are_asked_for_the_lock_as_soon_as_a_holder_grows_too_large_beside_them() -> None:
    """B must leave for it whatever the idle leave; it is told at once, and for less than what is overlooked else."""
    table = two_hold(idle=4.9)
    assert "revoke B" in table.grows("A", 10.5)


def test_who_lacks_what_only_holders_have_may_end() -> None:
    """C idles, and wants fixed memory for which A or B would have to leave; then it is gone."""
    table = two_hold(idle=4.9)
    assert table.grows("C", 4.9, fixed=2) == []
    table.feed(ClientGone(ord("C")))
    assert table.releases("B") == []
    assert table.asks("B") == ["grant B"]


def test_growths_of_others_take_no_lock_away() -> None:
    """A and B have outgrown the device by less than the slack; C, which idles, wants a little memory that is fixed."""
    table = two_hold(idle=0)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, int(5.5 * GIB)))
    said = table.grows("C", 0, fixed=CHUNK)
    assert not [text for text in said if text.startswith("revoke")]


def test_a_holder_whose_growth_was_in_doubt_needs_room_as_others_do() -> None:
    """When it turns out to be possible B is asked for the lock, though C could leave."""
    table = two_hold(idle=4.9)
    table.measures = False
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 5 * GIB))
    assert table.grows("A", 11) == ["measure"]
    said = table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    assert "revoke B" in said


def test_host_memory_is_made_for_a_growth_that_was_in_doubt() -> None:
    """It is possible, but not before others can leave for it."""
    table = Table()
    table.measures = False
    table.comes("A", 10, arena=0)
    table.comes("B", 0, arena=0)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 5 * GIB))
    assert table.grows("B", 10) == ["measure"]
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB)) == ["arena B 1"]
    assert not table.core.snapshot(0.0)[0].in_doubt


def test_nothing_is_refused_for_memory_of_those_who_are_on_their_way() -> None:
    """What A lacks has B, which began without a scheduler and counts as foreign until it has registered."""
    table = Table()
    table.comes("A", 1)
    table.measures = False
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB, settled=False))
    assert table.grows("A", 10) == ["measure"]
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB, settled=False)) == []
    table.comes("B", 12)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, settled=False)) == ["allot A 3 as 1"]


def test_memory_of_others_that_is_settled_is_refused() -> None:
    """Nobody else comes: B is no client."""
    table = Table()
    table.comes("A", 1)
    table.measures = False
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB, settled=False)) == []
    assert table.grows("A", 10) == ["measure"]
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB)) == ["refuse A 1"]


def test_without_nvml_nothing_is_in_doubt() -> None:
    """Nobody will ever measure the device: what is not possible is refused at once."""
    table = Table()
    table.measures = False
    table.feed(DeviceSeen(DEVICE, 0))
    table.feed(ClientRegistered(ord("A"), DEVICE, 0, ClaimedState.IDLE, backend=Backend.SWAP, device_bytes=16 * GIB))
    table.arenas["A"] = 0
    table.has("A", 0, 0)
    assert table.grows("A", 15) == ["refuse A 1"]


def test_what_was_refused_to_a_holder_keeps_nobody_out() -> None:
    """A wanted 12 GiB, and another program took them; B fits beside what A has."""
    table = Table()
    table.comes("A", 3)
    assert table.asks("A") == ["grant A"]
    table.comes("C", 12)
    assert table.grows("A", 12) == ["evict C 3"]
    assert "refuse A 1" in table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 6 * GIB))
    assert table.core.snapshot(0.0)[0].traffic.refused == 1
    table.has("C", 12, 0)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    table.comes("B", 4)
    assert "grant B" in table.asks("B")


def test_what_a_holder_needs_to_grow_is_not_given_to_others() -> None:
    """M would fit in the 2 GiB that A needs with others; A comes first."""
    table = Table()
    table.comes("A", 8)
    assert table.asks("A") == ["grant A"]
    table.comes("B", 5, arena=4)
    registers = ClientRegistered(ord("M"), DEVICE, GIB, ClaimedState.IDLE, backend=Backend.MANAGED)
    assert table.feed(registers) == ["arena B 1"]
    assert table.grows("A", 11) == ["evict B 4"]
    assert table.asks("M") == []
    assert table.has("B", 5, 4)[0] == "allot A 11 as 1"


def test_a_growth_that_waits_for_host_memory_keeps_no_room() -> None:
    """B may not have more yet; A comes in meanwhile."""
    table = Table()
    table.comes("A", 10, 2, arena=0)
    table.has("A", 10, 2)
    table.comes("B", 0, arena=0)
    assert "arena B 1" in table.grows("B", 6)
    assert "allot A 10" in table.asks("A")


def test_a_growth_of_who_does_not_give_the_lock_back_needs_room() -> None:
    """It may run still: what it is admitted has to be on the device."""
    table = Table(Policy.EXCLUSIVE)
    table.feed(QuantumSet(1))
    table.comes("A", 4)
    table.asks("A")
    table.comes("B", 4)
    table.asks("B")
    table.comes("C", 6)
    assert table.timer() == ["revoke A"]
    assert "late A" in table.timer()
    assert table.grows("A", 8) == ["evict B 1"], "which is passed over, and not in use"
    assert table.has("B", 4, 1) == ["allot A 8 as 1"]


def test_what_is_allotted_already_needs_no_room() -> None:
    """A may have 8 GiB and has 4; the device is full."""
    table = Table()
    table.comes("A", 8)
    table.asks("A")
    table.has("A", 4, 4)
    table.comes("B", 7)
    assert table.grows("A", 8) == ["allot A 8 as 1"]


def test_unmovable_memory_counts_from_its_grant() -> None:
    """A has not told yet that it has it; C gets nothing of the same room."""
    table = Table()
    table.comes("A", 8)
    assert table.asks("A") == ["grant A"]
    table.comes("C", 5.5)
    assert any(text.endswith("as 1") for text in table.grows("A", 8, fixed=1))
    assert table.grows("C", 5.5, fixed=1) == []


def test_two_growths_at_a_time_get_different_room() -> None:
    """A and C waited for a client that is not back; now there is room for one of them."""
    table = Table()
    table.feed(ResidentRecorded(DEVICE, 1))
    table.comes("A", 8)
    table.comes("C", 5.5)
    table.comes("D", 0)
    assert table.grows("A", 8, fixed=1) == []
    assert table.grows("C", 5.5, fixed=1) == []
    assert table.feed(ResidentSettled(1)) == ["allot A 8 as 1", "evict A 7.5"]


def test_nobody_is_given_more_than_it_asked_for_while_others_lack() -> None:
    """What E leaves beyond A's wish is B's, which waits."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("B", 8, 0)
    table.has("B", 8, 0)
    table.comes("A", 8)
    table.asks("A")
    table.comes("E", 7)
    assert table.asks("B") == ["evict E 0"]
    assert table.grows("A", 9) == []
    assert table.has("E", 7, 4) == ["allot A 9 as 1", "allot B 2"]


def test_who_pages_and_waits_lacks_as_well() -> None:
    """The same with M in B's place."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 8)
    table.asks("A")
    table.comes("E", 7)
    table.feed(ClientRegistered(ord("M"), DEVICE, 8 * GIB, ClaimedState.IDLE, backend=Backend.MANAGED))
    assert table.asks("M") == ["evict E 0"]
    assert table.grows("A", 9) == []
    assert table.has("E", 7, 4) == ["allot A 9 as 1"]


def test_slack_is_taken_back_for_unmovable_memory() -> None:
    """A was admitted more than it asked for; what C wants does not fit beside that."""
    table = Table()
    table.comes("A", 1)
    assert table.grows("A", 12)[0].endswith("as 1")
    table.has("A", 12, 12, slack=0.75)
    table.comes("C")
    before = table.orders["A"]
    assert table.core.snapshot(0.0)[0].clients[0].swap.admitted_bytes == int(12.75 * GIB)  # type: ignore[union-attr]
    assert table.grows("C", 0, fixed=2.5) == ["allot A 12.5"]
    assert table.orders["A"] > before
    assert table.core.snapshot(0.0)[0].clients[0].swap.admitted_bytes == int(12.5 * GIB)  # type: ignore[union-attr]


def test_who_freed_and_did_not_say_so_is_asked_before_a_growth_is_refused() -> None:
    """A has none of the 10 GiB of pools any more that it told of, and B what moves of its 4: C may have both."""
    table = Table()
    table.comes("A")
    table.grows("A", 0, fixed=10)
    table.has("A", 0, 0, fixed=10)
    table.comes("B", 4)
    table.comes("C")
    table.answers = False
    assert table.grows("C", 0, fixed=14) == ["evict A 0", "evict B 4"]
    assert table.has("A", 0, 0) == []
    assert table.has("B", 0, 0) == ["evict B 1"]
    assert "allot C 0 as 1" in table.has("B", 0, 0)


def test_who_has_what_it_said_is_in_the_way() -> None:
    """A answers that it has its 10 GiB: C is refused. A new growth is a new question."""
    table = Table()
    table.comes("A")
    table.grows("A", 0, fixed=10)
    table.has("A", 0, 0, fixed=10)
    table.comes("C")
    table.answers = False
    for request in (1, 2):
        assert table.grows("C", 0, fixed=14) == ["evict A 0"]
        assert f"refuse C {request}" in table.has("A", 0, 0, fixed=10)


def test_who_is_back_is_not_told_that_it_may_have_what_it_says_it_has() -> None:
    """The scheduler before may have told A less than its 8 GiB; what it goes by it says by itself, and is awaited."""
    table = Table(host=0)
    table.comes("B", 6, arena=0)
    table.feed(ClientRegistered(ord("A"), DEVICE, 8 * GIB, ClaimedState.WAITING, backend=Backend.SWAP))
    table.arenas["A"] = 0
    table.answers = False
    assert table.grows("B", 9) == []
    assert table.has("A", 4, 4, order=0) == ["grant A", "allot B 7 as 1"]


def test_who_is_back_and_says_nothing_is_not_awaited_for_ever() -> None:
    """A does not read or write."""
    table = Table(host=0)
    table.comes("B", 6, arena=0)
    table.feed(ClientRegistered(ord("A"), DEVICE, 8 * GIB, ClaimedState.WAITING, backend=Backend.SWAP))
    table.answers = False
    assert table.grows("B", 9) == []
    assert table.timer() == ["refuse B 1"]
