"""What programs have freed: the real scheduler and library on a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import simgpu
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.situations import MIB, allocates, calls, opens
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

BYTES = 1152 * MIB
"""Two of these do not fit beside each other on the GPU; host memory takes two."""


@pytest.fixture
def small_devices(libraries: Libraries, tmp_path: Path) -> dict[str, str]:
    """The environment of whoever sees one simulated GPU of that size."""
    return simgpu.environment(tmp_path / "simgpu", "1536MiB/16MiB")


def test_others_have_the_host_memory(
    serve: Callable[..., Scheduler], small_devices: dict[str, str], start_calling: Callable[..., ControlledProgram]
) -> None:
    """The first program frees all that it had. A third one finds host memory for two, which the second one needs too,
    some time after that, though the first one still holds the GPU for want of others."""
    scheduler = serve("--host-memory", "2304MiB", "--reserve", "16MiB", environment=small_devices)
    first, second, third = (start_calling() for _ in range(3))
    for program in (first, second, third):
        opens(program)
    allocates(first, "x", BYTES, 1)
    calls(second, f"cuMemAlloc_v2 &x {BYTES}")
    poll_until(lambda: scheduler.status().host_memory_used_bytes == 2 * BYTES, "both have host memory", 60)
    calls(first, "cuMemFree_v2 x")
    poll_until(lambda: third.do(f"cuMemAlloc_v2 &x {BYTES}") == "0", "there is host memory for it", 60)
    assert "host memory to swap" in third.said("out of memory")
    calls(third, f"stamp x {BYTES} 3", "cuCtxSynchronize")
    calls(second, f"stamp x {BYTES} 2", "cuCtxSynchronize")
    assert third.do(f"wrong x {BYTES} 3") == "0"
