"""The run directory belongs to one scheduler, and nothing that answers in it is taken away."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from nvshare import scheduler_process
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.protocol import wire
from nvshare.scheduler.run_dir import Claim, RunDirError, claimed
from nvshare.unix_sockets import distrust, listening_pid
from tests.ctl.program import ctl
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler, WireClient
from tests.stopping import stop

LOST = "the run directory is lost: those who are connected are served, and this scheduler ends with the last"
Serve = Callable[..., Scheduler]
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")


def start(root: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """A scheduler that is to fail."""
    return subprocess.run(
        [*before, sys.executable, "-m", "nvshare.scheduler", "--run-dir", root],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@contextmanager
def no_room() -> Iterator[None]:
    """Files can be made, and nothing can be written to them."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """Somebody's scheduler: what is not accepted yet is answered too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield


def test_claim_does_not_hang_on_a_file(serve: Serve) -> None:
    """Whoever removes scheduler.pid takes no protection away; the first scheduler and its sockets stay."""
    scheduler = serve()
    scheduler.run_dir.pid_file.unlink()
    second = start(scheduler.run_dir.root)
    assert second.returncode == 1
    assert f"a scheduler with pid {scheduler.process.pid} already serves" in second.stderr
    scheduler.client().register()
    assert scheduler.status().scheduler_pid == scheduler.process.pid


def test_another_ones_files_are_left_at_the_end(serve: Serve) -> None:
    """Of one whose directory was removed and made anew by another scheduler: it ends when nobody is connected."""
    first = serve()
    client = first.client().register()
    stop(first.process.pid)
    first.run_dir.root.rename(first.run_dir.root.with_name("away"))
    second = serve()
    first.process.send_signal(signal.SIGCONT)
    [line] = first.logged(LOST)
    assert f"a scheduler with pid {second.process.pid} already serves" in str(line["reason"])
    client.lock()
    client.close()
    assert first.process.wait(TIMEOUT_SECONDS) == 1
    for path in (second.run_dir.client_socket, second.run_dir.legacy_socket, second.run_dir.admin_socket):
        assert listening_pid(path) == second.process.pid
    assert second.run_dir.pid_file.read_text() == f"{second.process.pid}\n"


@pytest.mark.parametrize("which", ["client_socket", "legacy_socket", "admin_socket"])
def test_a_live_socket_is_never_taken_away(run_dir: RunDir, which: str) -> None:
    """Whoever answers, ours of an older version or the original's, is named and goes on; dead files are replaced."""
    path: Path = getattr(run_dir, which)
    with listening(path):
        ended = start(run_dir.root)
        assert ended.returncode == 1
        assert f"another scheduler, pid {os.getpid()}, already serves {path}" in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert listening_pid(path) == os.getpid()
        assert not run_dir.pid_file.exists()
    assert listening_pid(path) is None
    with claimed(run_dir) as claim:
        claim.listen(path, 0o600).close()


def test_a_full_queue_is_an_answer(run_dir: RunDir) -> None:
    """A scheduler that stands still is one."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(str(run_dir.legacy_socket))
        listener.listen(0)
        waiting.connect(str(run_dir.legacy_socket))
        with pytest.raises(RunDirError, match="a process that can't be seen from here"), claimed(run_dir):
            pass


def test_run_beside_the_originals_scheduler(run_dir: RunDir) -> None:
    """``nvshare-ctl run`` starts none beside it, and not the command either."""
    with listening(run_dir.legacy_socket):
        done = ctl(run_dir, "run", "--", "echo", "started")
        assert (done.returncode, done.stdout) == (125, "")
        assert f"another nvshare's scheduler, pid {os.getpid()}, serves {run_dir.legacy_socket}" in done.stderr
        assert listening_pid(run_dir.legacy_socket) == os.getpid()


@pytest.mark.parametrize("name", ["a#b", "a?b=c", "100%", "%41", "ä b"])
def test_any_name(run_dir: RunDir, name: str) -> None:
    """Characters that mean something in a URI are part of a folder's name, at every socket."""
    with Scheduler(run_dir.root / name) as scheduler:
        scheduler.client().register()
        scheduler.legacy_client(scheduler.run_dir.legacy_socket)
        assert {path.name for path in scheduler.run_dir.admin_socket.parent.iterdir()} == {"admin.sock"}
        assert scheduler.run_dir.admin_socket.stat().st_mode & 0o777 == 0o600
        shown = ctl(scheduler.run_dir, "status", "-o", "json")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert scheduler.terminate() == 0
    assert [entry.name for entry in run_dir.root.iterdir() if entry.is_dir()] == [name]


def test_a_full_disk_is_one_line(run_dir: RunDir) -> None:
    """No traceback, and what to do."""
    ended = start(run_dir.root / "run", "prlimit", "--fsize=0")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"nvshare-scheduler: cannot write {run_dir.root}/run/")
    assert "make room there or choose another --run-dir" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_pid_that_can_not_be_written(run_dir: RunDir) -> None:
    """No half of its file is left, and it is written when there is room again."""
    claim = Claim(run_dir, os.open(run_dir.root, os.O_RDONLY))
    claim.write_pid()
    run_dir.pid_file.unlink()
    with no_room(), pytest.raises(RunDirError, match="make room there"):
        claim.mend()
    assert not run_dir.pid_file.exists()
    assert claim.gone() == [run_dir.pid_file]
    claim.mend()
    assert run_dir.pid_file.read_text() == f"{os.getpid()}\n"
    claim.clear()


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder like /tmp."""
    folder = tmp_path / "public"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def attack(public: Path, how: str) -> tuple[Path, Path]:
    """A run directory that somebody else has prepared, and where files made in it would show."""
    trap, root = public / "trap", public / "nvshare-0"
    trap.mkdir(mode=0o755)
    match how:
        case "a link":
            root.symlink_to(trap)
        case "another's folder":
            root = trap
            os.chown(root, NOBODY, NOBODY)
        case "open to all":
            root = trap
            root.chmod(0o777)
        case _:
            raise AssertionError(how)
    return root, trap


attacks = pytest.mark.parametrize("how", ["a link", pytest.param("another's folder", marks=as_root), "open to all"])


@attacks
def test_a_prepared_folder_is_not_used(public: Path, how: str) -> None:
    """Neither by the scheduler nor by ``run``; nothing is made in it."""
    root, trap = attack(public, how)
    assert start(root).returncode == 1
    done = ctl(RunDir(root), "run", "--", "echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert str(root) in done.stderr
    assert list(trap.iterdir()) == []


@attacks
def test_a_false_scheduler_is_not_believed(public: Path, how: str) -> None:
    """One that listens in a prepared folder gets no client, and is not asked by anybody."""
    root, trap = attack(public, how)
    with listening(trap / "client" / "scheduler.sock"), listening(trap / "admin" / "admin.sock"):
        done = ctl(RunDir(root), "run", "--", "echo", "started")
        assert (done.returncode, done.stdout) == (125, "")
        asked = ctl(RunDir(root), "status")
        assert asked.returncode != 0
        assert f"{root}" in asked.stderr


def test_a_link_in_the_way_of_a_file(run_dir: RunDir, tmp_path: Path) -> None:
    """Logs and locks are never written through a link."""
    victim = tmp_path / "victim"
    for path in (run_dir.log_file, run_dir.start_lock, run_dir.programs_lock):
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
        done = ctl(run_dir, "run", "--", "echo", "started")
        assert (done.returncode, done.stdout) == (125, "")
        assert not victim.exists()
        path.unlink()


def test_what_is_trusted(public: Path, tmp_path: Path) -> None:
    """One's own folder in a public one, what is not there yet, and everything where only its owner can write."""
    own = public / "own"
    assert distrust(own) == ""
    own.mkdir(mode=0o700)
    assert distrust(own) == ""
    (tmp_path / "link").symlink_to(own)
    assert distrust(tmp_path / "link") == ""


def state(scheduler: Scheduler, client: WireClient) -> str:
    """A client's, as the status says; empty while the server at a removed socket ends, which ends its calls."""
    try:
        return scheduler.states()[client.client_id]
    except grpc.RpcError:
        return ""


def test_removed_files_are_made_anew(serve: Serve) -> None:
    """Sockets, folders, records, or the directory itself: who is connected notices nothing, and others find it."""
    scheduler = serve()
    run_dir = scheduler.run_dir
    paths = [path for path in run_dir.root.rglob("*") if not path.is_dir()]
    holder = scheduler.client().register()
    holder.lock()
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=7))
    damages: list[Callable[[], object]] = [
        *(path.unlink for path in paths),
        lambda: shutil.rmtree(run_dir.client_socket.parent),
        lambda: shutil.rmtree(run_dir.admin_socket.parent),
        lambda: shutil.rmtree(run_dir.root),
    ]
    modes = {path: path.stat().st_mode for path in (run_dir.root, *run_dir.root.rglob("*"))}
    for damage in damages:
        damage()
        poll_until(lambda: all(path.exists() for path in modes), "everything is there again", TIMEOUT_SECONDS)
        assert {path: path.stat().st_mode for path in modes} == modes
        other = scheduler.client().register()
        other.close()
        poll_until(lambda: state(scheduler, holder) == "holding", "it is asked", TIMEOUT_SECONDS)
        assert scheduler_process.accepts(run_dir.status_socket)
        assert scheduler_process.accepts(run_dir.legacy_socket)
    assert start(run_dir.root).returncode == 1


@pytest.mark.parametrize("which", ["client_socket", "admin_socket"])
def test_another_ones_socket_in_the_place_of_a_removed_one(serve: Serve, which: str) -> None:
    """Who listens there is not put out: this scheduler is lost, until the other one is gone."""
    scheduler = serve()
    path: Path = getattr(scheduler.run_dir, which)
    client = scheduler.client().register()
    stop(scheduler.process.pid)
    path.unlink()
    with listening(path):
        scheduler.process.send_signal(signal.SIGCONT)
        [line] = scheduler.logged(LOST)
        assert f"another scheduler, pid {os.getpid()}, already serves {path}" in str(line["reason"])
        assert listening_pid(path) == os.getpid()
    scheduler.logged("files of the run directory were removed; they are there again")
    assert listening_pid(path) == scheduler.process.pid
    client.lock()


def test_records_outlive_their_files(serve: Serve) -> None:
    """A scheduler after one whose directory was removed waits for the holder, and knows what was set."""
    first = serve("--policy", "exclusive")
    with ClientProcess() as process:
        holder = process.connect(first).register()
        holder.lock()
        first.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=7))
        shutil.rmtree(first.run_dir.root)
        first.logged("files of the run directory were removed; they are there again")
        first.kill()
        process.stop()
        second = serve("--policy", "exclusive")
        waiter = second.client().register(state=wire.State.WAITING)
        [device] = second.status().devices
        assert [each.pid for each in device.awaited] == [process.process.pid]
        assert device.quantum_seconds == 7
        assert waiter.has_nothing()


def test_a_dead_mount(tmp_path: Path) -> None:
    """Of a directory removed on the node: who is connected goes on taking turns, and the end is with the last of them.

    An open descriptor of a folder is to it what a container's mount is: it still leads to the removed one.
    """
    folder = tmp_path / "run"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    mount = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "nvshare.scheduler", "--run-dir", mount, "--policy", "exclusive"], stderr=file
        )
    try:
        socket_path = RunDir(folder).client_socket
        poll_until(lambda: process.poll() is None and listening_pid(socket_path), "it serves", TIMEOUT_SECONDS)
        holder, waiter = WireClient(socket_path).register(), WireClient(socket_path).register()
        grant = holder.lock()
        waiter.send(wire.ReqLock())
        assert holder.expect(wire.Waiters).waiters == 1
        shutil.rmtree(folder)
        folder.mkdir()
        poll_until(lambda: LOST in log.read_text(), "it has seen it", TIMEOUT_SECONDS)
        holder.send(wire.LockReleased(grant))
        waiter.expect(wire.LockOk)
        holder.close()
        waiter.close()
        assert process.wait(TIMEOUT_SECONDS) == 1
        assert log.read_text().splitlines()[-1].startswith(f"nvshare-scheduler: run directory {mount} was removed")
        assert list(folder.iterdir()) == []
    finally:
        process.kill()
        process.wait()
        os.close(descriptor)


def test_a_dead_mount_and_nobody_connected(tmp_path: Path) -> None:
    """It ends at once: whoever started it starts it anew, with the directory that is there then."""
    folder = tmp_path / "run"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    process = subprocess.Popen(
        [sys.executable, "-m", "nvshare.scheduler", "--run-dir", f"/proc/{os.getpid()}/fd/{descriptor}"]
    )
    try:
        poll_until(lambda: listening_pid(RunDir(folder).legacy_socket), "it serves", TIMEOUT_SECONDS)
        shutil.rmtree(folder)
        assert process.wait(TIMEOUT_SECONDS) == 1
    finally:
        process.kill()
        process.wait()
        os.close(descriptor)


def test_only_its_own_files_are_cleared(run_dir: RunDir) -> None:
    """A file of the same name that somebody put there stays."""
    claim = Claim(run_dir, os.open(run_dir.root, os.O_RDONLY))
    claim.write_pid()
    run_dir.pid_file.unlink()
    run_dir.pid_file.write_text("1\n")
    claim.clear()
    assert run_dir.pid_file.exists()
