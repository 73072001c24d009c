"""Frees beside captures of CUDA graphs that allow them."""

from __future__ import annotations

from collections.abc import Callable

from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_allocated, reach_registered

OUT_OF_MEMORY = 2
RELAXED = 2


def test_the_device_is_full(start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None]) -> None:
    """A free needs no memory of the device, and the capture goes on."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    reach_allocated(program, peer, "y", CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    assert program.do(f"capture x 7 {RELAXED}") == "0"
    fail(program, "cuMemAlloc_v2", OUT_OF_MEMORY)
    assert program.do("free y") == "0"
    assert program.do("end_capture") == "0"
