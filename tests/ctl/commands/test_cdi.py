"""``nvshare-ctl cdi``: the specification for container engines on a workstation."""

from __future__ import annotations

import json
from pathlib import Path

from nvshare import shim
from nvshare.paths import RunDir
from tests.ctl.program import ctl


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


def test_another_scheduler(run_dir: RunDir, tmp_path: Path) -> None:
    """The option wins over the environment."""
    document = json.loads(ctl(run_dir, "cdi", f"--run-dir={tmp_path}").stdout)
    assert document["devices"][0]["containerEdits"]["mounts"][1]["hostPath"] == str(tmp_path / "client")
