"""What is done to programs that sleep, or are about to."""

from __future__ import annotations

from nvshare.admin import admin_pb2
from tests.chaos.chaos import Chaos
from tests.chaos.programs import Program


def _sleeper(chaos: Chaos) -> Program:
    return chaos.one_of(lambda client: client.state in ("asleep", "waking"))


def put_to_sleep(chaos: Chaos) -> None:
    """Asks that a program sleeps, as an operator may, whatever it does."""
    place = chaos.random.choice(chaos.programs)
    with chaos.operator() as admin:
        admin.Sleep(admin_pb2.SleepRequest(name=f"pid:{place.process.pid}"), timeout=1)


def wake_up(chaos: Chaos) -> None:
    """Asks that one comes back."""
    with chaos.operator() as admin:
        admin.Wake(admin_pb2.SleepRequest(name=f"pid:{_sleeper(chaos).process.pid}"), timeout=1)


def kill_sleeper(chaos: Chaos) -> None:
    """Kills a program that sleeps or comes back."""
    place = _sleeper(chaos)
    place.kill()
    place.start(chaos.random.getrandbits(32))


def stop_sleeper(chaos: Chaos) -> None:
    """Stops one; a later deed lets it go on."""
    if sum(place.stopped for place in chaos.programs) < 3:
        _sleeper(chaos).stop()


def kill_scheduler_in_sleep(chaos: Chaos) -> None:
    """Kills the scheduler right after a program was asked to sleep or to come back."""
    chaos.random.choice((put_to_sleep, wake_up))(chaos)
    chaos.scheduler.kill()
    chaos.scheduler.wait()
    chaos.start_scheduler()
