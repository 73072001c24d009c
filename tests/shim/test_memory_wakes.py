"""Whom an allocation wakes: threads that run each time cost more than the allocation."""

from __future__ import annotations

import pytest

from nvshare import paths
from tests.shim.swap_scheduler import SwapScheduler
from tests.shim.swapping import Start
from tests.shim.thread_state import sleeps

TIMES = 2000
ROUNDS = 30


@pytest.mark.parametrize("functions", ["cuMemAlloc_v2 cuMemFree_v2", "cuMemAllocAsync cuMemFreeAsync"])
def test_memory_that_comes_and_goes_wakes_nobody(start_swapping: Start, run_dir: paths.RunDir, functions: str) -> None:
    """Neither the mover, which has nothing to move, nor, but now and then, the client, which has nothing to say."""
    with SwapScheduler(run_dir.client_socket):
        program = start_swapping()
        assert program.do("use") == "0"
        assert program.do("alloc kept 4194304") == "0"
        assert program.do("write kept seed") == "0"

        def slept() -> int:
            before = sleeps(program.process.pid)
            assert program.do(f"churn {functions} {TIMES}") == "0"
            return sleeps(program.process.pid) - before

        # Most of them in a round of a busy machine may be for the mutex that the program's thread has again and again.
        assert any(slept() < TIMES // 4 for _ in range(ROUNDS))
