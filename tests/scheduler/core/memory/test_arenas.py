"""How host memory is shared out."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nvshare.scheduler.core.events import DeviceSeen, ResidentRecorded, ResidentSettled
from nvshare.scheduler.core.records.arenas import GRANULE_BYTES, Arena, can_leave, fill
from tests.scheduler.core.memory.swap_transcript import GIB, TOTAL, Table

ARENAS = st.lists(
    st.builds(
        lambda have, useful: Arena(have * GRANULE_BYTES, useful * GRANULE_BYTES), st.integers(0, 60), st.integers(0, 99)
    ),
    max_size=8,
)


@given(ARENAS, st.integers(0, 800).map(lambda granules: granules * GRANULE_BYTES))
def test_the_level(arenas: list[Arena], budget_bytes: int) -> None:
    """None shrinks, none grows past what is of use or past the budget, and no granule more would be possible."""
    filled = fill(arenas, budget_bytes - sum(arena.bytes for arena in arenas))
    grown = [after.bytes - before.bytes for before, after in zip(arenas, filled, strict=True)]
    assert all(more >= 0 for more in grown)
    assert all(
        after.bytes <= max(after.useful_bytes, before.bytes) for before, after in zip(arenas, filled, strict=True)
    )
    had = sum(arena.bytes for arena in arenas)
    assert sum(arena.bytes for arena in filled) <= max(had, budget_bytes)
    level = max((after.bytes for more, after in zip(grown, filled, strict=True) if more), default=0)
    below = [arena for arena in filled if arena.bytes < arena.useful_bytes]
    assert all(arena.bytes >= level for arena in below), "somebody got more than one who could use it as well"
    if below:
        lowest = min(arena.bytes for arena in below)
        one_more = sum(arena.bytes == lowest for arena in below)
        assert sum(arena.bytes for arena in filled) + one_more * GRANULE_BYTES > budget_bytes


def test_what_can_leave_for_the_one_with_the_largest_arena() -> None:
    """Its own arena is of no use then, and neither is more than a client has."""
    assert can_leave([Arena(4 * GIB, 8 * GIB), Arena(2 * GIB, 2 * GIB), Arena(9 * GIB, GIB)]) == 3 * GIB
    assert can_leave([]) == 0


def test_none_is_made_before_recorded_clients_are_back() -> None:
    """On any device: nobody knows how much of the budget those have that are not back."""
    table = Table(host=4)
    table.feed(DeviceSeen("GPU-b", TOTAL * GIB))
    table.feed(ResidentRecorded("GPU-b", 1))
    table.comes("A", 12, arena=0)
    assert not [said for said in table.comes("B", 12, 3, arena=3) if said.startswith("arena")]
    assert table.feed(ResidentSettled(1)) == ["arena A 1"]
    assert table.core.host_memory().used_bytes == 4 * GIB


@given(st.lists(st.integers(1, 32), min_size=1), st.integers(0, 400), st.randoms())
def test_what_surely_leaves(chunks: list[int], granules: int, chance: Random) -> None:
    """In whichever order chunks leave until none fits any more: all of them, or no less than is counted on."""
    arena = Arena(granules * GRANULE_BYTES, sum(chunks) * GRANULE_BYTES)
    chance.shuffle(chunks)
    left = granules
    for chunk in chunks:
        left -= chunk if chunk <= left else 0
    assert (granules - left) * GRANULE_BYTES >= arena.takes_bytes
