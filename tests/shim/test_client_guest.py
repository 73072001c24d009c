"""The client as a guest in somebody else's process: signals, errno, threads, fork and exec."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram, alive
from tests.shim.fake_scheduler import FakeScheduler, hung_up, silent
from tests.shim.lock_server import Peer
from tests.shim.thread_state import client_waits


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[FakeScheduler]:
    """Listens where the program looks."""
    with FakeScheduler(run_dir.client_socket) as fake:
        yield fake


@pytest.fixture
def program(children: Children) -> Iterator[ControlledProgram]:
    """A program with the counting driver and native memory."""
    controlled = ControlledProgram(children.environment | {paths.MEMORY: "native"})
    yield controlled
    controlled.end()


@pytest.fixture
def forked(program: ControlledProgram) -> Iterator[list[int]]:
    """Pids of children of the program, to be ended after the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reach_holding(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """A launch has been let through."""
    peer = scheduler.serve(program)
    program.begin("launch")
    peer.expect(wire.ReqLock)
    peer.grant()
    assert program.answer() == "0"
    return peer


def test_sigpipe_never(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """A scheduler that goes away while the client has something to say ends no program."""
    program.do("end_by_sigpipe")
    for _ in range(5):
        peer = reach_holding(program, scheduler) if not scheduler.peers else scheduler.register()
        peer.connection.shutdown(socket.SHUT_RD)
        assert program.do("allocate 100") == "0"
        assert hung_up(peer)
    assert program.do("launch") == "0"


def test_errno_is_kept(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """Neither a launch that waits for the lock nor one that finds no scheduler changes errno."""
    peer = reach_holding(program, scheduler)
    peer.take_back()
    program.begin("launch_errno")
    peer.expect(wire.ReqLock)
    peer.grant()
    assert program.answer() == "0 77"
    scheduler.die()
    program.said("lost the scheduler")
    assert program.do("launch_errno") == "0 77"


def threads(program: ControlledProgram) -> dict[str, tuple[int, int]]:
    """Each thread's blocked signals and how often it has slept, by its name."""
    found = {}
    for text in program.do("threads").split(";"):
        name, blocked, slept = text.split(",")
        found[name] = (int(blocked, 16), int(slept))
    return found


def test_thread_takes_no_signals(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """All signals that can be blocked are, in our thread alone."""
    assert "nvshare" not in threads(program)
    reach_holding(program, scheduler)
    blocked, _ = threads(program)["nvshare"]
    unblockable = {signal.SIGKILL, signal.SIGSTOP, 32, 33}
    for number in range(1, 65):
        assert number in unblockable or blocked >> (number - 1) & 1, number
    program.process.send_signal(signal.SIGUSR1)
    assert program.process.wait(10) == -signal.SIGUSR1


def test_thread_beside_large_static_tls(
    children: Children, scheduler: FakeScheduler, compile_c: Callable[..., Path], spy: Path
) -> None:
    """A program whose thread-local variables are larger than our thread's stack has a client none the less."""
    program = compile_c("programs/static_tls.c", "static_tls", str(spy / "libcuda.so.1"))
    running = subprocess.Popen([program], env=children.environment)
    try:
        peer = scheduler.register()
        peer.expect_wanting()
        peer.grant()
        assert running.wait(10) == 0
    finally:
        running.kill()
        running.wait()


def test_nobody_waits_nobody_wakes(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """Our thread sleeps while nothing happens, however much is launched."""
    peer = reach_holding(program, scheduler)
    _, before = threads(program)["nvshare"]
    for _ in range(200):
        program.do("launch")
    assert silent(peer, 0.5)
    assert threads(program)["nvshare"][1] <= before + 1


def test_forked_child_is_another_client(
    program: ControlledProgram, scheduler: FakeScheduler, forked: list[int]
) -> None:
    """A child that uses the device registers as itself and has no lock; the parent keeps its own."""
    parent = reach_holding(program, scheduler)
    forked.append(int(program.do("fork use")))
    child = scheduler.register()
    assert child.register.pid == forked[0]
    assert child.register.footprint_bytes == 0
    if child.register.state is not wire.State.WAITING:
        assert child.register.state is wire.State.IDLE
        child.expect(wire.ReqLock)
    parent.take_back()
    child.grant()
    client_waits(child, forked[0])


def test_forked_child_does_not_keep_the_lock(
    program: ControlledProgram, scheduler: FakeScheduler, forked: list[int]
) -> None:
    """When the parent ends, the scheduler sees it end, whatever children live on."""
    peer = reach_holding(program, scheduler)
    forked.append(int(program.do("fork idle")))
    program.process.kill()
    assert hung_up(peer)
    assert alive(forked[0])


def test_forked_child_that_uses_nothing(
    program: ControlledProgram, scheduler: FakeScheduler, forked: list[int]
) -> None:
    """A child that never uses the GPU has no thread and no file of ours."""
    reach_holding(program, scheduler)
    forked.append(int(program.do("fork idle")))
    assert len(list(Path(f"/proc/{forked[0]}/task").iterdir())) == 1
    poll_until(lambda: not ours(forked[0]), "the child has closed what it inherited")
    assert len(ours(program.pid)) == len(("wakes the thread", "its other end", "the connection", "a spare number"))


def ours(pid: int) -> list[str]:
    """The process's sockets."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            links.append(str(path.readlink()))
    return [link for link in links if link.startswith("socket:")]


def test_exec_ends_the_client(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """What the process becomes by exec has nothing of ours, and the scheduler sees the client end."""
    peer = reach_holding(program, scheduler)
    program.begin("execute")
    assert program.answer() == "replaced"
    assert hung_up(peer)
    assert not ours(program.pid)
