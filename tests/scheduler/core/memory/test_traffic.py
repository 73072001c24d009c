"""What is known of transfers from what clients tell."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.memory.traffic import ASSUMED_BYTES_PER_SECOND, Traffic
from tests.scheduler.core.memory.swap_transcript import GIB, Table

CHUNK = 64 << 20


def test_the_rate_of_a_transfer() -> None:
    """Chunk after chunk at 10 ms: the first one began nobody knows when."""
    traffic = Traffic()
    for number in range(10):
        traffic.told(1, 0, CHUNK, number * 0.01)
    seen = traffic.snapshot()
    assert seen.out_bytes == 10 * CHUNK
    assert seen.out_seconds == pytest.approx(0.09)
    assert seen.out_bytes_per_second == pytest.approx(CHUNK / 0.01)
    assert traffic.seconds(CHUNK) == pytest.approx(0.01)


def test_what_hinders_is_no_slow_link() -> None:
    """Who prepares host memory, or waits for room, moves slowly; the quantum must not follow that."""
    traffic = Traffic()
    for number in range(10):
        traffic.told(1, 0, CHUNK, number * 0.09, prepares=number < 5)
    assert traffic.snapshot().out_bytes == 10 * CHUNK
    assert traffic.snapshot().out_bytes_per_second == pytest.approx(CHUNK / 0.09)
    for number in range(10):
        traffic.told(2, CHUNK, 0, 10 + number * 0.01)
    assert traffic.seconds(CHUNK) == pytest.approx(0.01)


def test_before_anything_was_measured() -> None:
    """A rate that is rather too low: too long a quantum costs nobody anything."""
    assert Traffic().seconds(int(ASSUMED_BYTES_PER_SECOND)) == 1.0


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
        traffic.told(1, 0, CHUNK, moment)
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
        traffic.told(1, 0, out, number * 10.0)
        traffic.vacant(number * 10.0 + 5)
        traffic.told(1, out, 0, number * 10.0 + 5, prepares=prepares)
        traffic.granted(number * 10.0 + 5 + stall, swaps=True)
    assert traffic.seconds(out) == pytest.approx(0.4)


def rate_out(*moments: float, client: int = 1) -> float:
    """What is measured if a chunk leaves at each of these."""
    traffic = Traffic()
    for moment in moments:
        traffic.told(client, 0, CHUNK, moment)
    return traffic.snapshot().out_bytes_per_second


def test_what_others_moved_meanwhile_is_no_slow_transfer() -> None:
    """The time between chunks of two clients is nobody's."""
    traffic = Traffic()
    for number in range(10):
        traffic.told(number % 2, 0, CHUNK, number * 0.01)
    assert traffic.snapshot().out_seconds == 0


@pytest.mark.parametrize("out", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_hindered_transfers_tell_nothing_of_the_link(out: bool, waits: bool) -> None:
    """Five slow chunks while the client waits for room or prepares host memory, five at the speed of the link."""
    traffic, now = Traffic(), 0.0
    came, left = (0, CHUNK) if out else (CHUNK, 0)
    for number in range(11):
        hindered = 1 <= number <= 5
        now += 0.018 if hindered else 0.01
        traffic.told(1, came, left, now, waits=hindered and waits, prepares=hindered and not waits)
    seen = traffic.snapshot()
    rate = seen.out_bytes_per_second if out else seen.in_bytes_per_second
    assert rate == pytest.approx(CHUNK / 0.01)


def test_the_rate_is_that_of_late() -> None:
    """The link became twice as fast ten seconds ago."""
    moments = [number * 0.02 for number in range(500)]
    moments += [moments[-1] + (number + 1) * 0.01 for number in range(1000)]
    assert rate_out(*moments) == pytest.approx(CHUNK / 0.01, rel=0.02)


def test_what_is_told_at_one_moment_has_moved_until_then() -> None:
    """Two chunks in 10 ms."""
    assert rate_out(0.0, 0.01, 0.01, 0.02, 0.02) == pytest.approx(2 * CHUNK / 0.01)


def test_a_moment_is_no_measurement() -> None:
    """Two messages that were read together say nothing."""
    assert rate_out(0.0, 0.001) == 0


def test_small_hand_overs_tell_nothing() -> None:
    """One chunk in a second: most of that was something else."""
    traffic = Traffic()
    traffic.vacant(0.0)
    traffic.told(1, CHUNK, 0, 1.0)
    traffic.granted(1.0, swaps=True)
    assert traffic.seconds(int(ASSUMED_BYTES_PER_SECOND)) == 1.0
    assert traffic.seconds(-CHUNK) == 0


def test_small_pieces_tell_no_rate() -> None:
    """Two MiB take as long as a message does, whatever the link."""
    traffic = Traffic()
    for number in range(10):
        traffic.told(1, 0, 2 << 20, number * 0.01)
    assert traffic.snapshot().out_bytes_per_second == 0


def test_a_hand_over_is_not_taken_for_far_slower_than_the_link() -> None:
    """Ten seconds for two chunks of 10 ms: something else held it up."""
    traffic = Traffic()
    for number in range(9):
        traffic.told(1, 0, CHUNK, number * 0.01)
    traffic.vacant(1.0)
    for number in range(8):
        traffic.told(2, CHUNK, 0, 11 - 0.01 * (8 - number))
    traffic.granted(11.0, swaps=True)
    assert traffic.seconds(CHUNK) == pytest.approx(4 * 0.01)
