"""Random allocations, writes, reads and frees beside random evictions, in which nothing may be lost."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.conftest import Libraries
from tests.programs.compiler import compiled
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.restless_scheduler import Restless

pytestmark = pytest.mark.soak


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_swaps(
    seed: int, libraries: Libraries, environment: dict[str, str], run_dir: paths.RunDir, tmp_path: Path
) -> None:
    """Threads of a program find every byte that they have written, whatever the scheduler does, and whoever it is."""
    program = compiled("swaps", build_native.TARGETS["strict"], libraries.cuda, tmp_path)
    preloaded = environment | {"LD_PRELOAD": str(libraries.shim), paths.MEMORY: "swap"}
    with FakeScheduler(run_dir.client_socket) as scheduler:
        restless = Restless(scheduler, random.Random(seed), refuses_above=6 * CHUNK)
        with subprocess.Popen(
            [program, "4", "300", str(seed)],
            env=preloaded,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                restless.serve(process)
            finally:
                process.kill()
            output, errors = process.communicate()
    assert output == "right\n", errors[-4000:]
    assert restless.left > 50
    assert restless.spared > 5
