"""Host memory that clients give back when they have freed what it was for."""

from __future__ import annotations

from nvshare.scheduler.core.actions import TellWaiters
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    LockRequested,
    ResidencyReported,
)
from nvshare.scheduler.core.records.arenas import SEGMENT_BYTES
from nvshare.scheduler.core.records.process import REST_SECONDS
from nvshare.scheduler.core.settings import Settings
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, Table


def test_what_goes_back_others_may_have() -> None:
    """C would be refused while A has host memory for what it freed; the device is nearly free."""
    table = Table(host=16)
    table.comes("A", 15, arena=15)
    table.has("A", 1, 1)
    table.comes("B", 8, 0, arena=1)
    table.comes("C", arena=0)
    assert table.grows("C", 8) == ["refuse C 1"]
    assert "(--host-memory)" in table.reason
    table.gives_back("A", 14)
    table.has("A", 1, 1)
    assert table.grows("C", 8) == ["arena B 1", "arena C 1"]


def reported(core: Core, arena_bytes: int, returned_bytes: int) -> list[object]:
    """The client has a granule, and so much host memory."""
    used = dict.fromkeys(("footprint_bytes", "resident_bytes", "admitted_bytes"), 2 << 20)
    return list(
        core.handle(ResidencyReported(1, 0, **used, arena_bytes=arena_bytes, returned_bytes=returned_bytes), 1.0)
    )


def test_a_holder_rests_for_it() -> None:
    """Nothing goes back while a program has its turn: it is told to end that when it is idle, though nobody waits. Not
    for less than a segment, none of which might be free."""
    core = Core(Settings(host_bytes=16 * GIB))
    core.handle(DeviceSeen(DEVICE, 16 * GIB), 0.0)
    core.handle(ClientRegistered(1, DEVICE, 2 << 20, ClaimedState.IDLE, backend=Backend.SWAP), 0.0)
    reported(core, SEGMENT_BYTES + (2 << 20), 0)
    assert TellWaiters(1, 0, REST_SECONDS) in core.handle(LockRequested(1), 1.0)
    assert reported(core, SEGMENT_BYTES, 2 << 20) == [TellWaiters(1, 0, 0.0)]
