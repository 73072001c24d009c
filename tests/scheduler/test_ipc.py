"""Memory that swaps, given by one process and mapped by another one: the real scheduler, the real library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.scheduler.sharing_programs import StartSharing, sharing_programs
from tests.scheduler.swapping_programs import MIB, Serve
from tests.scheduler.wire_client import Scheduler

pytestmark = pytest.mark.timeout(120)

DEVICES = "2x1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "4GiB", "--reserve", "32MiB")


@pytest.fixture
def served(serve: Serve, tmp_path: Path) -> Callable[[], Scheduler]:
    """Starts a scheduler that sees the simulated GPUs."""
    seen = simgpu.environment(tmp_path / "simgpu", DEVICES)
    return lambda: serve(*SERVED, environment=seen)


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[StartSharing]:
    """Starts programs on the simulated GPUs."""
    with sharing_programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield begin


@pytest.mark.parametrize("size", [1000, 3 * MIB, 150 * MIB], ids=["small", "one chunk", "several chunks"])
def test_both_see_it(served: Callable[[], Scheduler], start: StartSharing, size: int) -> None:
    """What one writes the other reads, in all parts of the block; the handle is of the block, wherever in it it was asked."""
    served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({size})")
    last = size - 400 & ~3
    giver.do(f"device.fill({base}, 1.5, 100)")
    giver.do(f"device.fill({base + last}, 2.5, 100)")
    handle = giver.text(f"get({base})")
    assert giver.text(f"get({base + size - 1})") == handle
    mapped = taker.number(f"open_it('{handle}')")
    assert taker.do(f"device.floats({mapped}, 100)") == [1.5] * 100
    assert taker.do(f"device.floats({mapped + last}, 100)") == [2.5] * 100
    taker.do(f"device.fill({mapped}, 3.5, 50)")
    taker.do("call('cuCtxSynchronize')")
    assert giver.do(f"device.floats({base}, 100)") == [3.5] * 50 + [1.5] * 50
    assert taker.do(f"tuple(map(int, call('cuMemGetAddressRange', {mapped + size // 2})))") == (mapped, size)
    assert taker.number(f"open_it('{handle}')") == mapped
    assert [taker.do(f"close({mapped})") for _ in range(2)] == ["CUDA_SUCCESS"] * 2
    assert taker.do(f"close({mapped})") != "CUDA_SUCCESS"
