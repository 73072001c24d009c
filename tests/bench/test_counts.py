"""What the benchmarks on a GPU count."""

from __future__ import annotations

import pytest

from bench.gpu.running.counts import Largest, Swaps, changes
from nvshare.admin import admin_pb2

SECOND = 1_000_000_000


def test_changes_of_hands() -> None:
    """Each hand-over counts once, from the last kernel of the one to the first of the other; a beginning alone is none.

    The second program waits from 1 s, before which it ran nothing, until the first one's last kernel has ended at 3 s
    and its own memory is there at 3.3 s. At 5 s it goes the other way. The first one ends its work before 7 s.
    """
    first = [(3 * SECOND, 5_400_000_000)]
    second = [(1 * SECOND, 3_300_000_000), (5 * SECOND, 7 * SECOND)]
    assert sorted(changes(first, second)) == pytest.approx([0.3, 0.4])


def status(*swapped: int) -> admin_pb2.Status:
    """One device, whose clients have so much swapped out."""
    clients = [
        admin_pb2.Client(pid=pid, swap=admin_pb2.Swap(swapped_bytes=count)) for pid, count in enumerate(swapped, 1)
    ]
    return admin_pb2.Status(devices=[admin_pb2.Device(clients=clients)])


def test_swaps_of_each_client() -> None:
    """A swap is counted when all is back, not for each step of a transfer, and not at the beginning."""
    swaps = Swaps()
    for each in ((0, 9), (5, 4), (9, 0), (4, 0), (0, 3), (0, 9), (7, 0), (7, 0)):
        swaps.see(status(*each))
    assert swaps.counts == {1: 1, 2: 2}
    assert swaps.all() == 3


def test_largest_of_all_statuses() -> None:
    """The most of one client at any time counts; what a context takes only where it was measured."""
    largest = Largest()
    for footprint, fixed, pinned in ((7, 2, 0), (12, 3, 5), (4, 4, 0)):
        client = admin_pb2.Client(footprint_bytes=footprint, swap=admin_pb2.Swap(fixed_bytes=fixed))
        client.pinned_bytes, client.pinned_measured = pinned or 99, bool(pinned)
        largest.see(admin_pb2.Status(devices=[admin_pb2.Device(clients=[admin_pb2.Client(), client])]))
    assert (largest.movable, largest.fixed, largest.pinned) == (9, 4, 5)
