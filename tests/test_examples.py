"""What is in docs/examples/, which the pages tell people to run."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from nvshare import paths, simgpu
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.layout.tree import ROOT
from tests.polling import poll_until
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

EXAMPLES = ROOT / "docs" / "examples"
Start = Callable[[str], subprocess.Popen[str]]


def test_notebook() -> None:
    """It runs on a simulated GPU, says how long each round took, and finds its memory as it left it."""
    command = [sys.executable, "-m", "nvshare.ctl", "simulate", "--gpus", "1x1GiB/32MiB", "--"]
    program = [sys.executable, str(EXAMPLES / "notebook.py"), "128", "0.05", "0", "2"]
    result = subprocess.run([*command, *program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["round 1", "round 2", "right"]


@pytest.fixture
def scheduler(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Scheduler]:
    """It puts to sleep who is idle."""
    devices = simgpu.environment(tmp_path / "simgpu", "1x2GiB/300MiB")
    with Scheduler(run_dir.root / "run", "--sleep-after", "0.5", environment=devices) as started:
        yield started


@pytest.fixture
def start(scheduler: Scheduler, tmp_path: Path) -> Iterator[Start]:
    """Starts a command line as a shell in the source tree would, on the scheduler's GPU."""
    variables = {
        **os.environ,
        **simgpu.environment(tmp_path / "simgpu"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        paths.RUN_DIR: str(scheduler.run_dir.root),
    }
    with ExitStack() as stack:

        def begin(line: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(shlex.split(line), env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def states(scheduler: Scheduler) -> dict[str, str]:
    """What each container does, by its name."""
    clients = (client for device in scheduler.status().devices for client in device.clients)
    return {client.member_of.partition("@")[0]: client.state for client in clients}


def address(server: subprocess.Popen[str]) -> str:
    """Where it answers, as soon as it does."""
    assert server.stdout is not None
    return server.stdout.readline().removeprefix("ready: ").strip()


def asked(url: str, body: bytes | None = None) -> bytes:
    """The answer to a GET, or a POST with this body."""
    with urllib.request.urlopen(url, body, timeout=TIMEOUT_SECONDS) as answer:
        found: bytes = answer.read()
    return found


def all_sleep(scheduler: Scheduler, names: set[str]) -> None:
    """Waits until exactly these are there, and asleep."""
    poll_until(lambda: states(scheduler) == dict.fromkeys(names, "asleep"), "all sleep", TIMEOUT_SECONDS)


def woken(scheduler: Scheduler) -> list[object]:
    """The pids of those that woke, in order."""
    return [line["pid"] for line in scheduler.log() if line["event"] == "a process woke"]


def test_llama_swap(scheduler: Scheduler, start: Start) -> None:
    """Its servers run as written there, and sleep; a health check wakes nobody, and a request only whom it asks."""
    said = yaml.safe_load((EXAMPLES / "llama-swap.yaml").read_text())
    models = said["models"]
    group = said["routing"]["router"]["settings"]["groups"]["all"]
    assert set(models) == set(group["members"]) == set(said["hooks"]["on_startup"]["preload"])
    # Each at a port of the kernel's choice.
    servers = {name: start(model["cmd"].replace("${PORT}", "0")) for name, model in models.items()}
    urls = {name: address(server) for name, server in servers.items()}
    all_sleep(scheduler, set(models))
    before = woken(scheduler)
    assert [asked(f"{url}/health") for url in urls.values()] == [b"ok\n"] * len(urls)
    assert json.loads(asked(f"{urls['code']}/v1/chat/completions", b"{}"))["right"]
    assert asked(f"{urls['embed']}/health/gpu") == b"ok\n"
    all_sleep(scheduler, set(models))
    assert woken(scheduler) == [*before, servers["code"].pid, servers["embed"].pid]


def test_jupyterhub(scheduler: Scheduler, start: Start) -> None:
    """A user's server has the name and the terms that are written there, whatever the user is called."""
    config = SimpleNamespace(Spawner=SimpleNamespace(env_keep=[]))
    runpy.run_path(str(EXAMPLES / "jupyterhub_config.py"), {"get_config": lambda: config})
    spawner: Any = config.Spawner
    assert {paths.RUN_DIR, "NVSHARE_SIMGPU_DIR", "NVSHARE_SIMGPU_DEVICES"} == set(spawner.env_keep)
    [*run, program] = spawner.cmd
    assert program == "jupyterhub-singleuser"
    user = SimpleNamespace(name="bob@example.org", id=2)
    [(variable, value)] = spawner.environment.items()
    name = value(SimpleNamespace(user=user))
    server = f"python {EXAMPLES / 'server.py'} 0 64"
    start(f"env {variable}={name} {shlex.join(run)} {server}")
    all_sleep(scheduler, {name})
    [client] = (client for device in scheduler.status().devices for client in device.clients)
    assert (client.terms.sleep, client.terms.memory_limit_bytes) == ("idle", 8 << 30)
