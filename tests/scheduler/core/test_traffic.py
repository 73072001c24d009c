"""What is known of transfers from what clients tell."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.traffic import ASSUMED_BYTES_PER_SECOND, Traffic
from tests.scheduler.core.swap_transcript import GIB, Table

CHUNK = 64 << 20


def test_the_rate_of_a_transfer() -> None:
    """Chunk after chunk at 10 ms: the first one began nobody knows when."""
    traffic = Traffic()
    for number in range(10):
        traffic.told(1, (0, 0), (CHUNK * number, CHUNK * (number + 1)), number * 0.01)
    seen = traffic.snapshot()
    assert seen.out_bytes == 10 * CHUNK
    assert seen.out_seconds == pytest.approx(0.09)
    assert seen.out_bytes_per_second == pytest.approx(CHUNK / 0.01)
    assert traffic.seconds(CHUNK) == pytest.approx(0.01)


def test_what_hinders_is_no_slow_link() -> None:
    """Who prepares host memory, or waits for room, moves slowly; the quantum must not follow that."""
    traffic = Traffic()
    for number in range(10):
        moved = CHUNK * number, CHUNK * (number + 1)
        traffic.told(1, (0, 0), moved, number * 0.09, prepares=number < 5)
    assert traffic.snapshot().out_bytes == 10 * CHUNK
    assert traffic.snapshot().out_bytes_per_second == pytest.approx(CHUNK / 0.09)
    for number in range(10):
        traffic.told(2, (0, 0), (CHUNK * (10 - number), CHUNK * (9 - number)), 10 + number * 0.01)
    assert traffic.seconds(CHUNK) == pytest.approx(0.01)


def test_before_anything_was_measured() -> None:
    """A rate that is rather too low: too long a quantum costs nobody anything."""
    assert Traffic().seconds(int(ASSUMED_BYTES_PER_SECOND)) == 1.0


def test_what_was_freed_did_not_come_in() -> None:
    """Half of what is copied out no more was freed."""
    traffic = Traffic()
    traffic.told(1, (4 * CHUNK, 3 * CHUNK), (2 * CHUNK, 0), 0.0)
    assert traffic.snapshot().in_bytes == CHUNK


def test_what_is_on_the_way_in_is_shown_as_coming() -> None:
    """It has device memory already, but nothing of it has come in; the parts add up to the footprint all the time."""
    table = Table()
    table.comes("A", 10, 4)
    table.asks("A")
    for resident, out, coming in ((4, 6, 6), (8, 6, 6), (8, 2, 2), (10, 2, 2), (10, 0, 0)):
        table.has("A", 10, resident, out=out)
        (device,) = table.core.snapshot(0.0)
        shown = device.clients[0].swap
        assert shown is not None
        assert (shown.resident_bytes, shown.out_bytes) == (resident * GIB, (10 - resident) * GIB)
        assert (shown.in_bytes, device.traffic.in_bytes) == (coming * GIB, (6 - coming) * GIB)


def test_a_pause_is_no_transfer() -> None:
    """Two transfers of one client, a second apart, are not one slow one."""
    traffic = Traffic()
    for moment in (0.0, 0.01, 1.0, 1.01):
        traffic.told(1, (0, 0), (0, CHUNK), moment)
    assert traffic.snapshot().out_bytes_per_second == pytest.approx(CHUNK / 0.01)


def test_hand_overs() -> None:
    """One that waited 0.2 s, one for which all was there, and one to a client that does not swap."""
    traffic = Traffic()
    for gap, swaps in ((0.2, True), (0.0, True), (1.0, False)):
        traffic.vacant(5.0)
        traffic.granted(5.0 + gap, swaps=swaps)
    traffic.granted(9.0, swaps=True)
    seen = traffic.snapshot()
    assert (seen.stalls, seen.prefetched) == (2, 1)
    assert seen.stall_seconds == pytest.approx(0.2)


def test_what_a_hand_over_costs() -> None:
    """Both directions at once are slower than one; of the last hand-overs the fastest counts."""
    traffic = Traffic()
    out = 64 * CHUNK
    for number, (stall, prepares) in enumerate(((0.1, True), (2.0, False), (0.4, False), (0.5, False))):
        traffic.told(1, (0, 0), (0, out), number * 10.0)
        traffic.vacant(number * 10.0 + 5)
        traffic.told(1, (0, 0), (out, 0), number * 10.0 + 5, prepares=prepares)
        traffic.granted(number * 10.0 + 5 + stall, swaps=True)
    assert traffic.seconds(out) == pytest.approx(0.4)
