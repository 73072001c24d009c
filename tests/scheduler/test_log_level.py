"""``--log-level``: the least severity of what is logged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvshare import paths
from nvshare.protocol import wire
from nvshare.protocol.legacy import LegacyType
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


@pytest.mark.parametrize(
    ("value", "options", "levels", "said"),
    [
        ("1", (), {"debug", "info"}, False),
        ("True", (), {"debug", "info"}, False),
        ("no", (), {"info"}, False),
        ("please", (), {"debug", "info", "warning"}, True),
        ("1", ("--log-level", "info"), {"info"}, False),
    ],
)
def test_debug_by_the_environment(
    serve: Callable[..., Scheduler], value: str, options: tuple[str, ...], levels: set[str], said: bool
) -> None:
    """NVSHARE_DEBUG, as in the original, unless the option says something else; a wrong value is said."""
    scheduler = serve(*options, environment={paths.DEBUG: value})
    scheduler.client().register()
    assert scheduler.terminate() == 0
    assert {line["level"] for line in scheduler.log()} == levels
    assert any(f"NVSHARE_DEBUG={value} is not one of" in str(line["event"]) for line in scheduler.log()) is said


def test_messages_of_the_lock(serve: Callable[..., Scheduler]) -> None:
    """With NVSHARE_DEBUG=1 the log has each client's messages about the lock, by the names of the protocol."""
    device = "GPU-6e767368-6172-6500-0000-000000000001"
    options = ("--policy", "exclusive", "--quantum", "0.05", "--legacy-device", device)
    scheduler = serve(*options, environment={paths.DEBUG: "1"})
    old, new = scheduler.legacy_client().register(), scheduler.client().register()
    old.send(LegacyType.REQ_LOCK)
    old.expect(LegacyType.LOCK_OK)
    new.send(wire.ReqLock())
    old.expect(LegacyType.DROP_LOCK)
    old.send(LegacyType.LOCK_RELEASED)
    new.send(wire.LockReleased(new.expect(wire.LockOk).grant))
    assert scheduler.terminate() == 0
    words = ("REQ_LOCK", "LOCK_OK", "DROP_LOCK", "LOCK_RELEASED")
    lines = [(line["event"], line["client"]) for line in scheduler.log() if str(line["event"]).endswith(words)]
    assert lines == [
        ("received REQ_LOCK", old.client_id),
        ("sending LOCK_OK", old.client_id),
        ("received REQ_LOCK", new.client_id),
        ("sending DROP_LOCK", old.client_id),
        ("received LOCK_RELEASED", old.client_id),
        ("sending LOCK_OK", new.client_id),
        ("received LOCK_RELEASED", new.client_id),
    ]
