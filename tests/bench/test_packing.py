"""What the benchmark of claims counts as memory that nobody can have."""

from __future__ import annotations

import pytest

from bench.dra.packing import Bin, best_fit, left


def test_best_fit_leaves_large_room_together() -> None:
    """A claim goes where it leaves least, so a larger one still fits; what is left then is too small for any."""
    bins = [Bin(10, shares=9), Bin(5, shares=9)]
    found = best_fit(bins, [4, 10, 3])
    assert (found.placed, found.pending, found.unusable_bytes) == (2, (3,), 1)
    assert found.without_share_bytes == 0


def test_a_gpu_without_a_share_takes_nothing() -> None:
    """However much memory it has: all of it counts, and as lost by shares."""
    found = best_fit([Bin(10, shares=1)], [4, 4])
    assert (found.placed, found.pending) == (1, (4,))
    assert (found.unusable_bytes, found.without_share_bytes) == (6, 6)


def test_nothing_is_unusable_while_something_fits() -> None:
    """Who asks too early gets no figure."""
    with pytest.raises(ValueError, match="1 pending claims still fit"):
        left([Bin(10, shares=1)], 0, [4, 11])


def test_no_gpu_is_overfilled() -> None:
    """That Kubernetes puts more on a GPU than it has would be seen."""
    with pytest.raises(ValueError, match="11 bytes do not fit"):
        Bin(10, shares=1).take(11)
