"""What the core has to say to the operator, as lines of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from nvshare.log import Log
from nvshare.scheduler.core.actions import (
    Action,
    Grant,
    Report,
    ReportMissing,
    ReportShort,
    ReportSize,
    ReportUnresponsive,
    Revoke,
)
from nvshare.scheduler.core.events import Event, LockReleased, LockRequested
from nvshare.scheduler.registered_client import RegisteredClient


def write(report: Report, clients: Mapping[int, RegisteredClient], log: Log) -> None:
    """One warning; ``clients`` has those of the report."""
    match report:
        case ReportUnresponsive(number, grant, overdue_seconds):
            log.warning(
                "holder does not give the lock back" if grant else "client does not give its memory up",
                client=number,
                **clients[number].description.fields(),
                device=clients[number].device,
                grant=grant,
                overdue_seconds=round(overdue_seconds, 3),
            )
        case ReportShort(number, device, container, requested_bytes, kept_bytes):
            log.warning(
                "a memory request is not kept in full: the device has no more for it",
                container=container,
                pid=clients[number].pid,
                device=device,
                requested_bytes=requested_bytes,
                kept_bytes=kept_bytes,
            )
        case ReportMissing(numbers, name, come, expected, seconds):
            log.warning(
                "processes wait until all of their gang have come",
                gang=name,
                come=come,
                expected=expected,
                **clients[numbers[0]].description.fields(),
                pids=sorted({clients[number].pid for number in numbers}),
                seconds=round(seconds, 3),
            )
        case ReportSize(number, name, said, counts):
            log.warning(
                "processes say different sizes of their gang: what the first one said counts",
                gang=name,
                **clients[number].description.fields(),
                said=said,
                counts=counts,
            )
        case _:
            assert_never(report)


def trace(step: str, what: Event | Action, log: Log) -> None:
    """A line for whoever debugs; the messages about the lock have the names that they have in the protocol."""
    match what:
        case LockRequested():
            log.debug("received REQ_LOCK", client=what.client, what=what)
        case LockReleased():
            log.debug("received LOCK_RELEASED", client=what.client, what=what)
        case Grant():
            log.debug("sending LOCK_OK", client=what.client, what=what)
        case Revoke():
            log.debug("sending DROP_LOCK", client=what.client, what=what)
        case _:
            log.debug(step, what=what)


def kill(client: RegisteredClient, number: int, grant: int, log: Log) -> None:
    """Kills a client that keeps others waiting: with its grant, or (0) with its memory. Whether it could is logged."""
    log = log.bind(client=number, **client.description.fields(), device=client.device, grant=grant)
    whom = "holder that" if grant else "client whose memory"
    try:
        client.receiver.kill()
    except OSError as error:
        log.error(f"a {whom} keeps others waiting can't be killed", reason=str(error))
    else:
        log.warning(f"killed a {whom} kept others waiting")
