"""The settings of the library: its variables, and what it makes of wrong values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.children import ROOT, Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, silent

Start = Callable[..., ControlledProgram]


@pytest.fixture
def start(children: Children) -> Iterator[Start]:
    """Starts programs with the counting driver, which knows no managed memory."""
    started: list[ControlledProgram] = []

    def begin(**variables: str) -> ControlledProgram:
        program = ControlledProgram(children.environment | variables)
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


def registered(program: ControlledProgram, run_dir: paths.RunDir) -> wire.Register:
    """What the program says to a scheduler in the run directory."""
    with FakeScheduler(run_dir.client_socket) as scheduler:
        assert program.do("use") == "0"
        return scheduler.register().register


def test_names_are_those_of_paths() -> None:
    """C and Python call the variables the same."""
    source = (ROOT / "src/nvshare/shim/csrc/process/config.c").read_text(encoding="utf-8")
    names = set(re.findall(r'^#define \w+ "(NVSHARE_\w+)"$', source, re.MULTILINE))
    assert names == {paths.RUN_DIR, paths.MEMORY, paths.ON_MISSING, paths.DEBUG, paths.SINGLE_OVERSUB}


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (paths.MEMORY, "swp", "managed, native; using managed"),
        (paths.ON_MISSING, "RUN", "wait, run, fail; using wait"),
        (paths.DEBUG, "yes", "0, 1; using 0"),
        (paths.SINGLE_OVERSUB, "2", "0, 1; using 0"),
    ],
)
def test_wrong_value(start: Start, run_dir: paths.RunDir, name: str, value: str, allowed: str) -> None:
    """A wrong value is said once, with the variable, the value and what is allowed; the default counts."""
    program = start(**{paths.MEMORY: "native", name: value})
    registered(program, run_dir)
    assert program.do("use 1") == "0"
    assert allowed in program.said(f"{name}={value}")
    assert len([line for line in program.errors if f"{name}={value}" in line]) == 1


def test_empty_means_unset(start: Start, run_dir: paths.RunDir) -> None:
    """A variable with nothing in it is as good as none."""
    program = start(**{paths.ON_MISSING: "", paths.DEBUG: "", paths.MEMORY: "native"})
    with FakeScheduler(run_dir.client_socket) as scheduler:
        assert program.do("use") == "0"
        scheduler.register()
        program.end()  # before the scheduler, whose loss it would report; all that it said is read then
    assert program.errors == []


def test_device_without_managed_memory(start: Start, run_dir: paths.RunDir) -> None:
    """The default backend needs managed memory; where there is none, memory is only counted, and one line says so."""
    program = start()
    assert registered(program, run_dir).backend is wire.Backend.NATIVE
    program.said("has no managed memory")


def test_debug_tells_state_changes(start: Start, run_dir: paths.RunDir) -> None:
    """NVSHARE_DEBUG=1 logs what happens to the lock and the connection, and never a launch."""
    program = start(NVSHARE_DEBUG="1", NVSHARE_MEMORY="native")
    with FakeScheduler(run_dir.client_socket) as scheduler:
        assert program.do("use") == "0"
        peer = scheduler.register()
        program.begin("launch")
        peer.expect(wire.ReqLock)
        peer.expect(wire.AskReason)
        peer.grant()
        assert program.answer() == "0"
        program.said("LOCK_OK: link up, lock holding, grant 1")
        before = len(program.errors)
        for _ in range(50):
            assert program.do("launch") == "0"
        assert silent(peer, 0.1)
        assert len(program.errors) == before


def test_run_dir_too_long(start: Start, tmp_path: Path) -> None:
    """A path that no socket can have is said, and then there is no scheduler, with what NVSHARE_ON_MISSING says."""
    long = tmp_path / ("x" * 120)
    program = start(**{paths.RUN_DIR: str(long), paths.MEMORY: "native", paths.ON_MISSING: "fail"})
    assert program.do("use") == "0"
    assert program.do("launch") == "802"
    assert paths.RUN_DIR in program.said("at most 107 are possible")


@pytest.mark.parametrize("variable", ["XDG_RUNTIME_DIR", None])
def test_where_the_socket_is(start: Start, tmp_path: Path, variable: str | None) -> None:
    """Without NVSHARE_RUN_DIR the library looks where paths.py says."""
    environment = {paths.MEMORY: "native", paths.ON_MISSING: "fail", paths.RUN_DIR: ""}
    if variable:
        environment[variable] = str(tmp_path)
    program = start(**environment)
    assert program.do("use") == "0"
    assert program.do("launch") == "802"
    program.said(str(paths.run_dir(environment).client_socket))
