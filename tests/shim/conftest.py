"""Fixtures for the library: a driver that counts who comes in, and processes under both."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.shim import spy_driver
from tests.shim.children import ROOT, Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.gang_job import Job


@pytest.fixture(scope="session")
def spy(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Path:
    """The folder with the counting driver."""
    return spy_driver.build(tool("gcc"), tmp_path_factory.mktemp("spy")).parent


@pytest.fixture
def bare_children(environment: dict[str, str], spy: Path) -> Children:
    """Processes with the counting driver, without the library."""
    return Children(environment | {"LD_LIBRARY_PATH": str(spy), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"})


@pytest.fixture
def children(bare_children: Children, libraries: Libraries) -> Children:
    """Processes with the counting driver, under the library."""
    return Children(bare_children.environment | {"LD_PRELOAD": str(libraries.shim)})


@pytest.fixture
def compile_c(tmp_path: Path, tool: Callable[[str], str]) -> Callable[..., Path]:
    """Compiles a C file beside the tests into the test's folder."""

    def compile_one(name: str, output: str, *flags: str) -> Path:
        return spy_driver.compile_c(tool("gcc"), Path(__file__).parent / name, tmp_path / output, *flags)

    return compile_one


@pytest.fixture
def fake_scheduler(run_dir: paths.RunDir) -> Iterator[FakeScheduler]:
    """Listens where programs look."""
    with FakeScheduler(run_dir.client_socket) as fake:
        yield fake


@pytest.fixture
def start(children: Children) -> Iterator[Callable[..., ControlledProgram]]:
    """Starts programs with the counting driver and native memory."""
    started: list[ControlledProgram] = []

    def begin(**variables: str) -> ControlledProgram:
        program = ControlledProgram(children.environment | {paths.MEMORY: "native"} | variables)
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


@pytest.fixture
def start_swapping(environment: dict[str, str], libraries: Libraries) -> Iterator[Callable[..., ControlledProgram]]:
    """Starts ``programs/swap_loop.py`` on a simulated device, with memory that swaps."""
    started: list[ControlledProgram] = []

    def begin(**variables: str) -> ControlledProgram:
        own = {"LD_PRELOAD": str(libraries.shim), paths.MEMORY: "swap"}
        program = ControlledProgram(environment | own | variables, name="swap_loop.py")
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


@pytest.fixture
def fail(libraries: Libraries, tool: Callable[[str], str]) -> Callable[..., None]:
    """Makes a function of the driver of a program do nothing but give a result, as ``swap_loop.fail`` says."""
    lines = subprocess.check_output([tool("nm"), "-D", libraries.cuda], text=True).splitlines()
    places = {name: int(place, 16) for place, _, name in (line.split() for line in lines if line[0] != " ")}

    def fail_one(program: ControlledProgram, function: str, result: int | str) -> None:
        assert program.do(f"fail {places[function]} {result}") == "None"

    return fail_one


@pytest.fixture
def start_job(environment: dict[str, str], libraries: Libraries, tmp_path: Path) -> Iterator[Callable[[int], Job]]:
    """A job of so many ranks, without processes."""
    own = {
        "LD_PRELOAD": str(libraries.shim),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        paths.SIMGPU_DEVICES: "4x1GiB/1MiB",
        paths.MEMORY: "native",
        paths.DEBUG: "1",
    }
    jobs: list[Job] = []

    def start(ranks: int) -> Job:
        jobs.append(Job(environment | own, tmp_path, ranks))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()
