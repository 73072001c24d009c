"""What a client says that changes nothing but what people are shown, and the reason that it may ask for."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler, WireClient

Serve = Callable[..., Scheduler]


def drains(scheduler: Scheduler) -> list[str]:
    """How the drains go, client by client."""
    return [client.drain for client in scheduler.status().devices[0].clients]


def notices(scheduler: Scheduler) -> list[str]:
    """What the only client has to say."""
    return list(scheduler.status().devices[0].clients[0].notices)


def become(condition: Callable[[], object], what: str) -> None:
    poll_until(condition, what, TIMEOUT_SECONDS)


def test_drain_reports(serve: Serve) -> None:
    """How a drain goes is in the status until the lock is given back."""
    scheduler = serve("--policy", "exclusive", "--quantum", "0.01")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    grant = holder.lock()
    waiter.send(wire.ReqLock())
    holder.expect_drop()
    assert drains(scheduler) == ["", ""]
    for report, shown in ((wire.Drain.STEPPING, "stepping"), (wire.Drain.PUT_OFF, "put off")):
        holder.send(wire.DrainReport(grant, report))
        become(lambda shown=shown: drains(scheduler) == [shown, ""], f"the drain is {shown}")
    assert scheduler.status().devices[0].clients[0].state == "leaving"
    holder.send(wire.LockReleased(grant))
    waiter.expect(wire.LockOk)
    assert drains(scheduler) == ["", ""]


def test_notices(serve: Serve) -> None:
    """Each is shown once, and of very many the newest."""
    scheduler = serve()
    client = scheduler.client().register()
    for text in ("first", "second", "first"):
        client.send(wire.Notice(text))
    become(lambda: notices(scheduler) == ["first", "second"], "both are shown")
    for number in range(100):
        client.send(wire.Notice(f"notice {number}"))
    become(lambda: notices(scheduler) == [f"notice {number}" for number in range(96, 100)], "the newest are shown")


def reason(client: WireClient) -> str:
    """The answer to ASK_REASON."""
    client.send(wire.AskReason())
    return client.expect(wire.Reason).text


def test_reason_for_waiting(serve: Serve) -> None:
    """One that waits is told for how long, in which place and behind whom; one that does not wait is told nothing."""
    scheduler = serve("--policy", "exclusive")
    holder, first, second = (scheduler.client().register() for _ in range(3))
    become(lambda: len(scheduler.logged("client registered")) == 3, "all are described")
    assert reason(holder) == ""
    holder.lock()
    assert reason(holder) == ""
    for client in (first, second):
        client.send(wire.ReqLock())
    holder.expect(wire.Waiters)
    become(lambda: [client.position for client in scheduler.status().devices[0].clients] == [0, 1, 2], "both wait")
    assert reason(first).startswith(f"1st of 2 in line, behind pid {os.getpid()} (")
    assert reason(second).startswith(f"2nd of 2 in line, behind pid {os.getpid()} (")
    shown = scheduler.status().devices[0].clients
    assert [list(client.behind) for client in shown] == [[], [holder.client_id], [holder.client_id]]


@pytest.mark.parametrize("frame", [wire.AskReason(), wire.Notice("x"), wire.DrainReport(1, wire.Drain.STEPPING)])
def test_before_register(serve: Serve, frame: wire.Frame) -> None:
    """Who has not said who it is has nothing to say or to ask."""
    scheduler = serve()
    client = scheduler.client()
    client.send(frame)
    client.raw.wait_closed()
