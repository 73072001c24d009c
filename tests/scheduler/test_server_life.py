"""How a scheduler starts, shares its run directory with nobody, and ends."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.api.pages import fetch
from tests.scheduler.wire_client import DEVICE, GIB, TIMEOUT_SECONDS, Scheduler, WireClient

Serve = Callable[..., Scheduler]


def command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A scheduler that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "nvshare.scheduler", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_clean_end(serve: Serve, number: signal.Signals) -> None:
    """These, or its terminal's end: exit code 0, no socket and no pid file left, clients see their connection's end."""
    # Where these tests ignore one, what they start would, too.
    scheduler = serve(before=["env", "--default-signal"])
    client = scheduler.client().register()
    scheduler.process.send_signal(number)
    assert scheduler.process.wait(TIMEOUT_SECONDS) == 0
    client.raw.wait_closed()
    run_dir = scheduler.run_dir
    for path in (run_dir.client_socket, run_dir.legacy_socket, run_dir.admin_socket, run_dir.pid_file):
        assert not path.exists()
    assert scheduler.logged("stopping")[0]["clients"] == 1


def test_who_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    """nohup has it ignore SIGHUP."""
    with Scheduler(tmp_path / "run", before=["nohup"]) as scheduler:
        status = Path(f"/proc/{scheduler.process.pid}/status").read_text()
        ignored = re.search(r"^SigIgn:\s*(\w+)", status, re.MULTILINE)
        assert ignored is not None
        assert int(ignored[1], 16) >> (signal.SIGHUP - 1) & 1


def test_live_scheduler_is_not_replaced(serve: Serve) -> None:
    """A second one on the run directory ends with 1 and one line with the first one's pid; the first goes on."""
    scheduler = serve()
    root = scheduler.run_dir.root
    second = command("--run-dir", root)
    assert second.returncode == 1
    assert second.stderr == (
        f"nvshare-scheduler: a scheduler with pid {scheduler.process.pid} already serves the run directory {root}; "
        "stop it first or choose another --run-dir\n"
    )
    scheduler.client().register()
    assert scheduler.run_dir.pid_file.read_text() == f"{scheduler.process.pid}\n"


def test_stale_files_are_replaced(serve: Serve) -> None:
    """After kill -9 sockets and pid file lie about; the next scheduler takes over."""
    scheduler = serve()
    scheduler.kill()
    assert scheduler.run_dir.client_socket.exists()
    assert scheduler.run_dir.admin_socket.exists()
    scheduler = serve()
    scheduler.client().register()
    assert scheduler.status().scheduler_pid == scheduler.process.pid


def test_run_directory_from_the_environment(tmp_path: Path, run_dir: paths.RunDir) -> None:
    """NVSHARE_RUN_DIR is where the scheduler serves when no option says it; missing parents are made."""
    root = run_dir.root / "a" / "b"
    ended = command("--exit-when-idle", "0", NVSHARE_RUN_DIR=str(root))
    assert ended.returncode == 0
    assert root.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "what", ["a file", "another's", "too long", "not to be written", "a folder for a socket", "another folder"]
)
def test_unusable_run_directory(tmp_path: Path, what: str) -> None:
    """Exit code 1 and one line that names the directory and what to do."""
    root = tmp_path / "run"
    match what:
        case "a file":
            root.touch()
        case "another's" if os.geteuid() == 0:
            root.mkdir()
            os.chown(root, 65534, 65534)
        case "too long":
            root = tmp_path / ("x" * 100)
        case "a folder for a socket":
            (root / "scheduler.sock").mkdir(parents=True)
        case "another folder":
            (root / "admin" / "admin.sock").mkdir(parents=True)
        case "not to be written":
            root = Path("/proc/nvshare")
        case _:
            pytest.skip("only root can give a folder to another user")
    ended = command("--run-dir", root)
    assert ended.returncode == 1
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("nvshare-scheduler: ")
    assert "Traceback" not in ended.stderr
    assert str(root) in line
    assert "--run-dir" in line


@pytest.mark.parametrize(
    ("arguments", "value", "allowed"),
    [
        (("--policy", "fair"), "fair", "'auto', 'exclusive', 'off'"),
        (("--quantum", "0"), "quantum 0 s", "from 0.01 to 86400 s"),
        (("--quantum", "nan"), "'nan' is no number", ""),
        (("--quantum", "long"), "'long' is no number", ""),
        (("--log-format", "xml"), "xml", "'text', 'json'"),
        (("--legacy-device", "0"), "'0' is no device UUID", "GPU-xxxxxxxx-"),
        (("--exit-when-idle", "-1"), "-1 s", "from 0 to 86400 s"),
    ],
)
def test_wrong_option(arguments: tuple[str, str], value: str, allowed: str) -> None:
    """Exit code 2 and a message with the option, its value and what is allowed."""
    ended = command(*arguments)
    assert ended.returncode == 2
    said = " ".join(ended.stderr.split())
    assert arguments[0] in said
    assert value in said
    assert allowed in said


def test_a_folder_for_files_that_is_none(run_dir: paths.RunDir, tmp_path: Path) -> None:
    """Exit code 1 and one line, before anybody is served."""
    ended = command("--run-dir", run_dir.root / "run", "--swap-dir", tmp_path / "none")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"nvshare-scheduler: --swap-dir {tmp_path}/none does not exist: make a folder on a local disk, and name that"
    )


def test_help_and_version() -> None:
    """Every option is in the help; the version is one line."""
    said = command("--help", COLUMNS="200").stdout
    options = ("run-dir", "quantum", "policy", "log-format", "legacy-device", "exit-when-idle", "swap-dir", "version")
    assert not [option for option in options if f"--{option}" not in said]
    assert command("--version").stdout.startswith("nvshare-scheduler ")


def test_text_log(run_dir: paths.RunDir) -> None:
    """Lines for people: no JSON, no colours where stderr is no terminal."""
    ended = command("--run-dir", run_dir.root / "run", "--exit-when-idle", "0")
    assert "ready" in ended.stderr
    assert "\x1b" not in ended.stderr
    assert "{" not in ended.stderr


def test_log_that_nobody_reads_any_more(run_dir: paths.RunDir) -> None:
    """A closed stderr ends the lines, not the scheduler."""
    root = run_dir.root / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "nvshare.scheduler", "--run-dir", root], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while "ready" not in process.stderr.readline():
        pass
    process.stderr.close()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(root / "client" / "scheduler.sock"))
        client.sendall(wire.encode(wire.Register(DEVICE, GIB)))
        assert len(client.recv(wire.FRAME_BYTES)) == wire.FRAME_BYTES
    process.terminate()
    assert process.wait(TIMEOUT_SECONDS) == 0


def test_log_that_nobody_reads_now(run_dir: paths.RunDir) -> None:
    """A pipe that is full stops the lines, not the scheduler: it serves, counts what it drops, and tells it later."""
    root = run_dir.root / "run"
    options = ["--run-dir", root, "--log-format", "json", "--log-level", "debug", "--metrics-address", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-m", "nvshare.scheduler", *options], stderr=subprocess.PIPE, text=True)
    try:
        serves_although_nobody_reads(process, root)
    finally:
        process.kill()
        process.communicate()


def serves_although_nobody_reads(process: subprocess.Popen[str], root: Path) -> None:
    """See above; the process has just been started."""
    assert process.stderr is not None
    lines = map(json.loads, iter(process.stderr.readline, ""))
    port = next(line["port"] for line in lines if line["event"] == "metrics")
    next(line for line in lines if line["event"] == "ready")
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    turns = 1000
    client = WireClient(root / "client" / "scheduler.sock").register()
    take_turns(client, turns)
    _status, text = fetch(port, "/metrics")
    found = re.search(r"^nvshare_scheduler_log_lines_dropped_total (\d+)", text, re.MULTILINE)
    assert found
    dropped = int(float(found[1]))
    assert dropped > 0
    written = []
    while not (line := next(lines))["event"].startswith("log lines were dropped"):
        written.append(line["event"])
    assert line["lines"] == dropped
    assert 0 < written.count("received REQ_LOCK") < turns
    assert len(written) + dropped >= 3 * turns
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    take_turns(client, 100)
    client.close()
    process.terminate()
    assert process.wait(TIMEOUT_SECONDS) == 0


def take_turns(client: WireClient, turns: int) -> None:
    """So many, each of which is told in at least three lines for who debugs."""
    for _ in range(turns):
        client.send(wire.LockReleased(client.lock()))


def test_every_line_of_the_json_log_is_json(serve: Serve) -> None:
    """Each line is an object with time, level and event; that a client came and left is logged with pid and device."""
    scheduler = serve()
    client = scheduler.client().register(command='a "quoted" command')
    scheduler.logged("client registered")
    client.close()
    [line] = scheduler.logged("client left")
    assert line["pid"] == os.getpid()
    assert all({"timestamp", "level", "event"} <= line.keys() for line in scheduler.log())


def test_end_when_idle(serve: Serve) -> None:
    """It ends after the last client has been gone for the given time, not while one is there."""
    scheduler = serve("--exit-when-idle", "0.5")
    client = scheduler.client().register()
    began = time.monotonic()
    poll_until(lambda: time.monotonic() > began + 1, "more than the given time passes")
    assert scheduler.process.poll() is None
    client.close()
    left = time.monotonic()
    assert scheduler.process.wait(TIMEOUT_SECONDS) == 0
    assert time.monotonic() - left >= 0.4


def test_idle_but_programs_live(serve: Serve) -> None:
    """A program that was started to be a client, and is none yet, keeps the scheduler alive."""
    scheduler = serve("--exit-when-idle", "0.1")
    with scheduler.run_dir.programs_lock.open("w") as program:
        try:
            fcntl.flock(program, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.skip("this machine was too slow: the scheduler is ending already")
        began = time.monotonic()
        poll_until(lambda: time.monotonic() > began + 0.5, "more than the given time passes")
        assert scheduler.process.poll() is None
    assert scheduler.process.wait(TIMEOUT_SECONDS) == 0


def test_end_without_a_run_directory(serve: Serve) -> None:
    """One whose run directory was removed, so that nobody can find it any more, ends as well."""
    scheduler = serve("--exit-when-idle", "0.5")
    client = scheduler.client().register()
    shutil.rmtree(scheduler.run_dir.root)
    client.close()
    assert scheduler.process.wait(TIMEOUT_SECONDS) == 0


def test_who_fills_the_socket_of_the_status_keeps_no_program_out(serve: Serve) -> None:
    """Every user may connect there; the descriptors are for clients."""
    scheduler = serve()
    with ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(TIMEOUT_SECONDS)
            connection.connect(str(scheduler.run_dir.status_socket))
        # What came before the last one was accepted, or closed.
        assert connection.recv(1) == b""
        assert len([*Path(f"/proc/{scheduler.process.pid}/fd").iterdir()]) < 100
        scheduler.client().register()
