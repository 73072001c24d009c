"""Whom the library believes to be its scheduler."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler

Start = Callable[..., ControlledProgram]
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def start(children: Children) -> Iterator[Start]:
    """Starts programs with the counting driver and native memory."""
    started: list[ControlledProgram] = []

    def begin(run_dir: Path) -> ControlledProgram:
        program = ControlledProgram(children.environment | {paths.MEMORY: "native", paths.RUN_DIR: str(run_dir)})
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


@pytest.fixture
def public(run_dir: paths.RunDir) -> Path:
    """A folder like /tmp."""
    folder = run_dir.root / "public"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def prepare(public: Path, how: str) -> Path:
    """A run directory that another user may have made."""
    folder = public / "folder"
    folder.mkdir()
    match how:
        case "a link":
            root = public / "link"
            root.symlink_to(folder)
            return root
        case "another's folder":
            os.chown(folder, NOBODY, NOBODY)
        case "open to all":
            folder.chmod(0o777)
        case _:
            raise AssertionError(how)
    return folder


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("a link", "its folder is a link or a file that anybody may have made"),
        pytest.param("another's folder", "its folder belongs to another user", marks=as_root),
        ("open to all", "others may write to its folder"),
    ],
)
def test_a_prepared_folder(start: Start, public: Path, how: str, reason: str) -> None:
    """Who listens in it hears nothing, and the user hears why; when the folder is the user's own it is used."""
    root = prepare(public, how)
    with FakeScheduler(root / "client" / "scheduler.sock") as false:
        program = start(root)
        assert program.do("use") == "0"
        program.begin("launch")
        program.said(f"no scheduler is believed at {root}/client/scheduler.sock, because {reason}; waiting for one")
        program.waits()
        false.listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            false.listener.accept()
        if how == "open to all":
            false.listener.settimeout(20)
            root.chmod(0o755)
            assert false.register().register.state is wire.State.WAITING


@as_root
def test_another_user_in_a_trusted_folder(start: Start, public: Path) -> None:
    """A folder of root in which another user listens is no scheduler of this user's or of root."""
    root = public / "folder"
    (root / "client").mkdir(parents=True)
    (root / "client").chmod(0o777)
    public.parent.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        os.seteuid(NOBODY)
        try:
            listener.bind(str(root / "client" / "scheduler.sock"))
            listener.listen()
        finally:
            os.seteuid(0)
        program = start(root)
        assert program.do("use") == "0"
        program.begin("launch")
        program.said(f"no scheduler at {root}/client/scheduler.sock; waiting for one")
        listener.settimeout(20)
        connection, _address = listener.accept()
        with connection:
            connection.settimeout(20)
            assert connection.recv(1) == b"", "nothing was said to it"


def test_ones_own_folder(start: Start, public: Path) -> None:
    """In a public folder one's own is as good as anywhere."""
    root = public / "folder"
    root.mkdir(mode=0o755)
    with FakeScheduler(root / "client" / "scheduler.sock") as scheduler:
        program = start(root)
        scheduler.serve(program)


def test_only_the_original_is_there(start: Start, run_dir: paths.RunDir) -> None:
    """It says so, instead of waiting without a hint; and when ours comes, all is well."""
    with FakeScheduler(run_dir.legacy_socket) as original:
        program = start(run_dir.root)
        assert program.do("use") == "0"
        program.begin("launch")
        line = program.said("no scheduler at")
        assert f"that of the original nvshare, which listens at {run_dir.legacy_socket}" in line
        assert "start nvshare-scheduler instead of it; waiting for one" in line
        connection, _address = original.listener.accept()
        with connection:
            connection.settimeout(20)
            assert connection.recv(1) == b"", "nothing was said to it"
        with FakeScheduler(run_dir.client_socket) as scheduler:
            peer = scheduler.accept()
            peer.send(wire.SchedOn(client_id=1, epoch=1))
            peer.send(wire.Limit(0))
            peer.grant()
            assert program.answer() == "0"
