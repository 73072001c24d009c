"""Who leaves the device for whom, and how much: what a rule does not touch is looked at as well as what it does."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    HolderRecorded,
    Policy,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, REST, TOTAL, Table

CHUNK = 1 / 16
"""GiB."""


def is_out(table: Table, name: str, size: float) -> None:
    """A client comes that has nothing on the device, and goes by that."""
    table.comes(name, size, 0)
    table.has(name, size, 0)


def with_unused(lacking: float) -> Table:
    """D idles with 5 GiB. A holds 4 and may have 8; there are 2 left, and B needs so much more."""
    table = Table(Policy.EXCLUSIVE)
    is_out(table, "B", 2 + lacking)
    table.comes("D", 5)
    table.comes("A", 8)
    assert table.asks("A") == ["grant A"]
    table.has("A", 4, 4, slack=4)
    return table


def pages(table: Table, name: str, size: float | None) -> list[str]:
    """A client comes whose memory does not swap; None: it does not say how much that is."""
    footprint = None if size is None else int(size * GIB)
    return table.feed(ClientRegistered(ord(name), DEVICE, footprint, ClaimedState.IDLE, backend=Backend.MANAGED))


def test_unused_allotments_first_and_no_more_than_lacks() -> None:
    """B lacks 3 GiB, which A may have and does not need: even of a holder, and D is left alone."""
    table = with_unused(3)
    assert table.asks("B") == ["allot B 2", "evict A 5"]


def test_unused_allotments_are_taken_in_steps() -> None:
    """Not a message for each small allocation of others."""
    table = with_unused(CHUNK / 4)
    assert table.asks("B") == ["allot B 2", f"evict A {8 - CHUNK:g}"]


def test_who_keeps_what_it_was_told_to_give_up_is_not_told_again() -> None:
    """A does not read: what B lacks more D leaves."""
    table = with_unused(1)
    assert table.asks("B") == ["allot B 2", "evict A 7"]
    table.has("B", 3, 2)
    assert table.timer() == ["evict D 4"]


def test_what_comes_in_is_not_unused() -> None:
    """B has been allotted what it waits for: D, which idles, leaves for what A grows by."""
    table = Table(Policy.EXCLUSIVE)
    is_out(table, "B", 6)
    table.comes("D", 5)
    table.comes("A", 4)
    assert table.asks("A") == ["grant A"]
    assert table.asks("B") == ["allot B 6"]
    assert table.grows("A", 6) == ["evict D 3"]


def test_the_least_recently_used_is_not_who_came_first() -> None:
    """C came before D, and has computed since."""
    table = Table(Policy.EXCLUSIVE)
    for name in "CDAB":
        table.comes(name, 3)
    table.now = 1
    assert table.asks("C") == ["grant C"]
    table.now = 2
    table.releases("C")
    assert table.asks("A") == ["grant A"]
    table.has("B", 7, 3)
    assert table.asks("B") == ["allot B 6", "evict D 2"]


def test_the_idle_leave_before_holders_that_must_leave() -> None:
    """Somebody took 8 GiB: B has to give the lock back, but D, which idles, moves first."""
    table = Table()
    for name, size in (("A", 6), ("B", 6), ("D", 3)):
        table.comes(name, size)
    assert table.asks("A") == ["grant A"]
    assert table.asks("B") == ["grant B"]
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 8 * GIB)) == ["revoke B", "evict D 0"]
    assert "evict B 1" in table.has("D", 3, 0)


def test_holders_that_must_leave_move_before_those_that_wait() -> None:
    """W's turn comes sooner than another one of B."""
    table = Table()
    table.comes("W", 4, 3)
    table.has("W", 4, 3)
    table.comes("A", 6)
    table.comes("B", 6)
    for name in "ABW":
        table.asks(name)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 6 * GIB)) == ["revoke B", "evict B 0"]


def test_for_memory_of_others_the_last_waiter_leaves_first() -> None:
    """B and E wait; somebody took 8 GiB."""
    table = Table(Policy.EXCLUSIVE)
    for name in "ABE":
        table.comes(name, 3)
        table.asks(name)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 8 * GIB)) == ["evict E 1"]


def test_nobody_leaves_for_its_own_growth() -> None:
    """W waits and wants memory that can't move: only A, which holds, could leave for it."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 12)
    table.asks("A")
    table.comes("W", 3)
    table.asks("W")
    assert table.grows("W", 3, fixed=1) == []
    assert table.timer() == ["revoke A", "evict A 11"]


def test_the_next_one_leaves_when_the_one_before_has_left() -> None:
    """B needs all of C and some of D; while C moves D is not told to."""
    table = Table(Policy.EXCLUSIVE)
    for name in "CDAB":
        table.comes(name, 3)
        table.now += 1
    table.asks("A")
    table.has("B", 11, 3)
    assert table.asks("B") == ["allot B 6", "evict C 0"]
    assert table.has("C", 3, 2) == ["allot B 7"]
    assert table.has("C", 3, 0) == ["allot B 9", "evict D 1"]


def test_one_client_leaves_at_a_time_for_whatever() -> None:
    """The driver refuses B one GiB, which is C's, and B has grown by two: D begins when C is done."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 6)
    table.asks("A")
    for name, size in (("C", 1), ("D", 5), ("B", 3)):
        table.comes(name, size)
        table.now += 1
    table.asks("B")
    assert table.has("B", 5, 3, lacking=1) == ["allot B 3", "evict C 0"]
    assert table.has("C", 1, 0) == ["evict D 3"]


def test_who_only_gives_up_what_it_does_not_use_keeps_nobody_from_leaving() -> None:
    """A has not read yet that it has less; no memory moves for that, so D begins."""
    table = with_unused(0)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 6 * GIB)) == ["evict A 4"]
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 7 * GIB)) == ["evict D 4"]


def test_waiters_behind_the_first_make_nobody_who_waits_leave() -> None:
    """C lacks what D, behind it, has; C comes in from what is free or idle."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("C", 5, 3)
    table.has("C", 5, 3)
    for name, size, arena in (("A", 6, 100), ("B", 3, 100), ("D", 3, 0)):
        table.comes(name, size, arena=arena)
    for name in "ABCD":
        table.asks(name)
    table.arenas["D"] = 100 * GIB
    assert table.has("D", 3, 3) == []


def test_the_rest_is_given_even_if_it_is_little() -> None:
    """Room comes in steps of a chunk, and what lacks at the end is less than that."""
    table = Table(Policy.EXCLUSIVE)
    is_out(table, "B", 2 + CHUNK / 2)
    table.comes("A", 10)
    table.asks("A")
    table.comes("D", 5)
    assert table.asks("B") == [f"evict D {3 - CHUNK / 2:g}"]
    assert table.has("D", 5, 5 - CHUNK / 2) == []
    assert table.has("D", 5, 3) == ["allot B 2"]
    assert table.has("D", 5, 3 - CHUNK / 2) == [f"allot B {2 + CHUNK / 2:g}"]


def test_a_holder_that_is_not_in_comes_before_waiters() -> None:
    """A came back holding with memory out: until it is in B is given nothing."""
    table = Table()
    table.feed(HolderRecorded(DEVICE, 7))
    holding = ClientRegistered(ord("A"), DEVICE, 10 * GIB, ClaimedState.HOLDING, 7, 7, backend=Backend.SWAP)
    table.feed(holding)
    table.arenas["A"] = 100 * GIB
    assert table.has("A", 10, 4) == ["allot A 4", "allot A 10"]
    table.comes("B", 10, 2)
    assert table.asks("B") == []
    assert table.has("A", 10, 10) == ["allot B 5"]


def test_an_unresponsive_holder_gets_what_it_needs_to_end() -> None:
    """A came back to give the lock back, can't without its memory, and is late: it gets that memory."""
    table = Table()
    table.feed(HolderRecorded(DEVICE, 7))
    draining = ClientRegistered(ord("A"), DEVICE, 10 * GIB, ClaimedState.DRAINING, 7, 7, backend=Backend.SWAP)
    table.feed(draining)
    table.arenas["A"] = 100 * GIB
    assert table.has("A", 10, 4) == ["allot A 4"]
    assert table.has("A", 10, 4) == []
    assert "allot A 10" in table.timer()


def test_an_unresponsive_holder_is_not_waited_for() -> None:
    """B was to leave for another program and does not answer; E, which has host memory now, leaves in its place."""
    table = Table()
    table.comes("E", 2, arena=0)
    for name in "AB":
        table.comes(name, 6)
        assert table.asks(name) == [f"grant {name}"]
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 5 * GIB)) == ["revoke B", "evict B 2"]
    table.now = 5
    assert table.has("B", 6, 6, order=0) == []
    assert "late B" in table.timer()
    table.arenas["E"] = 100 * GIB
    assert table.has("E", 2, 2) == ["evict E 0"]


def test_an_unresponsive_holder_is_asked_once_for_what_it_does_not_use() -> None:
    """A can't stop, but may give back at once what it only may have: that is on the way, and no more is asked for."""
    table = with_unused(3)
    assert table.asks("B") == ["allot B 2", "evict A 5"]
    table.has("A", 4, 4, slack=1)
    table.has("B", 5, 5)
    said = [*table.timer(), *table.timer()]
    assert said == ["revoke A", "late A"]
    assert table.grows("D", 5, fixed=CHUNK) == [f"evict A {5 - CHUNK:g}"]
    table.now += 1
    assert table.asks("D") == []


def test_who_gives_the_lock_back_has_the_time_for_that() -> None:
    """A has not read an order for long, and is now revoked: E need not leave in its place before A is late."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 10)
    table.asks("A")
    table.comes("E", 3, arena=0)
    table.comes("B", 8, 2)
    table.asks("B")
    table.now = 1
    assert table.grows("A", 9) == ["allot A 10 as 1"]
    assert table.asks("E") == []
    said = table.timer()
    while "revoke A" not in said:
        said = table.timer()
    assert said == ["revoke A", "evict A 4"]
    table.arenas["E"] = 100 * GIB
    assert table.has("E", 3, 3) == []


def test_a_client_that_pages_gets_what_it_needs_and_no_more() -> None:
    """M waits and will have 8 of the 12 GiB; what C, behind it, can have is the rest."""
    table = Table(Policy.EXCLUSIVE)
    is_out(table, "C", 10)
    table.comes("A", 3)
    table.asks("A")
    pages(table, "M", 8)
    table.asks("M")
    assert table.asks("C") == ["allot C 4"]


def test_behind_a_client_that_lacks_room_and_pages_nobody_comes_in() -> None:
    """What room there is, is M's."""
    table = Table(Policy.EXCLUSIVE)
    is_out(table, "C", 4)
    table.comes("A", 10)
    table.asks("A")
    pages(table, "M", 8)
    table.asks("M")
    assert table.asks("C") == []


def test_room_beside_a_holder_that_pages() -> None:
    """N's pages are on the device too: B leaves before M is granted."""
    table = Table()
    table.comes("B", 5)
    pages(table, "N", 8)
    pages(table, "M", 6)
    assert table.asks("N") == ["grant N"]
    assert table.asks("M") == ["evict B 1"]
    assert table.has("B", 5, 1) == ["grant M"]


def test_who_pages_may_need_more_than_can_leave() -> None:
    """B has no host memory: M pages beside it, but not while N's pages are in its way."""
    table = Table()
    table.comes("B", 10, arena=0)
    pages(table, "N", 4)
    pages(table, "M", 8)
    assert table.asks("N") == ["grant N"]
    assert table.asks("M") == []
    assert "grant M" in table.releases("N")


def test_who_needs_nothing_waits_for_no_room() -> None:
    """Somebody took memory and B has not left yet; M has none."""
    table = Table()
    table.comes("B", 10)
    pages(table, "M", 0)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 8 * GIB)) == ["evict B 7"]
    assert table.asks("M") == ["grant M"]


def test_for_a_client_of_unknown_size_everybody_leaves() -> None:
    """L does not say what it has; it may be all."""
    table = Table()
    table.comes("B", 10)
    pages(table, "L", None)
    assert table.asks("L") == ["evict B 0"]


def test_what_the_driver_lacks_is_not_what_others_are_leaving_anyhow() -> None:
    """A GiB is refused to A, and three are on their way out: that is enough."""
    table = Table()
    table.comes("A", 4)
    table.asks("A")
    table.comes("B", 10)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 4 * GIB)) == ["evict B 7"]
    assert table.has("A", 4, 4, lacking=1) == []
    assert table.core.snapshot(0.0)[0].shortage_bytes == 0


def about_to_grow() -> tuple[Table, int]:
    """A was granted 10 GiB, of which the host has memory for 4, by the order returned, and told to leave after it."""
    table = Table(Policy.EXCLUSIVE, host=4)
    table.comes("A", 3, arena=4)
    assert table.asks("A") == ["grant A"]
    assert table.grows("A", 10) == ["allot A 10.625 as 1"]
    granted = table.orders["A"]
    pages(table, "B", 12)
    assert table.asks("B") == ["evict A 10"]
    table.timer()
    assert table.releases("A") == ["grant B", "evict A 3"]
    return table, granted


def test_who_has_grown_keeps_what_the_host_has_no_memory_for() -> None:
    """A was told to leave by what was known of it then; what it can't leave by now it is not asked for any more."""
    table, granted = about_to_grow()
    assert table.has("A", 10, 10, order=granted) == [f"allot A {6 + REST:g}"]
    assert table.has("A", 10, 6 + REST) == []
    assert table.core.deadline() is None


def test_nobody_keeps_more_than_it_has() -> None:
    """A says that more of it is in host memory than it has host memory: what it has on the device is all that stays."""
    table, granted = about_to_grow()
    assert table.has("A", 10, 5, order=granted) == ["allot A 5"]


def test_nobody_leaves_for_one_that_comes_in_with_it() -> None:
    """A and B are a gang; A lacks what only C could leave, which holds."""
    table = Table()
    is_out(table, "A", 7)
    table.comes("B", 7)
    table.comes("C", 8)
    table.gang("AB")
    assert table.asks("C") == ["grant C"]
    assert table.asks("A") == []
    assert table.timer() == ["revoke C", "evict C 1"]


def test_who_waits_and_does_not_leave_is_not_behind_itself() -> None:
    """B was stopped while it waits: A's memory has no room, and B would have its own."""
    table = Table()
    is_out(table, "A", 10)
    table.comes("B", 10)
    assert table.asks("A") == ["allot A 5", "evict B 5"]
    table.has("A", 10, 5)
    table.asks("B")
    table.timer()
    lines = {name: table.core.client(ord(name), table.now).line for name in "AB"}
    behind = {name: [turn.client for turn in line.behind] for name, line in lines.items() if line is not None}
    assert behind == {"A": [ord("B")], "B": []}
