"""What is done to jobs whose ranks wait for each other."""

from __future__ import annotations

import contextlib
import time

from tests.chaos.chaos import Chaos
from tests.chaos.gangs import Gang
from tests.polling import poll_until


def _one_in(chaos: Chaos, *states: str) -> Gang:
    """A job with a rank in one of these states, else any."""
    pids = {client.pid for device in chaos.devices() for client in device.clients if client.state in states}
    return chaos.random.choice([gang for gang in chaos.gangs if gang.pids & pids] or chaos.gangs)


def kill_rank(chaos: Chaos) -> None:
    """Kills a rank of a job, in the middle of a cut if there is one; its launcher ends the others a moment later."""
    gang = _one_in(chaos, "leaving")
    chaos.random.choice(gang.job.processes).kill()
    time.sleep(chaos.random.choice((0.0, 0.1, 1.0)))
    gang.kill()
    gang.start()


def kill_stopped_rank(chaos: Chaos) -> None:
    """Kills a rank that has stopped in the middle of what it does."""
    gang = _one_in(chaos, "leaving", "holding")
    process = chaos.random.choice(gang.job.processes)
    gang.stop(process)
    time.sleep(chaos.random.uniform(0.0, 0.5))
    gang.kill()
    gang.start()


def stop_rank(chaos: Chaos) -> None:
    """Stops a rank while the others of its job go on; a later deed lets it go on."""
    if not any(gang.stopped for gang in chaos.gangs):
        gang = _one_in(chaos, "leaving", "holding")
        gang.stop(chaos.random.choice(gang.job.processes))


def resume_ranks(chaos: Chaos) -> None:
    """Lets all go on that have stopped."""
    for gang in chaos.gangs:
        gang.resume()


def kill_scheduler_in_cut(chaos: Chaos) -> None:
    """Kills the scheduler while a job leaves, if one does soon."""
    pids = {pid for gang in chaos.gangs for pid in gang.pids}

    def leaves() -> bool:
        clients = [client for device in chaos.devices() for client in device.clients]
        return any(client.pid in pids and client.state == "leaving" for client in clients)

    with contextlib.suppress(AssertionError):
        poll_until(leaves, "a job leaves", 1.0, 0.001)
    chaos.scheduler.kill()
    chaos.scheduler.wait()
    chaos.start_scheduler()
