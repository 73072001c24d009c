"""``--log-level``: the least severity of what is logged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvshare.protocol import wire
from tests.scheduler.wire_client import Scheduler


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        ("debug", {"debug", "info", "warning"}),
        ("info", {"info", "warning"}),
        ("warning", {"warning"}),
        ("error", set()),
    ],
)
def test_scheduler(serve: Callable[..., Scheduler], level: str, levels: set[str]) -> None:
    """A life with a client that asks for the lock and a peer that is wrong."""
    scheduler = serve("--log-level", level)
    client = scheduler.client().register()
    client.lock()
    wrong = scheduler.client()
    wrong.send(wire.ReqLock())
    wrong.raw.wait_closed()
    assert scheduler.terminate() == 0
    assert {line["level"] for line in scheduler.log()} == levels
