"""What one client was told and has told, by itself: bytes are small numbers here."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Backend, GrowthRequested, ResidencyReported
from nvshare.scheduler.core.records.account import Account
from nvshare.scheduler.core.records.swap import CONTEXT_KNOWN_SECONDS, Swap


def client(footprint: int = 10, resident: int = 10, allotted: int = 10) -> Swap:
    """One that has said what it has, and goes by what it was told."""
    swap = Swap(1, Account(Backend.SWAP, footprint, 0), resident, footprint, allotted)
    reports(swap)
    return swap


def reports(
    swap: Swap,
    order: int | None = None,
    footprint: int = 10,
    fixed: int = 0,
    admitted: int = 10,
    arena: int = 0,
    usable: int = 0,
    now: float = 0.0,
) -> None:
    """It says what it has; unless said otherwise it goes by the newest order."""
    newest = swap.order if order is None else order
    resident = min(swap.resident_bytes, footprint)
    swap.report(ResidencyReported(1, newest, footprint, resident, fixed, admitted, arena, usable), now)


def test_what_it_goes_by_is_what_it_said() -> None:
    """The newest order that it named."""
    swap = client()
    swap.allot(8, 0, 0.0)
    swap.allot(9, 0, 0.0)
    reports(swap, order=1)
    assert (swap.going_by, swap.order) == (1, 2)
    assert swap.charge_bytes == 10, "it has as much"


def test_no_more_is_usable_than_there_is() -> None:
    """Of host memory; whatever it says."""
    swap = client()
    reports(swap, arena=4, usable=6)
    assert swap.usable_bytes == 4


def test_what_is_admitted_follows_the_newest_order() -> None:
    """What it says by an older one does not know what it was given; and what it has it was admitted."""
    swap = client()
    swap.grow(20, 0, 0.0)
    swap.allot(10, 0, 0.0)
    reports(swap, order=0, admitted=10)
    assert swap.admitted_bytes == 20
    reports(swap, order=0, footprint=25, admitted=10)
    assert swap.admitted_bytes == 25
    reports(swap, order=1, footprint=12, admitted=5)
    assert swap.admitted_bytes == 12
    swap.grow(11, 0, 0.0)
    assert swap.admitted_bytes == 12, "a growth takes nothing away"


def test_unmovable_memory_counts_as_granted_until_it_goes_by_that() -> None:
    """5 were granted: until it has read that it may come to use them; then it has what it says, and asks for more."""
    swap = client()
    swap.grow(10, 5, 0.0)
    swap.allot(10, 0, 0.0)
    reports(swap, order=0, fixed=2)
    assert swap.fixed_bytes == 5
    reports(swap, fixed=2)
    assert swap.fixed_bytes == 2
    swap.grow(10, 4, 0.0)
    swap.allot(10, 0, 0.0)
    assert swap.fixed_bytes == 4
    reports(swap, order=1, fixed=3)
    assert swap.fixed_bytes == 4
    reports(swap, order=1, fixed=7)
    assert swap.fixed_bytes == 7, "more than it was granted"
    reports(swap, fixed=2)
    assert swap.fixed_bytes == 2


def test_a_growth_is_under_way_until_it_goes_by_its_grant() -> None:
    """Or for longer, if it has asked for the next one."""
    swap = client()
    swap.account.growing_bytes = 20
    swap.grow(20, 0, 0.0)
    swap.allot(20, 0, 0.0)
    reports(swap, order=0)
    assert swap.account.growing_bytes == 20
    swap.growth = GrowthRequested(1, 2, 30, 0)
    reports(swap)
    assert swap.account.growing_bytes == 20
    swap.growth = None
    reports(swap)
    assert swap.account.growing_bytes == 0


def test_the_first_growth_makes_the_context() -> None:
    """Its size may come to be known for a while, or is known."""
    swap = client()
    swap.has_context = False
    assert not swap.makes_context(0.0)
    swap.growth = GrowthRequested(1, 1, 10, 0)
    assert swap.makes_context(0.0)
    swap.grow(10, 0, 3.0)
    swap.grow(11, 0, 5.0)
    assert swap.context_at == 3.0
    assert swap.makes_context(3.0)
    assert not swap.makes_context(3.0 + CONTEXT_KNOWN_SECONDS)
    swap.account.pinned_measured = True
    assert not swap.makes_context(3.0)


def test_who_has_said_nothing_goes_by_nothing_of_others() -> None:
    """Nor is it known to be in."""
    swap = Swap(1, Account(Backend.SWAP, 10, 0), 4, 10, 10)
    assert not swap.goes_by_others
    assert not swap.may_be_in
    swap.report(ResidencyReported(1, 0, 10, 4), 0.0)
    assert swap.goes_by_others


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
    swap = client(footprint, resident, allotted)
    assert swap.is_moving is moves
    assert swap.snapshot(0.0).in_bytes == max(0, min(footprint, allotted) - resident)
    swap.allot(allotted, 0, 7.0)
    assert swap.progress_at == (0.0 if moves else 7.0)
    swap.allot(allotted, 0, 9.0)
    assert swap.progress_at == (0.0 if moves else 7.0), "it has not even read the last one"
    reports(swap, now=11.0)
    assert swap.progress_at == 11.0
