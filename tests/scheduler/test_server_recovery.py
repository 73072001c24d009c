"""The scheduler dies; its clients come back to the next one with what they have."""

from __future__ import annotations

from collections.abc import Callable

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler, WireClient

Serve = Callable[..., Scheduler]


def crash_under_holder_and_waiter(serve: Serve) -> tuple[WireClient, int]:
    """What the holder knows, and its grant, when the scheduler is killed under it and a waiter."""
    scheduler = serve("--policy", "exclusive")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    grant = holder.lock()
    waiter.send(wire.ReqLock())
    holder.expect(wire.Waiters)
    scheduler.kill()
    holder.raw.wait_closed()
    waiter.raw.wait_closed()
    return holder, grant


def test_state_is_rebuilt(serve: Serve) -> None:
    """A waiter that is back first gets nothing while a holder may still come, and then waits for it."""
    former, grant = crash_under_holder_and_waiter(serve)
    scheduler = serve("--policy", "exclusive", "--quantum", "0.1")
    waiter = scheduler.client().register(state=wire.State.WAITING, epoch=former.epoch)
    assert waiter.epoch != former.epoch
    assert scheduler.status().devices[0].recovering
    holder = scheduler.client().register(state=wire.State.HOLDING, grant=grant, epoch=former.epoch)
    assert set(scheduler.states().values()) == {"waiting", "holding"}
    assert holder.expect(wire.DropLock).grant == grant
    assert waiter.has_nothing()
    holder.send(wire.LockReleased(grant))
    assert waiter.expect(wire.LockOk).grant > grant


def test_waiter_is_served_when_the_holder_does_not_come(serve: Serve) -> None:
    """After the recovery window whoever waits is granted."""
    crash_under_holder_and_waiter(serve)
    scheduler = serve("--policy", "exclusive")
    waiter = scheduler.client().register(state=wire.State.WAITING)
    assert scheduler.status().devices[0].recovering
    assert waiter.has_nothing()
    waiter.expect(wire.LockOk)
    assert not scheduler.status().devices[0].recovering


def test_stop_under_clients_leads_to_recovery_too(serve: Serve) -> None:
    """A clean stop while clients are connected: the next scheduler gives them time."""
    scheduler = serve()
    scheduler.client().register()
    assert scheduler.terminate() == 0
    scheduler = serve()
    scheduler.client().register()
    assert scheduler.status().devices[0].recovering


def test_clean_start_does_not_wait(serve: Serve) -> None:
    """Neither the first scheduler of a run directory nor one after a stop without clients delays its first grant."""
    scheduler = serve()
    client = scheduler.client().register()
    assert not scheduler.status().devices[0].recovering
    client.lock()
    client.close()
    poll_until(lambda: not scheduler.states(), "the client is gone")
    assert scheduler.terminate() == 0
    scheduler = serve()
    scheduler.client().register().lock()
    assert not scheduler.status().devices[0].recovering


def test_scheduler_that_ended_before_anybody_came_back(serve: Serve) -> None:
    """One that did not live long enough for its predecessor's clients leaves the waiting for them to the next."""
    crash_under_holder_and_waiter(serve)
    assert serve("--policy", "exclusive").terminate() == 0
    scheduler = serve("--policy", "exclusive")
    scheduler.client().register()
    assert scheduler.status().devices[0].recovering
