"""Figures of what was swapped: bytes, time, rates, and the hand-overs that waited for it."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.traffic import RATE, Traffic

GIB = 1 << 30


def test_bytes_each_way() -> None:
    """What is copied out left; what is no more out came in, but for what was freed there."""
    traffic = Traffic()
    traffic.moved(0, 3 * GIB)
    traffic.moved(-GIB, -GIB)
    traffic.moved(-GIB, 0)
    traffic.moved(0, -GIB)
    traffic.moved(GIB, 0)
    assert (traffic.snapshot().out_bytes, traffic.snapshot().in_bytes) == (3 * GIB, GIB)


def test_seconds_in_which_something_moves() -> None:
    """From when it may move until it does no more; the pauses between are no part of the rate."""
    traffic = Traffic()
    traffic.count(10.0, comes=False, leaves=True)
    traffic.moved(0, GIB)
    traffic.count(10.25, comes=True, leaves=True)
    traffic.moved(0, GIB)
    traffic.count(10.5, comes=True, leaves=False)
    traffic.moved(0, -GIB)
    traffic.count(11.25, comes=False, leaves=False)
    traffic.count(99.0, comes=False, leaves=False)
    seen = traffic.snapshot()
    assert (seen.out_seconds, seen.in_seconds) == (0.5, 1.0)
    assert (seen.out_bytes_per_second, seen.in_bytes_per_second) == (4 * GIB, GIB)
    assert traffic.seconds(GIB) == pytest.approx(1.0)


def test_rate_before_enough_moved() -> None:
    """Small amounts are over before they are reported: they say nothing of the link."""
    traffic = Traffic()
    traffic.count(0.0, comes=True, leaves=False)
    traffic.moved(0, -(1 << 20))
    traffic.count(5.0, comes=False, leaves=False)
    assert traffic.snapshot().in_bytes_per_second == 0.0
    assert traffic.seconds(int(RATE)) == 1.0


def test_a_rate_is_that_of_late() -> None:
    """What was long ago counts less and less."""
    traffic = Traffic()
    now = 0.0
    for bytes_per_second in (1, 10):
        for _ in range(100):
            traffic.count(now, comes=True, leaves=False)
            traffic.moved(0, -GIB)
            now += 1 / bytes_per_second
    traffic.count(now, comes=False, leaves=False)
    assert traffic.snapshot().in_bytes_per_second == pytest.approx(10 * GIB, rel=0.05)
    assert traffic.snapshot().in_bytes == 200 * GIB


def test_stalls() -> None:
    """A hand-over counts where memory swaps and nobody else holds; without any time it was prefetched."""
    traffic = Traffic()
    traffic.granted(1.0, 1.5, alone=True, swaps=True)
    traffic.released(5.0)
    traffic.granted(2.0, 5.0, alone=True, swaps=True)
    traffic.released(10.0)
    traffic.granted(6.0, 10.25, alone=True, swaps=True)
    traffic.released(20.0)
    traffic.granted(11.0, 20.5, alone=True, swaps=False)
    traffic.released(30.0)
    traffic.granted(21.0, 30.5, alone=False, swaps=True)
    traffic.released(40.0)
    traffic.granted(41.0, 41.5, alone=True, swaps=True)
    seen = traffic.snapshot()
    assert (seen.stalls, seen.stall_seconds, seen.prefetched) == (2, 0.25, 1)
