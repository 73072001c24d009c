"""What one client was told and has told, by itself: bytes are small numbers here."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Backend, ResidencyReported
from nvshare.scheduler.core.records.arenas import GRANULE_BYTES
from nvshare.scheduler.core.records.growth import Growth
from nvshare.scheduler.core.records.memory import CONTEXT_KNOWN_SECONDS, Memory
from nvshare.scheduler.core.records.shown import show_swap


def client(footprint: int = 10, resident: int = 10, allotted: int = 10) -> Memory:
    """One that has said what it has, and goes by what it was told."""
    memory = Memory(Backend.SWAP, footprint)
    memory.resident_bytes = resident
    if allotted != footprint:
        memory.tell(allotted, 0.0)
    reports(memory)
    return memory


def reports(
    memory: Memory,
    order: int | None = None,
    footprint: int = 10,
    fixed: int = 0,
    admitted: int = 10,
    arena: int = 0,
    usable: int = 0,
    now: float = 0.0,
) -> None:
    """It says what it has; unless said otherwise it goes by the newest order."""
    newest = memory.orders.newest if order is None else order
    resident = min(memory.resident_bytes, footprint)
    memory.report(ResidencyReported(1, newest, footprint, resident, fixed, admitted, arena, usable), now)


def test_what_it_goes_by_is_what_it_said() -> None:
    """The newest order that it named."""
    memory = client()
    memory.tell(8, 0.0)
    memory.tell(9, 0.0)
    reports(memory, order=1)
    assert (memory.orders.going_by, memory.orders.newest) == (1, 2)
    assert memory.charge_bytes == 10, "it has as much"


def test_no_more_is_usable_than_there_is() -> None:
    """Of host memory; whatever it says."""
    memory = client()
    reports(memory, arena=4, usable=6)
    assert memory.usable_bytes == 4


def test_what_was_freed_did_not_come_in() -> None:
    """Half of what is copied out no more was freed. What it has at first moved some time before."""
    memory = Memory(Backend.SWAP, 10)
    assert memory.report(ResidencyReported(1, 0, 8, 4, out_bytes=4), 0.0) == (0, 0)
    assert memory.report(ResidencyReported(1, 0, 6, 6, out_bytes=0), 0.0) == (2, 0)
    assert memory.report(ResidencyReported(1, 0, 6, 5, out_bytes=1), 0.0) == (0, 1)
    assert (memory.came_bytes, memory.left_bytes) == (2, 1)


def test_what_grew_did_not_come_in() -> None:
    """Two were allocated while one came in."""
    memory = Memory(Backend.SWAP, 4)
    memory.report(ResidencyReported(1, 0, 4, 2, out_bytes=2), 0.0)
    assert memory.report(ResidencyReported(1, 0, 6, 5, out_bytes=1), 0.0) == (1, 0)


def test_what_is_admitted_follows_the_newest_order() -> None:
    """What it says by an older one does not know what it was given; and what it has it was admitted."""
    memory = client()
    memory.grow(20, 0, 0.0)
    memory.tell(10, 0.0)
    reports(memory, order=0, admitted=10)
    assert memory.admitted_bytes == 20
    reports(memory, order=0, footprint=25, admitted=10)
    assert memory.admitted_bytes == 25
    reports(memory, order=1, footprint=12, admitted=5)
    assert memory.admitted_bytes == 12
    memory.grow(11, 0, 0.0)
    assert memory.admitted_bytes == 12, "a growth takes nothing away"


def test_unmovable_memory_counts_as_granted_until_it_goes_by_that() -> None:
    """5 were granted: until it has read that it may come to use them; then it has what it says, and asks for more."""
    memory = client()
    memory.grow(10, 5, 0.0)
    memory.tell(10, 0.0)
    reports(memory, order=0, fixed=2)
    assert memory.unmovable_bytes == 5
    reports(memory, fixed=2)
    assert memory.unmovable_bytes == 2
    memory.grow(10, 4, 0.0)
    memory.tell(10, 0.0)
    assert memory.unmovable_bytes == 4
    reports(memory, order=1, fixed=3)
    assert memory.unmovable_bytes == 4
    reports(memory, order=1, fixed=7)
    assert memory.unmovable_bytes == 7, "more than it was granted"
    reports(memory, fixed=2)
    assert memory.unmovable_bytes == 2


def test_a_growth_is_under_way_until_it_goes_by_its_grant() -> None:
    """Or for longer, if it has asked for the next one."""
    memory = client()
    memory.growing_bytes = 20
    memory.grow(20, 0, 0.0)
    memory.tell(20, 0.0)
    reports(memory, order=0)
    assert memory.growing_bytes == 20
    memory.growth = Growth(2, 30, 0)
    reports(memory)
    assert memory.growing_bytes == 20
    memory.growth = None
    reports(memory)
    assert memory.growing_bytes == 0


def test_the_first_growth_makes_the_context() -> None:
    """Its size may come to be known for a while, or is known."""
    memory = client()
    memory.has_context = False
    assert not memory.makes_context(0.0)
    memory.growth = Growth(1, 10, 0)
    assert memory.makes_context(0.0)
    memory.grow(10, 0, 3.0)
    memory.grow(11, 0, 5.0)
    assert memory.context_at == 3.0
    assert memory.makes_context(3.0)
    assert not memory.makes_context(3.0 + CONTEXT_KNOWN_SECONDS)
    memory.pinned_measured = True
    assert not memory.makes_context(3.0)


def test_who_has_said_nothing_goes_by_nothing_of_others() -> None:
    """Nor is it known to be in."""
    memory = Memory(Backend.SWAP, 10)
    memory.resident_bytes = 4
    assert not memory.goes_by_others
    assert not memory.may_be_in
    memory.report(ResidencyReported(1, 0, 10, 4), 0.0)
    assert memory.goes_by_others


@pytest.mark.parametrize(
    ("footprint", "resident", "allotted", "moves"),
    [
        (10, 10, 10, False),
        (10, 10, 4, True),
        (10, 4, 10, True),
        (10, 4, 4, False),
        (10, 10, 15, False),
    ],
)
def test_when_memory_moves(footprint: int, resident: int, allotted: int, moves: bool) -> None:
    """Out of what is resident, or in as far as it may and there is something; and only this is late some time."""
    memory = client(footprint, resident, allotted)
    assert memory.is_moving is moves
    assert show_swap(memory, 0.0).in_bytes == max(0, min(footprint, allotted) - resident)
    memory.tell(allotted, 7.0)
    assert memory.progress_at == (0.0 if moves else 7.0)
    memory.tell(allotted, 9.0)
    assert memory.progress_at == (0.0 if moves else 7.0), "it has not even read the last one"
    reports(memory, now=11.0)
    assert memory.progress_at == 11.0


def settled() -> Memory:
    """All of it is out, and goes back into host memory that it has: a granule, of which it uses ten bytes."""
    memory = client()
    memory.tell(0, 0.0)
    memory.resident_bytes = 0
    reports(memory, arena=GRANULE_BYTES)
    assert memory.is_settled
    return memory


def test_who_has_said_nothing_does_not_rest() -> None:
    """It may have anything. One that came with nothing has as much host memory as is of use: none."""
    memory = Memory(Backend.SWAP)
    assert not memory.is_settled
    memory.report(ResidencyReported(1, 0, 0, 0), 0.0)
    assert memory.is_settled


def test_who_grows_does_not_rest() -> None:
    memory = settled()
    memory.growth = Growth(1, 20, 0)
    assert not memory.is_settled


def test_who_may_be_on_the_device_does_not_rest() -> None:
    """Whether it has read that, or has used it."""
    memory = settled()
    memory.tell(5, 0.0)
    assert not memory.is_settled


def test_who_is_back_with_memory_out_does_not_rest() -> None:
    """It goes by what another scheduler told it, and has to hear something from this one, and to say that it did."""
    memory = Memory(Backend.SWAP)
    memory.report(ResidencyReported(1, 0, 10, 0, 0, 10, GRANULE_BYTES, GRANULE_BYTES, 10), 0.0)
    assert not memory.charge_bytes
    assert not memory.is_settled
    memory.tell(0, 0.0)
    assert not memory.is_settled
    memory.report(ResidencyReported(1, 1, 10, 0, 0, 10, GRANULE_BYTES, GRANULE_BYTES, 10), 0.0)
    assert memory.is_settled


def test_who_waits_for_host_memory_does_not_rest() -> None:
    """Though what it has would do."""
    memory = settled()
    memory.arena_asked_bytes = GRANULE_BYTES
    assert not memory.is_settled


def test_who_lacks_host_memory_does_not_rest() -> None:
    """For what it may allocate in all, whatever it has of that."""
    memory = settled()
    memory.admitted_bytes = GRANULE_BYTES + 1
    memory.tell(0, 0.0)
    assert not memory.is_settled


def test_what_was_spared_was_not_copied() -> None:
    """Of three that left two had their copies already; it counts up, and more than left was not spared."""
    memory = Memory(Backend.SWAP, 4)
    memory.report(ResidencyReported(1, 0, 6, 6, out_bytes=0, spared_bytes=5), 0.0)
    assert memory.report(ResidencyReported(1, 0, 6, 3, out_bytes=3, spared_bytes=7), 0.0) == (0, 1)
    assert memory.report(ResidencyReported(1, 0, 6, 2, out_bytes=4, spared_bytes=9), 0.0) == (0, 0)
    assert (memory.left_bytes, memory.spared_bytes) == (1, 9)


def test_what_it_gave_back_it_has_no_more() -> None:
    """What it was sent and has not heard of it still has; what went back before it came here was never counted."""
    memory = Memory(Backend.SWAP, 4)
    memory.report(ResidencyReported(1, 0, 4, 4, arena_bytes=6, returned_bytes=9), 0.0)
    memory.arena_grown(3)
    memory.report(ResidencyReported(1, 0, 4, 4, arena_bytes=6, returned_bytes=9), 0.0)
    assert memory.arena_bytes == 9
    memory.report(ResidencyReported(1, 0, 4, 4, arena_bytes=4, returned_bytes=11), 0.0)
    assert memory.arena_bytes == 7
    memory.report(ResidencyReported(1, 0, 4, 4, arena_bytes=7, returned_bytes=11), 0.0)
    assert memory.arena_bytes == 7


def test_it_gives_back_no_more_than_it_has() -> None:
    """Whatever it says."""
    memory = Memory(Backend.SWAP, 4)
    memory.report(ResidencyReported(1, 0, 4, 4, arena_bytes=6), 0.0)
    memory.report(ResidencyReported(1, 0, 4, 4, arena_bytes=0, returned_bytes=8), 0.0)
    assert memory.arena_bytes == 0
