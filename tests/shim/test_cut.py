"""Cuts of gangs on simulated GPUs: jobs whose kernels wait for each other, and a scheduler that stops all of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.protocol import gang as gang_layout
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.gang_job import Job, by_rank, check_stopped, ends_drain, entered, orders, reached, start_two
from tests.shim.gang_scheduler import GangScheduler, expect_late
from tests.shim.programs import gang_member

LAYOUTS = {
    "two": [["0:0"], ["1:1"]],
    "three": [["0:0"], ["1:1"], ["2:2"]],
    "four": [["0:0"], ["1:1"], ["2:2"], ["3:3"]],
    "one process, one thread": [["0:0", "1:1"]],
    "one process, two threads": [["0:0", "1:1", "threads=1"]],
    "rank 0 submits more": [["0:0", "extra=3"], ["1:1"]],
    "mostly idle": [["0:0", "think=3000"], ["1:1", "think=3000"]],
}


@pytest.mark.soak
@pytest.mark.parametrize("name", LAYOUTS)
def test_cuts_under_load(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, tmp_path: Path, name: str
) -> None:
    """A job is stopped and goes on many times, at whatever place it is, and computes the same; none stays open."""
    layout = LAYOUTS[name]
    ranks = sum(":" in word for words in layout for word in words)
    job, gang = start_job(ranks), GangScheduler(fake_scheduler)
    for words in layout:
        job.start(*words)
    gang.gather(ranks)
    gang.grant()
    for _ in range(100):
        job.runs(5)
        gang.cut()
        gang.grant()
    job.finish()
    check_stopped(tmp_path, ranks, gang.stopped)


def test_a_rank_alone_waits(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """The kernels do what gangs are for: with one of its devices a job stands still, and does not give that back."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    job.start("0:0")
    job.start("1:1")
    gang.peers = [fake_scheduler.register(), fake_scheduler.register()]
    for peer in gang.peers:
        peer.expect_wanting()
    gang.peers[0].grant()
    first = by_rank(job, gang).index(gang.peers[0])
    poll_until(lambda: job.words[first * 4] == 1, "its kernel runs")
    gang.peers[0].revoke()
    while not isinstance(frame := gang.peers[0].receive(), wire.DrainReport):
        assert not isinstance(frame, wire.LockReleased)
    assert job.words[(1 - first) * 4] == 0
    gang.peers[1].grant()
    expect_late(gang.peers[0], wire.LockReleased)


def test_a_member_that_hears_late_that_it_has_the_lock(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler
) -> None:
    """One member stops already when the other one hears of its lock, and of its end: they stop together then."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    job.start("0:0")
    job.start("1:1")
    gang.gather(2)
    for peer in gang.peers:
        peer.expect_wanting()
    first, second = gang.peers
    first.grant()
    kernel = by_rank(job, gang).index(first)
    poll_until(lambda: job.words[kernel * 4] == 1, "its kernel runs")
    first.revoke()
    while not isinstance(first.receive(), wire.DrainReport):
        pass
    second.grant()
    second.revoke()
    assert [ends_drain(peer) for peer in gang.peers] == [True, True], "at the first attempt"
    gang.grant()
    job.finish()


@pytest.mark.parametrize("slot", [0, 1])
def test_a_member_that_hears_late_is_waited_for(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, slot: int
) -> None:
    """Both have the lock, and one hears of it when the other one is to stop already, which has nothing to wait for.

    If that one stopped by itself, what the late one submits would wait for it in vain.
    """
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang, "hold=21", of_both="hold=21")
    reached(job, 21)
    gang.cut()
    early, late = gang.peers[slot], gang.peers[1 - slot]
    for each in range(2):
        gang_layout.count_grant(gang.page, each)
    early.grant()
    early.revoke()
    poll_until(lambda: entered(gang, slot), "it waits for the other one")
    job.words[gang_member.HELD] = 1
    late.grant()
    rank = by_rank(job, gang).index(late)
    poll_until(lambda: job.words[rank * 4] == 21, "its kernel runs")
    late.revoke()
    assert [ends_drain(peer) for peer in gang.peers] == [True, True], "at the first attempt"
    gang.grant()
    job.finish()


def test_far_behind(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """A rank that comes to its gate late catches up in one go, with few commands for many submissions."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang, "hold=101")
    poll_until(lambda: job.submitted[0] == 100 and job.submitted[1] >= 145, "one runs ahead", timeout=30)
    gang.revoke()
    poll_until(lambda: entered(gang, 0) and entered(gang, 1), "both stop")
    job.words[gang_member.HELD] = 1
    gang.expect_released()
    assert job.submitted[0] >= 140
    assert orders(gang) < 30
    gang.grant()
    job.finish()


def test_idle_members(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """Members that do nothing say that they are idle, keep the lock, and give it back when told.

    That needs no command but the end, which ``test_lead.py`` shows in a time of its own: here a member or a device that
    gets no processor for a while looks as if it had work, and the others are offered steps for that.
    """
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang, of_both="hold=51")
    reached(job, 51)
    for peer in gang.peers:
        peer.send(wire.Waiters(1, 20_000))
    for peer in gang.peers:
        for _ in range(3):
            expect_late(peer, wire.Idle)
    gang.revoke()
    assert [ends_drain(peer) for peer in gang.peers] == [True, True], "at the first attempt"
    job.words[gang_member.HELD] = 1
    gang.grant()
    job.finish()
