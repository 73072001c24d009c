"""What systemd is told of the scheduler, and the unit that is shipped."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare.paths import NOTIFY_SOCKET, RunDir
from nvshare.scheduler.systemd import Systemd
from tests.layout.tree import PACKAGE, ROOT
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

UNIT = PACKAGE / "ctl" / "service" / "nvshare-scheduler.service"


class Listener:
    """Listens as systemd does."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(TIMEOUT_SECONDS)

    def heard(self) -> list[str]:
        """The lines of the next message."""
        return self.socket.recv(4096).decode().splitlines()


@pytest.fixture
def listener(run_dir: RunDir) -> Iterator[Listener]:
    """One that listens in the test's run directory."""
    listener = Listener(str(run_dir.root / "notify"))
    with listener.socket:
        yield listener


def test_life_of_a_scheduler(run_dir: RunDir, listener: Listener) -> None:
    """It is ready when it accepts clients, says what it does, and that it stops before it does."""
    variables = {NOTIFY_SOCKET: str(run_dir.root / "notify")}
    with Scheduler(run_dir.root / "run", environment=variables) as scheduler:
        assert listener.heard() == ["READY=1", "STATUS=0 GPUs, 0 clients"]
        client = scheduler.client().register()
        assert listener.heard() == ["STATUS=1 GPU, 1 client"]
        client.close()
        assert listener.heard() == ["STATUS=1 GPU, 0 clients"]
        assert scheduler.terminate() == 0
        assert listener.heard() == ["STOPPING=1"]


def test_ready_means_ready(run_dir: RunDir, listener: Listener) -> None:
    """Whoever is started after it can connect at once."""
    command = [sys.executable, "-m", "nvshare.scheduler", "--run-dir", str(run_dir.root / "run")]
    environment = {NOTIFY_SOCKET: str(run_dir.root / "notify"), "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        assert listener.heard()[0] == "READY=1"
        for path in (RunDir(run_dir.root / "run").client_socket, RunDir(run_dir.root / "run").admin_socket):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
        process.terminate()


async def test_names_without_a_file() -> None:
    """systemd may give a name of the kernel's own name space, which begins with @."""
    name = "nvshare-test-notify"
    listener = Listener(f"\0{name}")
    with listener.socket:
        Systemd(asyncio.get_running_loop(), f"@{name}", lambda: "well").ready()
        assert listener.heard() == ["READY=1", "STATUS=well"]


@pytest.mark.parametrize("address", ["", "/nonexistent/notify", "@nobody-listens-here", "vsock:2:1"])
async def test_nobody_to_tell(address: str) -> None:
    """That is no error."""
    Systemd(asyncio.get_running_loop(), address, lambda: "").stopping()


def test_unit_is_valid(tool: Callable[[str], str], tmp_path: Path) -> None:
    """systemd understands every line of the shipped unit."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/nvshare/bin/nvshare-scheduler", sys.executable))
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_unit_fits_the_scheduler() -> None:
    """The unit waits for the message that the scheduler sends, and keeps the run directory where clients look."""
    lines = UNIT.read_text().splitlines()
    assert {"Type=notify", "Restart=always", "RuntimeDirectory=nvshare", "RuntimeDirectoryPreserve=yes"} <= set(lines)
    (command,) = (line for line in lines if line.startswith("ExecStart="))
    options = command.split()[1:]
    parsed = subprocess.run(
        [sys.executable, "-m", "nvshare.scheduler", *options, "--version"], capture_output=True, text=True, check=False
    )
    assert parsed.returncode == 0
