"""The free granules of an arena against a set."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.c_parts import ffi, lib

PIECE: int = lib.NVS_PIECE_GRANULES


def made(count: int) -> tuple[Any, Any]:
    """A set of so many granules, of which none is free; and its words, which have to live as long."""
    words = ffi.new("uint64_t[]", (count + 63) // 64)
    return ffi.new("struct nvs_granules *", {"words": words, "count": count}), words


@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 199), st.integers(1, 40)), max_size=60),
)
def test_taken_and_free(count: int, steps: list[tuple[bool, bool, int, int]]) -> None:
    """What is taken was free and is not any more, in one run where there is one; too much takes nothing. What is
    withdrawn is not free any more."""
    granules, _words = made(count)
    free: set[int] = set()
    for frees, withdraws, first, size in steps:
        if frees:
            for granule in {granule % count for granule in range(first, first + size)} - free:
                lib.nvs_granules_free(granules, granule, 1)
                free.add(granule)
            continue
        if withdraws and set(range(first, first + size)) <= free:
            lib.nvs_granules_withdraw(granules, first, size)
            free -= set(range(first, first + size))
            assert granules.free == len(free)
            continue
        taken = ffi.new("uint32_t[]", size)
        assert lib.nvs_granules_take(granules, size, taken) == (len(free) >= size)
        if len(free) < size:
            continue
        runs = [start for start in free if free >= set(range(start, start + size))]
        assert set(taken) <= free
        assert list(taken) == sorted(set(taken))
        assert not runs or list(taken) == list(range(min(runs), min(runs) + size))
        free -= set(taken)
        assert granules.free == len(free)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=100, unique=True).map(sorted))
def test_runs(granules: list[int]) -> None:
    """A run ends where the next granule lies elsewhere, or in another piece."""
    run = lib.nvs_granules_run(granules, len(granules))
    inside = granules[:run]
    assert inside == list(range(granules[0], granules[0] + run))
    assert {granule // PIECE for granule in inside} == {granules[0] // PIECE}
    if run < len(granules):
        assert granules[run] != inside[-1] + 1 or granules[run] % PIECE == 0
