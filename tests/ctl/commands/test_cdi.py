"""``nvshare-ctl cdi``: the specification for container engines on a workstation."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import shim
from nvshare.paths import RunDir
from tests.ctl.program import ctl


@pytest.mark.usefixtures("answers")
def test_what_engines_read(run_dir: RunDir) -> None:
    """One device: the folder of this installation's library, and the one of the named scheduler's socket."""
    done = ctl(run_dir, "cdi")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    (device,) = document["devices"]
    assert (document["kind"], device["name"]) == ("nvshare.com/gpu", "all")
    mounted = {mount["containerPath"]: mount["hostPath"] for mount in device["containerEdits"]["mounts"]}
    assert mounted == {
        "/usr/lib/nvshare": str(shim.library_path().parent),
        "/var/run/nvshare/client": str(run_dir.client_socket.parent),
    }
    assert "LD_PRELOAD=/usr/lib/nvshare/libnvshare.so" in device["containerEdits"]["env"]


@pytest.mark.usefixtures("answers")
def test_another_scheduler(run_dir: RunDir, tmp_path: Path) -> None:
    """The option wins over the environment."""
    document = json.loads(ctl(RunDir(tmp_path), "cdi", f"--run-dir={run_dir.root}").stdout)
    assert document["devices"][0]["containerEdits"]["mounts"][1]["hostPath"] == str(run_dir.client_socket.parent)


def left_sockets(run_dir: RunDir) -> None:
    """Those of a scheduler that was killed."""
    for path in (run_dir.client_socket, run_dir.admin_socket, run_dir.status_socket):
        path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))


@pytest.mark.parametrize("left", [lambda _: None, lambda run_dir: run_dir.root.touch(), left_sockets])
def test_no_scheduler(tmp_path: Path, left: Callable[[RunDir], None]) -> None:
    """No container could be started with what would be written, so nothing is."""
    run_dir = RunDir(tmp_path / "run")
    left(run_dir)
    done = ctl(run_dir, "cdi")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"nvshare-ctl: no scheduler runs (nobody answers at {run_dir.admin_socket}); start")


def test_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    """It is named."""
    long = tmp_path / ("x" * 120)
    done = ctl(RunDir(long), "cdi")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{long}/admin/admin.sock is no usable socket path" in done.stderr
