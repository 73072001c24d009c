"""What is granted of a memory request, and what others may have beside it.

The device has 15 GiB beside the reserve, 1.5 of them for contexts.
"""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.actions import Allot, ReportShort
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    FootprintChanged,
    GangJoined,
    GrowthRequested,
    MemoryFreed,
    PinnedMeasured,
    TermsSet,
)
from tests.scheduler.core.memory.requesting import MOST, asking, enters, is_granted, kept, reason
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table


def test_others_are_admitted_what_is_left() -> None:
    """A may have 8.5 GiB beside the 5 that K keeps, though K has only one of them; K has its own in any case."""
    table = Table()
    table.comes("K", 1)
    enters(table, "K", 5)
    table.comes("A", 1)
    assert reason(table, "A", 9) == "this process may have 8704 MiB on the device: 5120 MiB are reserved for of K"
    assert reason(table, "K", 14) == "this process may have 13824 MiB on the device"
    assert is_granted(table.grows("A", 8.5), "A", 1)
    assert is_granted(table.grows("K", 12), "K", 1)


def test_a_program_is_told_what_it_could_have() -> None:
    """The request of another container is not a part of that."""
    table = Table()
    table.comes("K", 1)
    enters(table, "K", 5)
    table.comes("A", 1)
    allots = table.core.handle(GrowthRequested(ord("A"), 1, 2 * GIB, 0), table.now)
    assert [action.capacity_bytes / GIB for action in allots if isinstance(action, Allot)] == [MOST - 5]


def test_memory_that_can_not_move_takes_nothing_of_it() -> None:
    """Beside A's 8 GiB and the 5 of K there are 2 for that, the ones kept for contexts among them."""
    table = Table()
    table.comes("K", 1)
    enters(table, "K", 5)
    table.comes("A", 8)
    assert reason(table, "A", 8, fixed=2.5).endswith("512 MiB of what is reserved for of K would not be there")
    assert is_granted(table.grows("A", 8, fixed=2), "A", 1)
    assert kept(table, "K") == 5


def test_memory_that_can_not_move_takes_of_its_own_container_s_first() -> None:
    """K asks for more than is left beside the 6 that L keeps. Half of what it pins is there for contexts."""
    table = Table()
    for name, size in (("K", 3), ("L", 6)):
        table.comes(name, 1)
        enters(table, name, size)
    table.feed(TermsSet("of K", asking(10)))
    assert (kept(table, "K"), kept(table, "L")) == (7.5, 6)
    assert is_granted(table.grows("K", 1, fixed=3), "K", 1)
    assert (kept(table, "K"), kept(table, "L")) == (9, 6)


def test_a_context_takes_of_its_own_container_s_first() -> None:
    """K was first and keeps all that it asked for; L keeps the rest, and goes on doing so when K makes its context.

    Half of that is there anyway, for contexts.
    """
    table = Table(pinned=1)
    for name, size in (("K", 6), ("L", 10)):
        table.comes(name, 0)
        enters(table, name, size)
    assert is_granted(table.grows("L", 0), "L", 1)
    before = kept(table, "L")
    assert (kept(table, "K"), 0 < before < 10) == (6, True)
    assert is_granted(table.grows("K", 0), "K", 1)
    assert (kept(table, "K"), kept(table, "L")) == (5.5, before)


def test_contexts_take_nothing_of_it() -> None:
    """One more than the headroom has room for is refused, as it is where that much is allocated."""
    table = Table(pinned=1)
    table.measures = False
    table.comes("K", 1)
    enters(table, "K", 5)
    table.comes("A", 1)
    assert is_granted(table.grows("A", 8), "A", 1)
    granted = kept(table, "K")
    for name in "bcdefgh":
        table.comes(name)
        table.grows(name, 0)
    assert kept(table, "K") == granted


def test_what_can_not_move_is_a_part_of_it() -> None:
    """K has 3 GiB of arrays, so 2 GiB are kept of what moves; and it may have them for all that others wait for."""
    table = Table()
    table.comes("K", 4)
    enters(table, "K", 5)
    table.comes("A", 8)
    assert is_granted(table.grows("K", 4, fixed=3), "K", 1)
    assert kept(table, "K") == 5
    table.has("K", 4, 4, fixed=3)
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 2 * GIB)) == ["evict K 2"]


def test_native_memory_is_a_part_of_it() -> None:
    """What N may still allocate is kept free of what swaps. For managed memory nothing is."""
    table = Table()
    table.comes("A", 1)
    for name, backend in (("N", Backend.NATIVE), ("M", Backend.MANAGED)):
        table.feed(ClientRegistered(ord(name), DEVICE, GIB, ClaimedState.IDLE, backend=backend))
        enters(table, name, 5)
    assert (kept(table, "N"), kept(table, "M")) == (5, 0)
    assert "refuse A 1" in table.grows("A", 9)
    table.feed(FootprintChanged(ord("N"), 5 * GIB))
    assert kept(table, "N") == 5
    assert is_granted(table.grows("A", 8), "A", 2)


def test_who_was_admitted_before_keeps_it() -> None:
    """A has 10 GiB when K asks for 6: 3.5 are kept, and more when A has less, which A can't have again."""
    table = Table()
    table.comes("A", 10)
    table.comes("K", 1)
    enters(table, "K", 6)
    assert kept(table, "K") == MOST - 10
    table.has("A", 4, 4)
    assert kept(table, "K") == 6
    assert "refuse A 1" in table.grows("A", 10)
    assert is_granted(table.grows("A", 7.5), "A", 2)


def test_the_later_one_gets_what_is_left() -> None:
    """K asks for 9 GiB and L for 7: L has 4.5 of them, until K asks for less; K can't take them back after that."""
    table = Table()
    for name, size in (("K", 9), ("L", 7)):
        table.comes(name, 1)
        enters(table, name, size)
    assert (kept(table, "K"), kept(table, "L")) == (9, MOST - 9)
    table.feed(TermsSet("of K", asking(5)))
    assert (kept(table, "K"), kept(table, "L")) == (5, 7)
    table.feed(TermsSet("of K", asking(9)))
    assert (kept(table, "K"), kept(table, "L")) == (MOST - 7, 7)
    table.feed(ClientGone(ord("L")))
    table.feed(MemoryFreed(ord("L")))
    assert kept(table, "K") == 9


def test_it_is_said_once_that_a_request_is_not_kept_in_full() -> None:
    """When there is no hope that it will be, and again for another request."""
    table = Table()
    table.comes("A", 10)
    table.comes("K", 1)
    [report] = _reports(table, ContainerFound(ord("K"), "k@0", asking(6)))
    assert report == ReportShort(ord("K"), DEVICE, "k@0", 6 * GIB, int((MOST - 10) * GIB))
    assert _reports(table, ContainerFound(ord("K"), "k@0", asking(6))) in ([], [report])
    assert _reports(table, DeviceSeen(DEVICE, TOTAL * GIB)) == []
    assert [each.requested_bytes for each in _reports(table, TermsSet("k@0", asking(7)))] == [7 * GIB]
    assert _reports(table, TermsSet("k@0", asking(3))) == []


def _reports(table: Table, event: ContainerFound | TermsSet | DeviceSeen) -> list[ReportShort]:
    return [action for action in table.core.handle(event, table.now) if isinstance(action, ReportShort)]


def test_what_others_do_not_use_they_lose() -> None:
    """A was admitted 13 GiB and has 3: K gets all of its request when A has read that."""
    table = Table()
    table.comes("A", 1)
    table.grows("A", 13)
    table.has("A", 3, 3, slack=10)
    table.comes("K", 1)
    order = table.orders["A"]
    assert _reports(table, ContainerFound(ord("K"), "k@0", asking(8))) == []
    assert kept(table, "K") < 8
    table.orders["A"] = order + 1
    table.has("A", 3, 3)
    assert kept(table, "K") == 8


def test_nobody_gets_more_than_it_asked_for_where_a_request_lacks_something() -> None:
    """A gets no slack, which would be taken back at once."""
    table = Table()
    table.comes("A", 10)
    table.comes("K", 1)
    enters(table, "K", 6)
    table.comes("B", 1)
    allots = table.core.handle(GrowthRequested(ord("B"), 1, 4 * GIB, 0), table.now)
    assert [action.admitted_bytes for action in allots if isinstance(action, Allot)] == [4 * GIB]


def test_no_more_than_the_limit() -> None:
    """A request above the container's limit counts as that."""
    table = Table()
    table.comes("K", 1)
    table.feed(ContainerFound(ord("K"), "k@0", asking(6, limit=2)))
    assert kept(table, "K") == 2


def test_what_the_host_has_no_memory_for_stays_too() -> None:
    """Of A and B, 4 GiB each, only 3 each can leave: K is granted what is left beside that, so that all come in."""
    table = Table(host=6)
    for name in "AB":
        table.comes(name, 6, arena=3)
    table.comes("K", 6, 0, arena=0)
    enters(table, "K", 6)
    assert 4 < kept(table, "K") < 5
    table.asks("A")
    table.asks("K")


@pytest.mark.parametrize("size", [0.0, 8.0])
def test_a_growth_leaves_host_memory_for_what_is_kept(size: float) -> None:
    """K could leave for A and B, if it did not ask to stay: there is host memory for 2 GiB of each of them only."""
    table = Table(host=9)
    table.comes("K", 8, arena=5)
    enters(table, "K", size)
    table.comes("A", 5, arena=0)
    table.comes("B", 1, arena=0)
    said = table.grows("B", 5)
    assert ("refuse B 1" in said) is (size > 0)
    if size:
        assert "beside what is reserved" in reason(table, "B", 5)


def test_what_can_not_leave_anyhow_is_not_taken_from_the_request_either() -> None:
    """Neither K's 6 GiB nor B's can leave, and A's 6.5 need all beside them: with D's context K would be granted less.

    What stays for want of host memory today may leave tomorrow, and then only the request keeps it.
    """
    table = Table(pinned=0.5, host=0)
    table.comes("K", 6, arena=0)
    enters(table, "K", 6)
    table.comes("A", 6.5, 0, arena=7)
    table.has("A", 6.5, 0)
    table.comes("B", 1, arena=0)
    table.now = 20.0
    for name in "KAB":
        table.feed(PinnedMeasured(ord(name), GIB // 2))
    assert kept(table, "K") == 6
    table.comes("D", arena=0)
    assert "beside what is reserved" in reason(table, "D", 0)
    assert kept(table, "K") == 6


def test_host_memory_is_made_so_that_others_can_leave() -> None:
    """Nothing lacks yet, but would if K used its request: A and B get host memory for that."""
    table = Table()
    table.comes("A", 4, arena=0)
    table.comes("B", 4, arena=0)
    table.comes("K", 1)
    said = enters(table, "K", 9)
    assert [line for line in said if line.startswith("arena")] == ["arena A 1", "arena B 1"]


def test_a_managed_waiter_needs_what_is_left() -> None:
    """Nobody knows how large M is: it comes in beside what K keeps, and A leaves."""
    table = Table()
    table.comes("K", 5)
    enters(table, "K", 5)
    table.comes("A", 6)
    table.feed(ClientRegistered(ord("M"), DEVICE, None, ClaimedState.IDLE, backend=Backend.MANAGED))
    assert table.asks("M") == ["evict A 0"]
    assert table.has("A", 6, 0) == ["grant M"]


@pytest.mark.parametrize("size", [2.0, 6.0])
def test_a_gang_comes_in_beside_it(size: float) -> None:
    """A and B hold as one, 10 GiB together; they are parted where a request came before and leaves less than that."""
    table = Table()
    table.comes("K", 1)
    enters(table, "K", size)
    for name in "AB":
        table.comes(name, 5)
        table.core.handle(GangJoined(ord(name), "g", 2, 1), table.now)
    clients = table.core.snapshot(table.now)[0].clients
    assert [client.gang.apart for client in clients if client.gang] == [size == 6.0] * 2


def test_a_gang_is_not_parted_by_a_later_request() -> None:
    """A and B hold as one with 10 GiB: 3.5 are kept."""
    table = Table()
    for name in "AB":
        table.comes(name, 5)
        table.core.handle(GangJoined(ord(name), "g", 2, 1), table.now)
    table.comes("K", 1)
    enters(table, "K", 5)
    assert kept(table, "K") == MOST - 10


def test_who_is_gone_may_come_back() -> None:
    """A's connection ended, and its process may live with its 10 GiB: no more is granted before that is known."""
    table = Table()
    table.comes("A", 10)
    table.comes("K", 1)
    enters(table, "K", 6)
    table.feed(ClientGone(ord("A")))
    assert kept(table, "K") == MOST - 10
    table.feed(MemoryFreed(ord("A")))
    assert kept(table, "K") == 6


def test_what_was_had_by_who_is_gone_will_be_free() -> None:
    """Until it is, nothing of what was granted is taken back."""
    table = Table()
    table.comes("A", 4)
    table.comes("B", 5, 0)
    table.comes("K", 1)
    enters(table, "K", 8)
    table.feed(ClientGone(ord("A")))
    assert kept(table, "K") == 8


def test_what_the_driver_lacks_is_not_granted() -> None:
    """A is to come in, whatever was thought to be there; when the device is measured anew that is known."""
    table = Table()
    table.comes("K", 5)
    enters(table, "K", 5)
    table.comes("A", 8, 7)
    table.asks("A")
    table.has("A", 8, 7, lacking=1)
    assert kept(table, "K") == MOST - 8 - 3


def test_who_comes_back_can_leave_again() -> None:
    """Before A says what host memory it has, nothing of K's is given up for that."""
    table = Table()
    table.comes("K", 5)
    enters(table, "K", 5)
    for name in "AB":
        table.feed(ClientRegistered(ord(name), DEVICE, 8 * GIB, ClaimedState.IDLE, backend=Backend.SWAP))
    assert kept(table, "K") == 5


def test_it_is_not_said_of_who_comes_back() -> None:
    """X may be of K's container: nothing is said before it has told what it has."""
    table = Table()
    table.comes("K", 5)
    enters(table, "K", 8, "c")
    back = ClientRegistered(ord("X"), DEVICE, 10 * GIB, ClaimedState.IDLE, backend=Backend.SWAP)
    said = table.core.handle(back, table.now)
    assert not any(isinstance(action, ReportShort) for action in said)
    table.feed(ContainerFound(ord("X"), "c", asking(8)))
    assert kept(table, "K") == 8
