"""The program's own virtual memory on the simulated GPU, while it is brought out and in again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.children import PROGRAMS, ROOT, Children
from tests.shim.swap_scheduler import MIB, SwapScheduler

CASES = {
    "virtual_memory.py": ("grows", "segments", "twice", "wrong", "questions", "exported", "on_the_host"),
    "memory_uses.py": ("managed", "pooled", "graphs", "captured_free"),
}
PROGRAM_OF = {case: program for program, cases in CASES.items() for case in cases}
PROGRAM_OF |= dict.fromkeys(("looks", "shared", "peers", "copied", "across"), "memory_uses.py")
EVERY_CASE = [case for cases in CASES.values() for case in cases]


@pytest.fixture
def bare(environment: dict[str, str]) -> dict[str, str]:
    """A program on a simulated GPU, without the library."""
    return environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", paths.SIMGPU_DEVICES: "2x16GiB"}


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[SwapScheduler]:
    """Gives a client what it wants and takes it away."""
    with SwapScheduler(run_dir.client_socket) as scheduler:
        yield scheduler


def lines_of(output: str) -> list[str]:
    """Without the steps."""
    return [line for line in output.splitlines() if line not in ("step", "look")]


def run_stepping(
    environment: dict[str, str],
    case: str,
    at_step: Callable[[], None],
    at_look: Callable[[], None] = lambda: None,
    during_look: Callable[[], None] = lambda: None,
    at_end: Callable[[], None] = lambda: None,
) -> list[str]:
    """What the case prints when something happens at each of its steps, before and during each look, and at its end."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / PROGRAM_OF[case]), case],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin
    assert process.stdout
    lines = []
    try:
        for line in process.stdout:
            if line in ("step\n", "look\n"):
                (at_step if line == "step\n" else at_look)()
                process.stdin.write("\n")
                process.stdin.flush()
                if line == "look\n":
                    during_look()
            else:
                lines.append(line.rstrip("\n"))
                if line.startswith("end "):
                    at_end()
    except BaseException:
        process.kill()
        raise
    finally:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    return lines


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", EVERY_CASE)
def test_taken_away_at_every_step(
    bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler, case: str
) -> None:
    """With all memory out between any two calls a program sees what it sees without the library."""
    expected = lines_of(Children(bare).run_python(PROGRAM_OF[case], case))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}

    def take_away() -> None:
        scheduler.evict()
        scheduler.open()

    assert run_stepping(environment, case, take_away) == expected
    assert scheduler.client.most_resident > 50 * MIB
    written = case not in ("wrong", "questions", "exported")
    assert scheduler.client.most_out > MIB or not written, "what was written is in host memory"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", EVERY_CASE)
def test_nothing_taken_away(bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler, case: str) -> None:
    """The same with everything on the device all the time."""
    expected = lines_of(Children(bare).run_python(PROGRAM_OF[case], case))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}

    def until_given_back() -> None:
        poll_until(lambda: scheduler.client.memory.footprint_bytes <= 2 * MIB, "what was released is given back")

    assert run_stepping(environment, case, lambda: None, at_end=until_given_back) == expected


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", ["wrong", "questions"])
def test_answers_without_the_lock(
    bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler, case: str
) -> None:
    """Making, mapping and asking submit nothing: they are answered while another process has its turn."""
    expected = lines_of(Children(bare).run_python(PROGRAM_OF[case], case))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
    assert run_stepping(environment, case, scheduler.evict) == expected


@pytest.mark.timeout(180)
def test_looks_wait_for_the_lock(bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler) -> None:
    """What looks at device memory waits for the lock and for its memory, as submissions do."""
    expected = lines_of(Children(bare).run_python(PROGRAM_OF["looks"], "looks"))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
    waited = []

    def until_it_waits() -> None:
        waited.append(poll_until(lambda: scheduler.client.wants, "the call waits for the lock"))
        scheduler.open()

    assert run_stepping(environment, "looks", lambda: None, scheduler.evict, until_it_waits) == expected
    assert len(waited) == 6


def test_cuda_ipc(bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler) -> None:
    """Plain memory has a handle, whatever the scheduler; who can open it, and that it stays, is said once."""
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
    printed = subprocess.run(
        [sys.executable, str(PROGRAMS / PROGRAM_OF["shared"]), "shared"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert lines_of(printed.stdout)[:3] == [
        "cuIpcGetMemHandle CUDA_SUCCESS",
        "cuIpcGetMemHandle CUDA_SUCCESS",
        "cuIpcGetMemHandle CUDA_ERROR_INVALID_VALUE",
    ]
    assert printed.stderr.count("stays on the GPU") == 1
    assert any("stays on the GPU" in notice for notice in scheduler.client.notices)


@pytest.mark.parametrize("case", ["peers", "copied", "across"])
def test_other_devices(bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler, case: str) -> None:
    """One GPU's work uses another one's memory, plain and mapped, before and after it was taken away."""
    expected = lines_of(Children(bare).run_python(PROGRAM_OF[case], case))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}

    def take_away() -> None:
        scheduler.evict()
        scheduler.open()

    assert run_stepping(environment, case, take_away) == expected
    assert len(scheduler.clients) == 2
