"""Memory that swaps while calls of the driver fail: nothing is lost, and all goes on as soon as they work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_registered, reach_written

pytestmark = pytest.mark.soak


def test_the_driver_registers_no_host_memory(
    start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None]
) -> None:
    """Then copies are slow, but memory still moves, and the scheduler may count on it. It is said once."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=0)
    fail(program, "cuMemHostRegister_v2", 801)
    for arena in (2 * CHUNK, 3 * CHUNK):
        peer.arena(arena - peer.resident.arena_bytes)
        peer.heard(arena_bytes=arena, usable_bytes=arena)
    reach_written(program, peer, "x", 3 * CHUNK)
    peer.out_and_back(3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
    (line,) = program.errors
    assert "the driver does not register host memory (error 801)" in line


@pytest.mark.parametrize("function", ["cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventQuery"])
def test_a_copy_to_the_host_fails(
    start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None], function: str
) -> None:
    """What could not be copied stays; it goes as soon as that works."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    fail(program, function, 700)
    peer.evict(0)
    program.said("memory could not be brought out (error 700); trying again")
    peer.heard(order=peer.order, resident_bytes=3 * CHUNK)
    fail(program, function, 0)
    peer.heard(resident_bytes=0)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    peer.heard(resident_bytes=3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


@pytest.mark.parametrize("function", ["cuMemUnmap", "cuMemRelease"])
def test_the_driver_does_not_take_memory_back(
    start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None], function: str
) -> None:
    """It is not said to be out, which nobody else could use, and stays where the program has it until that works."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    fail(program, function, 1)
    peer.evict(0)
    program.said("memory could not be brought out (error 1); trying again")
    peer.heard(order=peer.order, resident_bytes=3 * CHUNK)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
    peer.take_back()
    fail(program, function, 0)
    peer.out_and_back(3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuMemMap"])
def test_a_copy_to_the_device_fails(
    start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None], function: str
) -> None:
    """The copy on the host is what counts, and all comes in as soon as that works."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0)
    fail(program, function, 700)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    program.said("memory could not be brought back (error 700); trying again")
    fail(program, function, 0)
    peer.heard(resident_bytes=3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
