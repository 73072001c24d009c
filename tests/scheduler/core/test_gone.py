"""What clients that are gone leave behind: their memory counts until it is free, and not for longer."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceForgotten,
    DeviceSeen,
    MemoryFreed,
    Policy,
    ResidencyReported,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table

OTHER = "GPU-b"


def on_the_other_device(table: Table, name: str, size: int, arena: int) -> None:
    """A client of another device, with as much host memory."""
    seen = DeviceSeen(OTHER, TOTAL * GIB)
    table.core.handle(seen, table.now)
    table.feed(ClientRegistered(ord(name), OTHER, size * GIB, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(ord(name), 0, size * GIB, size * GIB, 0, size * GIB, arena * GIB, arena * GIB))


def test_what_a_holder_that_paged_had_counts_until_it_is_free() -> None:
    """M's pages were on the device when it died."""
    table = Table()
    table.comes("C", 10, 0)
    table.has("C", 10, 0)
    table.feed(ClientRegistered(ord("M"), DEVICE, 8 * GIB, ClaimedState.IDLE, backend=Backend.MANAGED))
    assert table.asks("M") == ["grant M"]
    assert table.asks("C") == ["allot C 7"]
    assert table.feed(ClientGone(ord("M"))) == []
    assert table.feed(MemoryFreed(ord("M"))) == ["allot C 10"]


def test_what_an_idle_client_that_paged_had_does_not_count() -> None:
    """Its pages had given way."""
    table = Table()
    table.comes("C", 10, 0)
    table.has("C", 10, 0)
    table.feed(ClientRegistered(ord("M"), DEVICE, 8 * GIB, ClaimedState.IDLE, backend=Backend.MANAGED))
    assert table.feed(ClientGone(ord("M"))) == []
    assert table.asks("C") == ["allot C 10"]


def test_host_memory_that_was_being_made_is_free_with_its_client() -> None:
    """What it had and what it was to get."""
    table = Table()
    table.comes("A", 10, arena=0)
    assert table.comes("B", 10, 5, arena=0)[-1] == "arena B 1"
    table.feed(ClientGone(ord("A")))
    table.feed(MemoryFreed(ord("A")))
    assert table.core.host_memory().used_bytes == GIB


def test_host_memory_is_free_once() -> None:
    """When A's is free there are 4 GiB again: what would need more is refused, and waits for nobody."""
    table = Table(host=4)
    on_the_other_device(table, "Z", 14, 4)
    table.feed(ClientGone(ord("Z")))
    table.feed(MemoryFreed(ord("Z")))
    assert table.core.host_memory().used_bytes == 0
    table.comes("A", 10, arena=0)
    table.comes("B", 0, arena=0)
    assert table.grows("B", 8) == ["refuse B 1"]


def test_host_memory_is_free_when_its_device_is_forgotten() -> None:
    """Nobody will say any more that Z's is."""
    table = Table()
    on_the_other_device(table, "Z", 14, 4)
    table.feed(ClientGone(ord("Z")))
    assert table.core.host_memory().used_bytes == 5 * GIB, "another one was being made"
    table.feed(DeviceForgotten(OTHER))
    assert table.core.host_memory().used_bytes == 0


def test_who_is_gone_is_answered_no_more() -> None:
    """B waited for room that A leaves now."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 10)
    table.comes("B", 4)
    assert table.asks("B") == ["grant B"]
    assert table.grows("B", 8) == ["evict A 7"]
    table.feed(ClientGone(ord("B")))
    assert table.has("A", 10, 7) == []
    assert table.feed(MemoryFreed(ord("B"))) == []


def test_nothing_is_due_for_who_is_gone() -> None:
    """The only client was late soon, and ends: nobody is to be woken, again and again, for it."""
    table = Table()
    table.comes("A", 10, 4)
    table.asks("A")
    assert table.core.deadline() is not None
    table.feed(ClientGone(ord("A")))
    assert table.core.deadline() is None
