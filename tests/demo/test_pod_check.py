"""What helm test runs in its pod, as it runs there: with the library, with and without a scheduler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping

from nvshare.paths import LD_PRELOAD, MEMORY_LIMIT, ON_MISSING
from tests.conftest import Libraries, Scheduler


def check(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nvshare.demo.pod_check", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_all_is_well(
    environment: dict[str, str], libraries: Libraries, start_scheduler: Callable[..., Scheduler]
) -> None:
    """Every GPU that the container has is used, in a turn."""
    start_scheduler()
    done = check(
        environment | {LD_PRELOAD: str(libraries.shim), ON_MISSING: "fail", "NVSHARE_SIMGPU_DEVICES": "2x1GiB"}
    )
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["GPU 0", "GPU 1"]


def test_a_claim_has_its_size(
    environment: dict[str, str], libraries: Libraries, start_scheduler: Callable[..., Scheduler]
) -> None:
    """With a claim the GPU shows what is claimed; all of it is a failure, which names both sizes."""
    start_scheduler()
    shared = environment | {LD_PRELOAD: str(libraries.shim), ON_MISSING: "fail"}
    done = check(shared | {MEMORY_LIMIT: "64MiB"}, "64Mi")
    assert done.returncode == 0, done.stderr
    assert ", 64 MiB: used" in done.stdout
    done = check(shared, "64Mi")
    assert done.returncode == 1
    assert ", of which 64 MiB are claimed" in done.stderr


def test_no_scheduler(environment: dict[str, str], libraries: Libraries) -> None:
    """The GPU works, and nobody shares it: that is a failure, and it is said where to look."""
    done = check(environment | {LD_PRELOAD: str(libraries.shim), ON_MISSING: "fail"})
    assert done.returncode == 1
    assert "nvshare-scheduler" in done.stderr


def test_no_library(environment: dict[str, str], start_scheduler: Callable[..., Scheduler]) -> None:
    """As where another plugin gave the GPU."""
    start_scheduler()
    done = check(environment | {ON_MISSING: "fail"})
    assert done.returncode == 1
    assert "libnvshare.so is not in this process" in done.stderr


def test_no_gpu(environment: dict[str, str], libraries: Libraries, start_scheduler: Callable[..., Scheduler]) -> None:
    """As where the container runtime did not bring it."""
    start_scheduler()
    done = check(environment | {LD_PRELOAD: str(libraries.shim), "NVIDIA_VISIBLE_DEVICES": "void"})
    assert done.returncode == 1
    assert done.stderr.startswith("nvshare: "), done
