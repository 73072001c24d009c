"""What a client has done, as its meter counts it."""

from __future__ import annotations

from nvshare.scheduler.core.mix.meters import LEAST_BURST_SECONDS, Bursts


def test_idle_time_is_no_part_of_a_burst() -> None:
    """From the wish on, waits included, but not how long the client was idle before it gave way."""
    bursts = Bursts()
    bursts.wanted(1.0)
    bursts.came_at = 1.5
    bursts.released(10, 0.25, 2.0)
    assert (bursts.count, bursts.work, bursts.seconds, bursts.alone_seconds) == (1, 10, 0.75, 0.25)


def test_who_gives_way_sooner_than_it_was_told() -> None:
    """Its bursts take a little time each: nothing is divided by nothing, and no time is taken off others."""
    bursts = Bursts()
    for moment in (1.0, 2.0):
        bursts.wanted(moment)
        bursts.came_at = moment
        bursts.released(1, 0.25, moment + 0.01)
    assert bursts.mean_seconds == LEAST_BURST_SECONDS
    assert bursts.alone_seconds == 0.0
