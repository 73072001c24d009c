"""Nobody waits for ever, and no orders go back and forth: what random sequences and crowds of programs came upon."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    MemoryFreed,
    PinnedMeasured,
    Policy,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table


def test_who_is_alone_is_not_sent_away_from_the_reserve() -> None:
    """Others' memory leaves A 9.5 GiB and the reserve: it comes in with part of that, and stays."""
    table = Table()
    table.comes("A", 10, 0)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, int(5.5 * GIB)))
    assert table.asks("A") == ["allot A 10"]
    assert table.has("A", 10, 9, order=1) == []
    assert table.has("A", 10, 10) == ["grant A"]


def test_who_freed_much_is_not_kept_from_what_it_wants_next() -> None:
    """A is alone, gives back what it is admitted and does not use, and wants fixed memory in the place of that."""
    table = Table()
    table.comes("A")
    table.asks("A")
    assert table.grows("A", 10) == ["allot A 10.625 as 1"]
    table.has("A", 10, 10, slack=0.625)
    assert table.has("A", 5, 5, slack=0.3125) == []
    assert table.grows("A", 5, fixed=6) == ["evict A 10"]
    assert table.has("A", 5, 5, slack=0.3125) == ["allot A 10 as 2"]


def test_who_is_alone_beside_one_that_is_gone_comes_in_once() -> None:
    """What L had counts still, so that A needs the reserve, and goes by older orders meanwhile."""
    table = Table()
    table.comes("L", 12)
    table.asks("L")
    table.comes("A", 3.5, 0)
    assert table.asks("A") == ["allot A 3"]
    assert table.has("A", 3.5, 3) == []
    assert table.feed(ClientGone(ord("L"))) == ["allot A 3.5"]
    assert table.has("A", 3.5, 3, order=2) == []
    assert table.has("A", 3.5, 3.5) == ["grant A"]


def test_who_is_alone_but_for_what_can_not_leave_has_the_reserve() -> None:
    """The host has no memory for the last half GiB of B: A was admitted beside that, so it comes in beside it."""
    table = Table(host=7)
    table.comes("B", 4, arena=3.5)
    table.comes("A", 15, 11, arena=3.5)
    table.asks("A")
    assert table.has("B", 4, 0.5) == ["allot A 15"]
    assert table.has("A", 15, 15) == ["grant A"]


def test_contexts_that_wait_do_not_keep_each_other_out() -> None:
    """A leaves for sixteen contexts, taken to take 1 GiB each, which is more than there is: the first can be made."""
    table = Table(pinned=1)
    table.comes("A", 4)
    table.asks("A")
    table.releases("A")
    table.feed(PinnedMeasured(ord("A"), GIB // 8))
    names = "bcdefghijklmnopq"
    for name in names:
        table.comes(name)
    said = [text for name in names for text in table.grows(name, 0)]
    said += table.has("A", 4, 0)
    assert [text for text in said if text.endswith("as 1")]


def test_holders_leave_for_a_context() -> None:
    """B has told that it has nothing, and waits to make its context; A would hold for ever."""
    table = Table(pinned=1)
    table.comes("A", 14)
    table.asks("A")
    table.comes("B")
    table.has("A", 14, 14)
    assert table.grows("B", 0) == []
    assert table.timer() == ["revoke A", "evict A 13"]


def test_holders_leave_for_a_waiter_that_grows() -> None:
    """B waits for the lock, and one of its threads for memory that can't move."""
    table = Table()
    table.comes("A", 14)
    table.asks("A")
    table.comes("B", 1)
    assert table.grows("B", 1, fixed=1) == []
    assert table.asks("B") == []
    assert "revoke A" in table.timer()


def test_holders_leave_for_a_waiter_that_grows_behind_another() -> None:
    """W is first and would fit, but what room there is, is kept for B."""
    table = Table()
    table.comes("A", 12)
    table.asks("A")
    table.comes("W", 1, 0)
    table.has("W", 1, 0)
    table.comes("B", 1)
    table.grows("B", 1, fixed=3)
    table.asks("W")
    table.asks("B")
    said: list[str] = []
    while "revoke A" not in said and (deadline := table.core.deadline()) is not None and deadline < 100:
        said += table.timer()
    assert "revoke A" in said


def test_what_was_given_on_top_is_taken_back_from_who_grows() -> None:
    """A may allocate 12.75 GiB unasked and has 12; with 2.5 GiB more that can't move as much could not come in."""
    table = Table()
    table.comes("A")
    table.grows("A", 12)
    table.has("A", 12, 12, slack=0.75)
    assert table.grows("A", 12, fixed=2.5) == ["allot A 12.5"]
    assert table.has("A", 12, 12, slack=0.5) == ["allot A 12.5 as 2"]


def test_a_context_waits_for_who_may_come_back() -> None:
    """B's connection ended and its process may live: D's context would not fit beside what B was admitted."""
    table = Table(pinned=1)
    table.comes("B", 14.5, 2)
    table.has("B", 14.5, 2)
    table.feed(ClientGone(ord("B")))
    table.comes("D")
    assert table.grows("D", 0) == []
    assert table.feed(MemoryFreed(ord("B"))) == ["allot D 0 as 1"]


def test_a_growth_leaves_host_memory_for_who_may_come_back() -> None:
    """B's process has the host memory that there is: beside B nothing could leave, so C may not have any yet."""
    table = Table(host=4)
    table.comes("B", 14, 2, arena=4)
    table.has("B", 14, 2)
    table.comes("C", arena=0)
    table.feed(ClientGone(ord("B")))
    assert table.grows("C", 2) == []
    assert "allot C 2.125 as 1" in table.feed(MemoryFreed(ord("B")))


def test_a_waiter_leaves_for_a_holder_that_is_not_in() -> None:
    """A was admitted 12 GiB before it held, and takes them now; B, whose turn is later, came in meanwhile."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 5)
    table.grows("A", 12)
    table.asks("A")
    table.comes("B", 7, 0)
    table.has("A", 5, 5, slack=7)
    table.asks("B")
    table.has("A", 5, 5, slack=7)
    table.has("B", 7, 7)
    assert "evict B 3" in table.has("A", 12, 5)


def test_a_hand_over_that_was_held_up_makes_no_long_turn() -> None:
    """B waited eight seconds for what the dead A had; its own turn is as long as any other."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 12)
    table.asks("A")
    for name in "BC":
        table.comes(name, 12, 0)
        table.has(name, 12, 0)
    table.asks("B")
    table.asks("C")
    table.feed(ClientGone(ord("A")))
    table.now = 8.0
    table.feed(MemoryFreed(ord("A")))
    assert "grant B" in table.has("B", 12, 12)
    assert table.core.snapshot(8.0)[0].quantum_left_seconds == 30.0


def test_a_context_waits_until_who_came_back_has_said_what_it_has() -> None:
    """B's 13 GiB fit beside D's context, but not beside what B has that can't move, too."""
    table = Table(pinned=0.5)
    table.feed(ClientRegistered(ord("B"), DEVICE, 13 * GIB, ClaimedState.IDLE, backend=Backend.SWAP))
    table.comes("D")
    assert not [said for said in table.grows("D", 0) if said.endswith("as 1")]
    table.arenas["B"] = 100 * GIB
    assert not [said for said in table.has("B", 13, 13, fixed=2) if said.endswith("as 1")]


def test_who_asks_for_nothing_keeps_no_context_out() -> None:
    """C is registered and may never make a context: what is charged for one comes after B's, which fits."""
    table = Table(pinned=1, host=0)
    table.comes("A", 13)
    table.comes("B")
    table.comes("C")
    assert table.grows("B", 0) == ["allot B 0 as 1"]


def test_a_holder_that_had_nothing_comes_in() -> None:
    """A came in with nothing, beside B that may fill the device: what A allocates then comes in as B gives way."""
    table = Table()
    table.comes("A")
    table.grows("A", 1)
    table.has("A", 0, 0, slack=1)
    table.comes("B", 15, 0)
    table.asks("B")
    assert table.has("A", 0, 0, slack=1) == ["allot B 15"]
    assert table.has("B", 15, 15) == ["grant B"]
    table.has("B", 4, 4, slack=11)
    assert table.asks("A") == ["grant A"]
    assert table.has("A", 1, 0) == ["evict B 14"]
    assert table.has("B", 4, 4, slack=11) == ["allot A 1"]


def test_others_leave_for_a_holder_that_can_not_stop_before_it_has_its_memory() -> None:
    """B allocates in the middle of a stream capture, and so can't give the lock back: it would wait for A's end."""
    table = Table()
    for name in "AB":
        table.comes(name, 4)
        table.has(name, 4, 4)
        table.asks(name)
    assert "revoke B" in table.grows("B", 12)
    assert "late B" in table.timer()
    assert table.grows("B", 12) == ["revoke A", "evict A 3"]
    table.releases("A")
    assert table.has("A", 4, 3) == ["allot B 12 as 2"]
    assert table.has("B", 12, 12) == []
    table.releases("B")
    assert table.asks("A") == ["evict B 11"]
