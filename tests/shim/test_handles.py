"""Handles of the program's own virtual memory that the driver refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvshare.protocol import wire
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_registered


@pytest.mark.parametrize("resident", [True, False], ids=["to be on the device", "to be out"])
def test_room_for_what_the_driver_refuses(
    start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None], resident: bool
) -> None:
    """The room of a handle that could not be made is given back; the next one gets its own."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    fail(program, "cuMemCreate", 999)
    program.begin(f"create_exported x {CHUNK}")
    grow = peer.expect(wire.Grow)
    peer.allot(CHUNK if resident else 0, CHUNK, grow.request)
    assert program.answer() == "999"
    peer.heard(footprint_bytes=0, resident_bytes=0)
    fail(program, "cuMemCreate", 0)
    program.begin(f"create_exported y {CHUNK}")
    assert program.answer() == "0"
    peer.heard(footprint_bytes=CHUNK, resident_bytes=CHUNK if resident else 0)
    peer.out_and_back(CHUNK)
