"""``nvshare-ctl status`` where programs have their GPUs by claims."""

from __future__ import annotations

import json

from nvshare.admin import admin_pb2
from nvshare.ctl.showing import status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl

GIB = 1 << 30
CLAIMED = admin_pb2.ClaimedMemory(
    promised_bytes=24 * GIB, consumed_bytes=16 * GIB, requested_bytes=12 * GIB, resident_bytes=3 * GIB, shares=2
)
TERMS = admin_pb2.Terms(
    weight=2.0, priority="normal", memory_limit_bytes=8 * GIB, by_claim=["memory_limit_bytes"], by_command=["weight"]
)


def test_claims(run_dir: RunDir, answers: Answers) -> None:
    """The claim is the account; the heading sums up what claims have; a container without a client has a share."""
    device = answers.status.devices[0]
    device.claimed.CopyFrom(CLAIMED)
    client = device.clients[1]
    client.member_of = "claim:vision/share@GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a"
    client.terms.CopyFrom(TERMS)
    entry = device.allocations_without_client[0]
    entry.claim, entry.shares = "vision/other", 1
    del entry.virtual_device_ids[:]
    lines = ctl(run_dir, "status", COLUMNS="240").stdout.splitlines()
    said = "promised 24.0 GiB, consumed 16.0 GiB, kept 12.0 GiB, resident 3.0 GiB; 2 shares"
    assert [line.split(None, 1)[1] for line in lines if line.startswith("claims ")] == [said]
    assert any(line.endswith(f"{client.member_of}: weight 2 (set), limit 8.0 GiB (claim)") for line in lines)
    assert "allocated, no client: vision/own-preload/c, 1 share by claim vision/other" in lines
    document = json.loads(ctl(run_dir, "status", "-o", "json").stdout)
    shown = document["devices"][0]
    assert shown["claimed"] == {
        "promised_bytes": 24 * GIB,
        "consumed_bytes": 16 * GIB,
        "requested_bytes": 12 * GIB,
        "resident_bytes": 3 * GIB,
        "shares": 2,
    }
    assert document["devices"][1]["claimed"] is None
    assert [each["claim"] for each in shown["clients"]] == [None, "vision/share"]
    assert shown["clients"][1]["name"] == "claim:vision/share"
    assert shown["clients"][1]["terms"]["by_claim"] == ["memory_limit_bytes"]
    [held] = shown["allocations_without_client"]
    assert (held["claim"], held["shares"], held["virtual_device_ids"]) == ("vision/other", 1, [])
    assert status_document.to_status(document) == answers.status
