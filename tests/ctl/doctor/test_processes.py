"""What doctor sees of processes that end, fork or execute another program while it looks at them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nvshare.ctl.doctor import proc, watch
from nvshare.ctl.doctor.observation import Seen, with_maps
from nvshare.ctl.doctor.proc import Family, descendants
from nvshare.ctl.doctor.verdict import Shared, judge, members
from nvshare.ctl.starting.execution import execute
from tests.polling import poll_until

DRIVER = "7f0000100000-7f0000200000 r-xp 00100000 08:01 22 /usr/lib/libcuda.so.580.1\n"
LIBRARY = "7f0000300000-7f0000310000 r-xp 00001000 08:01 33 /opt/nvshare/libnvshare.so\n"
FORKS = "import os, time; os.fork(); time.sleep(600)"
EXECUTES = "import os, sys; sys.stdin.read(1); os.execv('/bin/sleep', ['sleep', '600'])"
FORKS_AND_EXECUTES = (
    "import os, sys, time; sys.stdin.read(1); os.fork() and os.execv('/bin/sleep', ['sleep', '600']); time.sleep(600)"
)
GET_CHILD_SUBREAPER = 37
"""Of the kernel's linux/prctl.h."""

Start = Callable[..., "subprocess.Popen[bytes]"]
Reads = Callable[[Callable[[int], str]], None]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program that is ended with the test, and all that it started."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        executes(started[-1].pid, command[0])
        return started[-1]

    yield begin
    for process in started:
        for pid, _parent in descendants(process.pid):
            os.kill(pid, 9)
        with process:
            process.kill()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Makes up what is read of a process's memory, and what happens meanwhile."""

    def make_up(maps: Callable[[int], str]) -> None:
        monkeypatch.setattr(proc, "with_maps", lambda seen, _maps, state: with_maps(seen, maps(seen.pid), state))

    return make_up


@pytest.fixture
def family() -> Family:
    """Of this process."""
    return Family(os.getpid(), "")


def executes(pid: int, name: str) -> None:
    """Waits until it executes that program."""
    command = Path(f"/proc/{pid}/cmdline")
    poll_until(lambda: command.read_bytes().startswith(name.encode() + b"\0"), f"it executes {name}")


def end(pid: int) -> None:
    """Ends a process, for which its parent may not wait."""
    os.kill(pid, 9)
    state = Path(f"/proc/{pid}/stat")
    poll_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z", "it has ended")


def of(family: Family, pid: int) -> list[Seen]:
    """What was seen of that process."""
    return [seen for seen in family.all() if seen.pid == pid]


def test_end_in_the_middle(start: Start, reads: Reads, family: Family) -> None:
    """The mappings of a process that ended meanwhile do not count: the library may have been in the rest."""
    child = start("sleep", "600")

    def ends(pid: int) -> str:
        end(pid)
        return DRIVER

    reads(ends)
    family.look()
    assert [(seen.command, seen.drivers) for seen in of(family, child.pid)] == [("sleep 600", 0)]


def test_end_behind_the_mappings(start: Start, reads: Reads, monkeypatch: pytest.MonkeyPatch, family: Family) -> None:
    """A program that escapes is found although it ended before all of it was read."""
    child = start("sleep", "600")
    reads(lambda _pid: DRIVER)
    monkeypatch.setattr(proc, "elf_of", lambda _path: end(child.pid))
    family.look()
    assert [(seen.command, seen.drivers) for seen in of(family, child.pid)] == [("sleep 600", 1)]


def test_doctor_is_no_process_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the child takes to become the command: nothing is seen of it before."""

    def late(executable: str, command: list[str], environment: Mapping[str, str]) -> None:
        time.sleep(0.2)
        execute(executable, command, environment)

    monkeypatch.setattr(watch, "execute", late)
    seen = watch.run("/bin/sleep", ["sleep", "0.1"], os.environ).seen
    assert [one.command for one in seen] == ["sleep 0.1"]


def test_orphans_are_adopted_only_while_it_watches() -> None:
    """Of who called it, nothing has changed: a process that takes in strangers must see to their ends."""
    watch.run("/bin/true", ["true"], os.environ)
    adopts = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0) == 0
    assert adopts.value == 0


def test_command_that_ends_before_its_file_is_read() -> None:
    """What kind of file the command is can be seen without it."""
    path = Path(sys.executable).resolve()
    cut_off, other = Seen(7, 1, command="python", executable=str(path)), Seen(8, 7, executable="/bin/sh")
    seen = watch._with_command((cut_off, other), 7, sys.executable, ["python"])
    assert seen == (replace(cut_off, elf=proc.elf_of(path)), other)
    assert [one.pid for one in watch._with_command((other,), 7, sys.executable, ["python"])] == [7, 8]


def test_end_after_a_whole_look(start: Start, reads: Reads, family: Family) -> None:
    """What was seen of it before stays."""
    child = start("sleep", "600")
    reads(lambda _pid: "")
    family.look()
    before = of(family, child.pid)

    def ends(pid: int) -> str:
        end(pid)
        return DRIVER

    reads(ends)
    family.look()
    assert [seen.command for seen in before] == ["sleep 600"]
    assert of(family, child.pid) == before


def test_exec_in_the_middle(start: Start, reads: Reads, family: Family) -> None:
    """What is read across an exec belongs to no program; the new one is looked at at once."""
    child = start(sys.executable, "-c", EXECUTES)
    assert child.stdin is not None
    pipe, pieces = child.stdin, [DRIVER, ""]

    def executes_another(pid: int) -> str:
        if len(pieces) > 1:
            pipe.write(b"\n")
            pipe.flush()
            executes(pid, "sleep")
        return pieces.pop(0)

    reads(executes_another)
    family.look()
    assert [seen.drivers for seen in of(family, child.pid)] == [0, 0]
    assert [seen.command for seen in of(family, child.pid)][1:] == ["sleep 600"]


def forked_child(parent: int) -> int:
    """The one that it forks."""
    poll_until(lambda: list(descendants(parent)), "it has forked")
    return next(child for child, _parent in descendants(parent))


def test_in_the_middle_of_an_exec(tmp_path: Path) -> None:
    """While a program is being loaded its command line and its environment are empty: they are read again."""
    (tmp_path / "exe").symlink_to("/bin/sleep")
    command, environment = tmp_path / "cmdline", tmp_path / "environ"
    for file in (command, environment):
        file.write_bytes(b"")
    early = proc._program(Seen(7, 1), tmp_path)
    command.write_bytes(b"sleep\x00600\x00")
    environment.write_bytes(b"LD_PRELOAD=/opt/nvshare/libnvshare.so\x00")
    seen = proc._program(early, tmp_path)
    assert (early.command, seen.command, seen.executable) == ("", "sleep 600", "/bin/sleep")
    assert (early.told_to, seen.told_to) == (False, True)


def test_forked_child(start: Start, reads: Reads, family: Family) -> None:
    """A forked child counts with all that its parent had, however soon it ends, and does not escape."""
    parent = start(sys.executable, "-c", FORKS)
    child = forked_child(parent.pid)

    def ends(pid: int) -> str:
        if pid == child:
            end(pid)
            return DRIVER
        return DRIVER + LIBRARY

    reads(ends)
    family.look()
    (of_parent,) = of(family, parent.pid)
    assert of_parent.preloaded
    assert of(family, child) == [replace(of_parent, pid=child, parent=parent.pid, forked=True)]
    assert judge(members(family.all(), [])).shared is Shared.UNUSED


def test_forked_child_whose_parent_went_on(start: Start, reads: Reads, family: Family) -> None:
    """A forked child is one also where its parent is not any more what made it."""
    parent = start(sys.executable, "-c", FORKS_AND_EXECUTES)
    assert parent.stdin is not None
    reads(lambda _pid: DRIVER + LIBRARY)
    family.look()
    parent.stdin.write(b"\n")
    parent.stdin.flush()
    executes(parent.pid, "sleep")
    child = forked_child(parent.pid)
    family.look()
    assert [(seen.forked, seen.preloaded) for seen in of(family, child)] == [(True, True)]
    assert [seen.forked for seen in of(family, parent.pid)] == [False, False]


def test_forked_child_has_no_context_of_its_parents(start: Start, reads: Reads, family: Family) -> None:
    """What NVML says of the parent is not true of the child."""
    parent = start("sleep", "600")
    reads(lambda _pid: DRIVER + LIBRARY)
    family.look()
    family.contexts(frozenset({parent.pid}), time.monotonic() + 1.0)
    assert [seen.context for seen in of(family, parent.pid)] == [True]
    (stamp,) = {key[1] for key in family._known if key[0] == parent.pid}
    assert not family._begun((0, stamp), parent.pid).context


def test_memory_that_must_not_be_read(
    start: Start, reads: Reads, monkeypatch: pytest.MonkeyPatch, family: Family
) -> None:
    """Whose arguments are hidden is not taken for another program, nor for a forked one."""
    shown = start("sleep", "600")
    reads(lambda _pid: "")
    family.look()
    parent = start(sys.executable, "-c", FORKS)
    child = forked_child(parent.pid)

    def forbidden(_pid: int) -> str:
        raise PermissionError

    reads(forbidden)
    stamp_of = proc._stamp_of
    monkeypatch.setattr(proc, "_stamp_of", lambda pid: (stamp_of(pid)[0], "0"))
    family.look()
    assert [seen.hidden for seen in of(family, shown.pid)] == [False]
    assert [(seen.hidden, seen.forked) for seen in of(family, child)] == [(True, False)]


def test_ended_before_it_was_looked_at(start: Start, family: Family) -> None:
    """A process that nobody has waited for yet is none any more, whatever NVML said."""
    child = start("sleep", "600")
    end(child.pid)
    family.look()
    family.contexts(frozenset({child.pid}), time.monotonic() + 1.0)
    assert of(family, child.pid) == []


def test_end_while_its_children_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose threads are gone has no children."""

    def gone(_folder: object) -> Iterator[object]:
        raise ProcessLookupError

    monkeypatch.setattr(os, "scandir", gone)
    monkeypatch.setattr(os, "listdir", gone)
    assert list(descendants(os.getpid())) == []


def test_name_that_is_no_text(start: Start, family: Family) -> None:
    """The kernel cuts a name after 15 bytes, wherever that is."""
    named = "open('/proc/self/comm', 'wb').write(b'fourteen bytes\\xc3'); import time; time.sleep(600)"
    child = start(sys.executable, "-c", named)
    name = Path(f"/proc/{child.pid}/comm")
    poll_until(lambda: name.read_bytes().endswith(b"\xc3\n"), "it has its name")
    family.look()
    assert len(of(family, child.pid)) == 1


def test_context_of_the_program_before(start: Start, family: Family) -> None:
    """An answer of NVML's is about the program that was there when it was asked, or a moment before."""
    child = start(sys.executable, "-c", EXECUTES)
    assert child.stdin is not None
    family.look()
    asked = time.monotonic()
    child.stdin.write(b"\n")
    child.stdin.flush()
    executes(child.pid, "sleep")
    family.look()
    for moment in (asked, max(family._known.values()) + 0.05):
        family.contexts(frozenset({child.pid}), moment)
        assert [seen.context for seen in of(family, child.pid)] == [False, False]
    family.contexts(frozenset({child.pid}), time.monotonic() + 1.0)
    assert [seen.context for seen in of(family, child.pid)] == [False, True]
