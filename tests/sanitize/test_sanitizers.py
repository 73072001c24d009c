"""The C code under AddressSanitizer with UBSan, and under ThreadSanitizer."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.conftest import Libraries, Scheduler, libraries_of
from tests.programs.compiler import KERNELS, compiled
from tests.shim.controlled_program import ControlledProgram
from tests.shim.drowsy_scheduler import Drowsy
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.restless_scheduler import Restless

RUNTIMES = {"asan": "libasan.so", "tsan": "libtsan.so"}
# A finding ends the program with this status, which it has for no other reason.
FOUND = 99
OPTIONS = {
    "ASAN_OPTIONS": f"exitcode={FOUND}:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": f"exitcode={FOUND}:print_stacktrace=1",
    "TSAN_OPTIONS": f"exitcode={FOUND}:halt_on_error=1:second_deadlock_stack=1",
}

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


@pytest.fixture(params=RUNTIMES)
def sanitizer(request: pytest.FixtureRequest) -> str:
    """Each sanitizer, by the name of its target."""
    return str(request.param)


@pytest.fixture
def sanitized(sanitizer: str) -> Libraries:
    """The libraries with the sanitizer's checks in them."""
    return libraries_of(sanitizer)


@pytest.fixture
def program(sanitizer: str, sanitized: Libraries, tmp_path: Path) -> Path:
    """work.c with the sanitizer's checks in it."""
    return compiled("work", build_native.TARGETS[sanitizer], sanitized.cuda, tmp_path)


@pytest.fixture
def checked(sanitized: Libraries, environment: dict[str, str]) -> dict[str, str]:
    """The environment of a program that uses the checked simulated driver."""
    return {**environment, **OPTIONS, "LD_LIBRARY_PATH": str(sanitized.driver_folder)}


def runtime(sanitizer: str) -> str:
    """The sanitizer's own library, which must come before all others."""
    command = ["gcc", f"-print-file-name={RUNTIMES[sanitizer]}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_simulated_driver(program: Path, checked: dict[str, str]) -> None:
    """Threads that launch, copy, capture and free find nothing wrong in the simulated driver."""
    result = subprocess.run([program, KERNELS, "8", "200"], env=checked, capture_output=True, text=True, timeout=200)
    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr[-8000:]


def finds_nothing_in_turns(command: list[str], preloaded: dict[str, str], start: Callable[..., Scheduler]) -> None:
    """Two programs that take turns, and whose results are right, find nothing wrong in the library."""
    start("--policy", "exclusive", "--quantum", "0.2")
    programs = [
        subprocess.Popen(command, env=preloaded, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for running in programs:
        output, errors = running.communicate(timeout=200)
        assert (running.returncode, output) == (0, "right\n"), errors[-8000:]


@pytest.fixture
def preloaded(sanitizer: str, sanitized: Libraries, checked: dict[str, str]) -> dict[str, str]:
    """The same under the checked library."""
    return {**checked, "LD_PRELOAD": f"{runtime(sanitizer)}:{sanitized.shim}"}


def test_library(program: Path, preloaded: dict[str, str], start_scheduler: Callable[..., Scheduler]) -> None:
    """Two programs that take turns find nothing wrong in the library."""
    finds_nothing_in_turns([str(program), str(KERNELS), "8", "200"], preloaded, start_scheduler)


def test_contexts(
    sanitizer: str,
    sanitized: Libraries,
    tmp_path: Path,
    preloaded: dict[str, str],
    start_scheduler: Callable[..., Scheduler],
) -> None:
    """Nor do two whose threads make and end contexts all the time, primary ones and others, while turns change."""
    program = compiled("contexts", build_native.TARGETS[sanitizer], sanitized.cuda, tmp_path)
    finds_nothing_in_turns([str(program), "4", "200"], preloaded, start_scheduler)


def test_swaps(
    sanitizer: str, sanitized: Libraries, tmp_path: Path, preloaded: dict[str, str], run_dir: paths.RunDir
) -> None:
    """Nor does one whose memory is brought out and in all the time, while its threads allocate and free."""
    program = compiled("swaps", build_native.TARGETS[sanitizer], sanitized.cuda, tmp_path)
    command, variables = [str(program), "3", "40", "1"], preloaded | {paths.MEMORY: "swap"}
    with FakeScheduler(run_dir.client_socket) as scheduler:
        restless = Restless(scheduler, random.Random(1), refuses_above=6 * CHUNK)
        with subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            try:
                restless.serve(running)
            finally:
                running.kill()
            output, errors = running.communicate()
    assert (running.returncode, output) == (0, "right\n"), errors[-8000:]


def test_stores(
    sanitizer: str, sanitized: Libraries, tmp_path: Path, preloaded: dict[str, str], run_dir: paths.RunDir
) -> None:
    """Nor does one that sleeps again and again, whose memory goes into files and packs, while schedulers die."""
    program = compiled("rests", build_native.TARGETS[sanitizer], sanitized.cuda, tmp_path)
    variables = preloaded | {paths.MEMORY: "swap"}
    with FakeScheduler(run_dir.client_socket) as scheduler:
        running = ControlledProgram(variables, (), str(program), ("6", "1"), compiled=True)
        try:
            drowsy = Drowsy(scheduler, running, tmp_path, random.Random(1), dies=0.3)
            drowsy.meet()
            for _ in range(20):
                drowsy.turn()
            while not (drowsy.stored and drowsy.deduped):
                drowsy.turn()
            drowsy.look()
            assert running.process.stdin
            running.process.stdin.close()
            running.process.wait(60)
        finally:
            running.end()
    assert running.process.returncode == 0, running.errors
