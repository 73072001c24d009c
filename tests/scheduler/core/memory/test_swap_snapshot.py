"""What can be seen of clients whose memory swaps: who does not move, and who waits for memory."""

from __future__ import annotations

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.snapshot import SwapSnapshot
from tests.scheduler.core.memory.swap_transcript import GIB, Table


def seen(table: Table, name: str) -> SwapSnapshot:
    """Of one client now."""
    [device] = table.core.snapshot(table.now)
    [swap] = [client.swap for client in device.clients if client.client == ord(name)]
    assert swap is not None
    return swap


def test_who_does_not_leave_is_seen_to_stand_still() -> None:
    """C was told to leave 2 GiB and tells of nothing; when it has left them there is nothing to wait for."""
    table = Table(Policy.EXCLUSIVE)
    for name in "CAB":
        table.comes(name, 3)
        table.now += 1
    table.asks("A")
    table.has("B", 11, 3)
    assert table.asks("B") == ["allot B 9", "evict C 1"]
    assert seen(table, "C").still_seconds == 0
    table.now += 5
    assert (seen(table, "C").leaving_bytes, seen(table, "C").still_seconds) == (2 * GIB, 5.0)
    table.has("C", 3, 1)
    table.now += 5
    assert (seen(table, "C").leaving_bytes, seen(table, "C").still_seconds) == (0, 0.0)


def test_a_call_that_waits_for_memory_is_seen() -> None:
    """A holds and wants 4 GiB more, for which B, idle, has to leave; it does not wait any more when it has them."""
    table = Table()
    table.comes("B", 7)
    table.comes("A", 8)
    table.asks("A")
    assert table.grows("A", 12) == ["evict B 3"]
    assert (seen(table, "A").wanted_bytes, seen(table, "B").wanted_bytes) == (4 * GIB, 0)
    table.has("B", 7, 3)
    assert seen(table, "A").wanted_bytes == 0


def test_a_context_that_waits_is_seen() -> None:
    """It has no footprint yet; what a context is taken to take is what it waits for."""
    table = Table(pinned=1)
    table.comes("A", 6)
    table.asks("A")
    table.comes("B", 7)
    table.comes("C")
    assert table.grows("C", 0) == []
    assert (seen(table, "C").wanted_bytes, seen(table, "C").awaits_context) == (GIB, True)
    table.has("B", 7, 6)
    assert (seen(table, "C").wanted_bytes, seen(table, "C").awaits_context) == (0, False)
