"""The settings of the library: its variables, and what it makes of wrong values."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare import paths, switches
from nvshare.protocol import wire
from tests.another_user import UID, as_user
from tests.shim.children import ROOT, Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, silent

Start = Callable[..., ControlledProgram]


@pytest.fixture
def start(children: Children) -> Iterator[Start]:
    """Starts programs with the counting driver, which knows no managed memory."""
    started: list[ControlledProgram] = []

    def begin(*prefix: str, **variables: str) -> ControlledProgram:
        program = ControlledProgram(children.environment | variables, prefix)
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


def registered(program: ControlledProgram, run_dir: paths.RunDir) -> wire.Register:
    """What the program says to a scheduler in the run directory."""
    with FakeScheduler(run_dir.client_socket) as scheduler:
        return scheduler.serve(program).register


def test_names_are_those_of_paths() -> None:
    """C and Python call the variables the same."""
    source = (ROOT / "src/nvshare/shim/csrc/process/config.c").read_text(encoding="utf-8")
    names = set(re.findall(r'^#define \w+ "(NVSHARE_\w+)"$', source, re.MULTILINE))
    own = {paths.RUN_DIR, paths.MEMORY, paths.ON_MISSING, paths.DEBUG, paths.SINGLE_OVERSUB, paths.GANG}
    assert names == own


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (paths.MEMORY, "swp", "swap, managed, native; using swap"),
        (paths.ON_MISSING, "RUN", "wait, run, fail; using wait"),
        (paths.DEBUG, "please", "0, false, no, off, 1, true, yes, on; it counts as on"),
        (paths.SINGLE_OVERSUB, "2", "0, false, no, off, 1, true, yes, on; it counts as on"),
    ],
)
def test_wrong_value(start: Start, run_dir: paths.RunDir, name: str, value: str, allowed: str) -> None:
    """A wrong value is said once, with the variable, the value, what is allowed and what counts."""
    program = start(**{paths.MEMORY: "native", name: value})
    registered(program, run_dir)
    assert program.do("use 1") == "0"
    assert allowed in program.said(f"{name}={value}")
    assert len([line for line in program.errors if f"{name}={value}" in line]) == 1


@pytest.mark.parametrize("word", ["0", "1", "false", "True", "NO", "yes", "Off", "on", "please"])
def test_switches(start: Start, run_dir: paths.RunDir, word: str) -> None:
    """The words of switches.py, whatever their case, say on or off; whatever else is set is on, as in the original."""
    program = start(**{paths.MEMORY: "native", paths.DEBUG: word})
    with FakeScheduler(run_dir.client_socket) as scheduler:
        scheduler.serve(program)
        program.end()
    debug, complaint = switches.read(paths.DEBUG, {paths.DEBUG: word})
    assert any("link" in line for line in program.errors) is debug
    assert ([line for line in program.errors if paths.DEBUG in line] or [""]) == [
        f"nvshare: {complaint}" if complaint else ""
    ]


def test_words_of_switches_are_those_of_python() -> None:
    """C and Python take the same ones; those for off come first."""
    source = (ROOT / "src/nvshare/shim/csrc/process/config.c").read_text(encoding="utf-8")
    (listed,) = re.findall(r"switches\[\] = \{(.*?)\};", source, re.DOTALL)
    assert re.findall(r'"(\w+)"', listed) == list(switches.WORDS)
    assert list(switches.WORDS.values()) == sorted(switches.WORDS.values())


def test_empty_means_unset(start: Start, run_dir: paths.RunDir) -> None:
    """A variable with nothing in it is as good as none."""
    program = start(**{paths.ON_MISSING: "", paths.DEBUG: "", paths.MEMORY: "native"})
    with FakeScheduler(run_dir.client_socket) as scheduler:
        scheduler.serve(program)
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
        peer = scheduler.serve(program)
        program.said("SCHED_ON: link up")
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
    program.said("no scheduler at a path that no socket can have; GPU work fails until there is one")


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


@pytest.fixture
def system(run_dir: paths.RunDir) -> paths.RunDir:
    """What a user's program finds as the system's run directory, made and empty."""
    system = paths.RunDir(run_dir.root / "system")
    system.root.mkdir()
    return system


@pytest.fixture
def own(run_dir: paths.RunDir) -> paths.RunDir:
    """The user's own run directory: the one where XDG_RUNTIME_DIR is the test's run directory."""
    return paths.RunDir(run_dir.root / "nvshare")


def as_somebody(start: Start, system: paths.RunDir, own: paths.RunDir) -> ControlledProgram:
    """A program of a user who is not root."""
    variables = {paths.MEMORY: "native", paths.RUN_DIR: "", "XDG_RUNTIME_DIR": str(own.root.parent)}
    return start(*as_user(system.root), **variables)


def test_system_scheduler_comes_first(start: Start, system: paths.RunDir, own: paths.RunDir) -> None:
    """A user's program goes to the system's scheduler though one of the user's own answers; a third has no say."""
    with FakeScheduler(system.client_socket) as theirs, FakeScheduler(own.client_socket) as ours:
        program = as_somebody(start, system, own)
        peer = theirs.serve(program)
        program.begin("launch")
        peer.expect(wire.ReqLock)
        peer.grant()
        assert program.answer() == "0"
        ours.listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.accept()


@pytest.mark.parametrize("found", ["system", "own"])
@pytest.mark.parametrize("late", [False, True])
def test_whichever_scheduler_there_is(
    start: Start, system: paths.RunDir, own: paths.RunDir, found: str, late: bool
) -> None:
    """With one scheduler only, that is used, also when it comes after a while; the warning names both places."""
    path = {"system": system, "own": own}[found].client_socket
    program = as_somebody(start, system, own)
    if late:
        assert program.do("use") == "0"
        program.begin("launch")
        system_socket = paths.RunDir(paths.SYSTEM_RUN_DIR).client_socket
        program.said(f"no scheduler at {system_socket} or {own.client_socket}; waiting for one")
    with FakeScheduler(path) as scheduler:
        if not late:
            assert program.do("use") == "0"
        scheduler.register()
        assert paths.run_dirs({"XDG_RUNTIME_DIR": str(own.root.parent)}, UID)[-1] == own


def test_client_stays_and_then_finds_the_other(start: Start, system: paths.RunDir, own: paths.RunDir) -> None:
    """A client of the user's own scheduler stays when the system's begins, and goes there when its own is gone."""
    with FakeScheduler(own.client_socket) as ours:
        program = as_somebody(start, system, own)
        peer = ours.serve(program)
        with FakeScheduler(system.client_socket) as theirs:
            program.begin("launch")
            peer.expect(wire.ReqLock)
            ours.die()
            shutil.rmtree(own.root)
            assert theirs.register().register.state is wire.State.WAITING


def test_busy_scheduler_is_not_passed_over(start: Start, system: paths.RunDir, own: paths.RunDir) -> None:
    """The system's scheduler that accepts nobody for a while is there: the user's own is not used in its place."""
    with FakeScheduler(system.client_socket) as theirs, FakeScheduler(own.client_socket) as ours:
        theirs.listener.listen(0)
        crowd = _fill(system.client_socket)
        program = as_somebody(start, system, own)
        assert program.do("use") == "0"
        program.begin("launch")
        program.said("no scheduler at")
        ours.listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.accept()
        for one in crowd:
            theirs.listener.accept()[0].close()
            one.close()
        theirs.register()


def _fill(path: Path) -> list[socket.socket]:
    """Connects until nobody else can."""
    crowd = []
    with suppress(BlockingIOError):
        while True:
            crowd.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            crowd[-1].setblocking(False)
            crowd[-1].connect(str(path))
    crowd.pop().close()
    return crowd
