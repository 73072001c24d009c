"""What members of a gang do with the page that they share, when another one writes what it should not."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.protocol import gang as gang_layout
from nvshare.protocol import wire
from tests.c_parts import ffi, lib
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.gang_job import Job, by_rank, ends_drain, entered, start_two
from tests.shim.gang_scheduler import GangScheduler, expect_late, page_file, send_page
from tests.shim.programs import gang_member
from tests.stopping import stop


@pytest.fixture
def job(start_job: Callable[[int], Job]) -> Job:
    """A job of two ranks, without processes."""
    return start_job(2)


@pytest.fixture
def gang(job: Job, fake_scheduler: FakeScheduler) -> GangScheduler:
    """Its gang: rank 0 has stopped before a round, rank 1 runs ahead, and both are told to leave."""
    gang = GangScheduler(fake_scheduler)
    start_two(job, gang, "hold=101")
    poll_until(lambda: job.submitted[0] == 100 and job.submitted[1] >= 145, "one runs ahead", timeout=30)
    gang.revoke()
    poll_until(lambda: entered(gang, 0) and entered(gang, 1), "both stop")
    for peer in gang.peers:
        peer.connection.settimeout(40)
    return gang


def slot_of(job: Job, gang: GangScheduler, rank: int) -> int:
    """The slot of a rank that has a process of its own."""
    return gang.peers.index(by_rank(job, gang)[rank])


def command(gang: GangScheduler, slot: int, revision: int, order: int, allowed: int = 0) -> None:
    """Gives a member a command, until it follows it."""
    raw = ffi.from_buffer("struct nvs_gang_page *", gang.page)
    written = raw.commands[slot]

    def follows() -> bool:
        if raw.statuses[slot].revision == revision:
            return True
        written.version = 0
        written.entry, written.order, written.allowed = raw.statuses[slot].entry, order, allowed
        written.most_ns = written.overdue_ns = 2**64 - 1
        written.version = revision
        return False

    poll_until(follows, "it follows", interval=0.0001)


def said_again(gang: GangScheduler, slot: int, times: int = 20) -> None:
    """Waits until a member has said so often how far it is."""
    status = ffi.from_buffer("struct nvs_gang_page *", gang.page).statuses[slot]
    before = status.version
    poll_until(lambda: status.version > before + times, "it goes on")


@pytest.mark.parametrize("allowed", [1 << 20, 2**64 - 1])
def test_more_than_any_leader_allows(job: Job, gang: GangScheduler, allowed: int) -> None:
    """Such a command lets nothing pass, and the job goes on."""
    slot = slot_of(job, gang, 0)
    status = ffi.from_buffer("struct nvs_gang_page *", gang.page).statuses[slot]
    command(gang, slot, 1 << 40, lib.NVS_GANG_FREEZE)
    command(gang, slot, 1 << 41, lib.NVS_GANG_ALLOW, allowed)
    said_again(gang, slot)
    assert (status.taken, status.left) == (0, 0)
    job.words[gang_member.HELD] = 1
    gang.expect_released()
    gang.grant()
    job.finish()


def test_what_is_taken_back_can_not_pass(job: Job, gang: GangScheduler) -> None:
    """Submissions that were allowed, and that nobody has made, are none that passed, and don't pass later."""
    slot = slot_of(job, gang, 0)
    status = ffi.from_buffer("struct nvs_gang_page *", gang.page).statuses[slot]
    command(gang, slot, 1 << 40, lib.NVS_GANG_FREEZE)
    command(gang, slot, 1 << 41, lib.NVS_GANG_ALLOW, 50)
    poll_until(lambda: status.left == 50, "they are allowed")
    command(gang, slot, 1 << 42, lib.NVS_GANG_FREEZE)
    poll_until(lambda: not status.left, "they are taken back")
    job.words[gang_member.HELD] = 1
    said_again(gang, slot, 200)
    assert status.taken == 0
    gang.expect_released()
    gang.grant()
    job.finish()


def test_what_is_left_of_an_attempt(job: Job, gang: GangScheduler) -> None:
    """What might still have passed when an attempt ended does not count in the next one."""
    slot = slot_of(job, gang, 0)
    raw = ffi.from_buffer("struct nvs_gang_page *", gang.page)
    status = raw.statuses[slot]
    command(gang, slot, 1 << 40, lib.NVS_GANG_ALLOW, status.taken + status.left + 50)
    poll_until(lambda: status.left >= 50, "they are allowed")
    entry, raw.absent = status.entry, 1 << slot
    assert not ends_drain(gang.peers[slot])
    raw.absent = 0
    poll_until(lambda: status.entry > entry and entered(gang, slot), "it tries again", timeout=30)
    said_again(gang, slot, 5)
    assert status.taken == 0
    job.words[gang_member.HELD] = 1
    gang.expect_released()
    gang.grant()
    job.finish()


def mapped(job: Job, rank: int) -> int:
    """How many pages of gangs a rank's process has."""
    return Path(f"/proc/{job.processes[rank].pid}/maps").read_text().count("memfd:gang")


@pytest.mark.usefixtures("gang")
def test_a_child_has_no_page(job: Job) -> None:
    """The page is not copied into a forked child, which is no member."""
    maps = Path(f"/proc/{job.processes[0].pid}/smaps").read_text().partition("memfd:gang")[2]
    assert "dc" in maps.partition("VmFlags:")[2].partition("\n")[0].split()


def test_who_lets_something_pass_says_so(job: Job, gang: GangScheduler) -> None:
    """The scheduler hears of the first submission that a member lets through."""
    job.words[gang_member.HELD] = 1
    behind = by_rank(job, gang)[0]
    while not isinstance(frame := behind.receive(), wire.DrainReport):
        assert not isinstance(frame, wire.LockReleased)
    assert frame.drain is wire.Drain.STEPPING
    gang.expect_released()


def test_old_pages_are_left(job: Job, gang: GangScheduler) -> None:
    """New pages that come in the middle of a cut change nothing in it; afterwards each has the newest one alone."""
    for _ in range(5):
        gang.form()
    job.words[gang_member.HELD] = 1
    gang.expect_released()
    poll_until(lambda: mapped(job, 0) == mapped(job, 1) == 1, "it has one page")
    gang.grant()
    job.runs()
    for _ in range(5):
        gang.form()
    poll_until(lambda: mapped(job, 0) == mapped(job, 1) == 1, "it has one page")
    gang.cut()
    gang.grant()
    job.finish()


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_a_page_for_which_there_is_no_memory(
    start: Callable[..., ControlledProgram], fake_scheduler: FakeScheduler
) -> None:
    """A member that others would wait for in vain ends the connection instead; the next one brings it a page again."""
    program = start()
    peer = fake_scheduler.serve(program)
    page = page_file()
    os.pwrite(page, gang_layout.head(2), 0)
    limits = resource.prlimit(program.pid, resource.RLIMIT_AS)
    resource.prlimit(program.pid, resource.RLIMIT_AS, (1, limits[1]))
    send_page(peer, page, 0, 2)
    assert hung_up(peer)
    resource.prlimit(program.pid, resource.RLIMIT_AS, limits)
    peer = fake_scheduler.register()
    send_page(peer, page, 0, 2)
    maps = Path(f"/proc/{program.pid}/maps")
    poll_until(lambda: "memfd:gang" in maps.read_text(), "it has the page")
    os.close(page)


def test_a_leader_that_only_speaks(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """It says something all the time and orders nothing: a minute later the others open their gates.

    One of them has completed, and the other one's work has not, while its thread waits.
    """
    job, gang = start_job(3), GangScheduler(fake_scheduler)
    for rank, options in enumerate(("hold=101", "hold=101", "think=2000")):
        job.start(f"{rank}:{rank}", options)
    gang.peers = [fake_scheduler.register() for _ in range(3)]
    gang.peers = by_rank(job, gang)
    gang.form()
    gang.grant()
    poll_until(lambda: job.submitted[:2] == [100, 100] and job.submitted[2] >= 105, "one runs ahead", timeout=30)
    stop(job.processes[0].pid)
    for peer in gang.peers[1:]:
        peer.connection.settimeout(1)
        peer.revoke()
    leader = ffi.from_buffer("struct nvs_gang_page *", gang.page).statuses[0]
    ended: dict[int, bool] = {}

    def both_ended() -> bool:
        leader.version, leader.flags = leader.version + 1, lib.NVS_GANG_RUNS | lib.NVS_GANG_IN
        for slot in {1, 2} - set(ended):
            try:
                frame = gang.peers[slot].receive()
            except TimeoutError:
                continue
            if isinstance(frame, wire.LockReleased):
                ended[slot] = True
            elif isinstance(frame, wire.DrainReport) and frame.drain is wire.Drain.PUT_OFF:
                ended[slot] = False
        return len(ended) == 2

    poll_until(both_ended, "both have stopped waiting", timeout=100)
    assert ended == {1: False, 2: False}
    job.processes[0].send_signal(signal.SIGCONT)
    job.words[gang_member.HELD] = 1
    gang.peers[0].revoke()
    for peer in gang.peers:
        peer.connection.settimeout(60)
        expect_late(peer, wire.LockReleased)
    gang.grant()
    job.finish()


def test_a_member_without_the_lock(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """Nothing of it can run, so nobody waits for it, as soon as it has said so in the page."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    for rank in range(2):
        job.start(f"{rank}:{rank}", "hold=1")
    gang.gather(2)
    gang.peers[0].grant()
    gang.peers[0].revoke()
    assert ends_drain(gang.peers[0])
