"""Cuts of gangs that don't go as they should: who is gone, what is waited for in vain, what the page says."""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.protocol import gang as gang_layout
from nvshare.protocol import wire
from tests.c_parts import ffi, lib
from tests.polling import poll_until
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.gang_job import Job, check_stopped, ends_drain, entered, reached, start_two
from tests.shim.gang_scheduler import SEALS, GangScheduler, page_file, send_page
from tests.shim.programs import gang_member
from tests.stopping import stop

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("leads", [True, False])
def test_a_member_that_is_gone(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, leads: bool) -> None:
    """One that is killed before it takes part is not waited for once the scheduler has said so."""
    job, gang = start_job(3), GangScheduler(fake_scheduler)
    for rank in range(3):
        job.start(f"{rank}:{rank}", "hold=51")
    gang.gather(3)
    gang.grant()
    reached(job, 51)
    slot = 0 if leads else 2
    victim = next(process for process in job.processes if process.pid == gang.peers[slot].register.pid)
    stop(victim.pid)
    gang.revoke()
    left = [peer for peer in gang.peers if peer is not gang.peers[slot]]
    poll_until(lambda: sum(entered(gang, other) for other in range(3)) == 2, "the others wait")
    victim.kill()
    victim.wait()
    gang_layout.mark_absent(gang.page, slot)
    gang.peers = left
    for peer in left:
        peer.connection.settimeout(5)
    gang.expect_released()


@pytest.mark.parametrize("leads", [True, False])
def test_a_member_that_nobody_misses(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, leads: bool
) -> None:
    """One that stops in the middle, while nobody says that it is gone: the others open their gates, and try again."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang, "hold=101")
    poll_until(lambda: job.submitted[0] == 100 and job.submitted[1] >= 145, "one runs ahead", timeout=30)
    gang.revoke()
    poll_until(lambda: entered(gang, 0) and entered(gang, 1), "both stop")
    slot = 0 if leads else 1
    victim = next(process for process in job.processes if process.pid == gang.peers[slot].register.pid)
    other = gang.peers[1 - slot]
    stop(victim.pid)
    assert not ends_drain(other)
    victim.send_signal(signal.SIGCONT)
    job.words[gang_member.HELD] = 1
    gang.expect_released()
    gang.grant()
    job.finish()


def test_the_scheduler_is_replaced_in_the_middle(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler
) -> None:
    """The members go on with their cut, and give the lock back to the next scheduler."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang, "hold=101")
    poll_until(lambda: job.submitted[0] == 100 and job.submitted[1] >= 145, "one runs ahead", timeout=30)
    gang.revoke()
    poll_until(lambda: entered(gang, 0) and entered(gang, 1), "both stop")
    fake_scheduler.die()
    fake_scheduler.listen()
    gang.peers = [fake_scheduler.register(2), fake_scheduler.register(2)]
    for peer in gang.peers:
        assert peer.register.state is wire.State.DRAINING
        peer.grants = peer.register.grant
    job.words[gang_member.HELD] = 1
    gang.expect_released()
    gang.form()
    gang.grant()
    job.runs()
    gang.cut()
    gang.grant()
    job.finish()


def test_what_comes_behind_the_order_to_leave(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """Members that hear right behind DROP_LOCK that they are in no gang any more leave by the page that they had.

    That is heard before the drain begins; and by itself none of them could end what waits for the other one.
    """
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang)
    for _ in range(5):
        job.runs(5)
        for peer in gang.peers:
            peer.connection.sendall(wire.encode(wire.DropLock(peer.grants)) + wire.encode(wire.Gang()))
        gang.expect_released()
        gang.form()
        gang.grant()
    job.finish()


def test_put_off_together(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Work that waits for what nobody in the gang can do: all hold again, and all leave at a later attempt."""
    job, gang = start_job(3), GangScheduler(fake_scheduler)
    job.start("0:0")
    job.start("1:1")
    gang.gather(2)
    gang.grant()
    poll_until(lambda: job.words[0] == job.words[4] == 1, "their kernels wait for the third rank")
    gang.revoke()
    assert [ends_drain(peer) for peer in gang.peers] == [False, False]
    third = threading.Thread(target=play_rank, args=(job, 2), daemon=True)
    third.start()
    gang.expect_released()
    check_stopped(tmp_path, 2, [(gang.stopped_at, time.monotonic_ns())])


def play_rank(job: Job, rank: int) -> None:
    """Meets the others in every round, from outside."""
    number = 0
    while any(process.poll() is None for process in job.processes):
        while min(job.words[other * 4] for other in range(job.ranks) if other != rank) > number:
            number += 1
            job.words[rank * 4] = number
        time.sleep(0.0001)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_page_says(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, seed: int) -> None:
    """A page that anybody writes to makes a cut long or puts it off, and nothing else; the next page is a new one."""
    job, gang, chance = start_job(2), GangScheduler(fake_scheduler), random.Random(seed)
    start_two(job, gang)
    job.runs()
    gang.revoke()
    end = time.monotonic() + 1
    numbers = [0, 1, 2, 3, 4, 7, 2**32, 2**63, 2**64 - 1]
    while time.monotonic() < end:
        at = chance.randrange(2, gang_layout.PAGE_BYTES // 8) * 8
        struct.pack_into("=Q", gang.page, at, chance.choice([*numbers, chance.randrange(2**64)]))
    struct.pack_into("=Q", gang.page, 16, 2**64 - 1)
    left = {slot for slot, peer in enumerate(gang.peers) if ends_drain(peer)}
    gang.form()
    leave_one_by_one(gang, left)
    gang.grant()
    job.runs()
    gang.cut()
    gang.grant()
    job.finish()


def leave_one_by_one(gang: GangScheduler, left: set[int]) -> None:
    """Waits until all have given the lock back. ``left``: the slots of those that have.

    They did not leave together, so one may wait for work of another that has left: as a scheduler does after its grace
    time, those are given the lock again, and asked for it a moment later.
    """
    end, moment, helping = time.monotonic() + 120, time.monotonic() + 1, set[int]()
    while len(left) < len(gang.peers):
        assert time.monotonic() < end
        staying = {peer.connection: slot for slot, peer in enumerate(gang.peers) if slot not in left}
        for connection in select.select(staying, [], [], 0.1)[0]:
            if isinstance(gang.peers[staying[connection]].receive(), wire.LockReleased):
                left.add(staying[connection])
        if time.monotonic() > moment and len(left) < len(gang.peers):
            for slot in helping - left:
                gang.peers[slot].revoke()
            for slot in left:
                gang.peers[slot].grant()
            helping, left, moment = left, set(), time.monotonic() + 1


def test_a_member_that_has_not_heard_of_the_page(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler
) -> None:
    """It is waited for: its kernels may run."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    job.start("0:0", "hold=51")
    job.start("1:1", "hold=51")
    gang.peers = [fake_scheduler.register(), fake_scheduler.register()]
    for peer in gang.peers:
        peer.grant()
    reached(job, 51)
    descriptor = gang.make_page(2)
    send_page(gang.peers[1], descriptor, 1, 2)
    gang.peers[1].revoke()
    poll_until(lambda: entered(gang, 1), "one takes part")
    send_page(gang.peers[0], descriptor, 0, 2)
    os.close(descriptor)
    gang.peers[0].revoke()
    gang.expect_released()


def test_an_end_that_is_none(start_job: Callable[[int], Job], fake_scheduler: FakeScheduler) -> None:
    """Whoever says that all are complete: a member whose own work has not completed does not give its lock back."""
    job, gang = start_job(2), GangScheduler(fake_scheduler)
    start_two(job, gang, "hold=101")
    poll_until(lambda: job.submitted[0] == 100 and job.submitted[1] >= 145, "one runs ahead", timeout=30)
    gang.revoke()
    poll_until(lambda: entered(gang, 0) and entered(gang, 1), "both stop")
    raw = ffi.from_buffer("struct nvs_gang_page *", gang.page)
    slot = [peer.register.pid for peer in gang.peers].index(job.processes[1].pid)
    command = raw.commands[slot]
    while raw.statuses[slot].revision != 1 << 40:
        command.version, command.entry, command.order = 0, raw.statuses[slot].entry, lib.NVS_GANG_END
        command.version = 1 << 40
    version = raw.statuses[slot].version
    poll_until(lambda: raw.statuses[slot].version > version + 5, "it goes on")
    assert entered(gang, slot)
    job.words[gang_member.HELD] = 1
    for peer in gang.peers:
        peer.connection.settimeout(40)
    gang.expect_released()
    gang.grant()
    job.finish()


def begun(size: int = gang_layout.PAGE_BYTES, seals: int = SEALS) -> int:
    """The descriptor of a page that begins as one should."""
    descriptor = page_file(size, seals)
    os.pwrite(descriptor, gang_layout.head(2), 0)
    return descriptor


BAD = {
    "no descriptor": lambda peer: peer.send(wire.Gang(0, 2, gang_layout.PAGE_BYTES)),
    "not sealed": lambda peer: send_page(peer, begun(seals=0), 0, 2),
    "too short": lambda peer: send_page(peer, begun(4096), 0, 2),
    "too short for what is said": lambda peer: send_page(peer, begun(4096), 0, 2, 4096),
    "too long": lambda peer: send_page(peer, begun(1 << 30), 0, 2, 1 << 30),
    "no page": lambda peer: send_page(peer, page_file(), 0, 2),
    "no such slot": lambda peer: send_page(peer, begun(), 2, 2),
    "too many slots": lambda peer: send_page(peer, begun(), 0, 65),
    "a page for none": lambda peer: send_page(peer, begun(), 0, 0),
}


@pytest.mark.parametrize("name", BAD)
def test_frames_that_no_scheduler_sends(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, name: str
) -> None:
    """The client leaves whoever sends such a GANG, and the program goes on."""
    job = start_job(1)
    job.start("0:0")
    peer = fake_scheduler.register()
    peer.expect_wanting()
    BAD[name](peer)
    assert hung_up(peer)
    again = fake_scheduler.register()
    again.grant()
    job.runs()
    job.finish()
