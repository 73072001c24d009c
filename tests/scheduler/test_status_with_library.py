"""What programs under the library say of themselves, as the status shows it: real programs, on a simulated GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nvshare import simgpu
from nvshare.admin import admin_pb2
from nvshare.paths import LD_PRELOAD, MEMORY, RUN_DIR, RunDir
from nvshare.protocol import wire
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler

Serve = Callable[..., Scheduler]

PEERS = """
from tests.simgpu.device import Device, call
Device.open(0)
other = call("cuDevicePrimaryCtxRetain", 1)
call("cuCtxEnablePeerAccess", other, 0)
input()
"""
WORK_THAT_WAITS = """
import ctypes
from tests.simgpu.device import Device, call
device = Device.open(0)
value = call("cuMemHostAlloc", 4096, 2)
ctypes.memset(int(value), 0, 4096)
reader, writer = call("cuStreamCreate", 1), call("cuStreamCreate", 1)
call("cuStreamWaitValue32", reader, int(value), 1, 0)
print("waits", flush=True)
input()
for _ in range(5):
    device.spin(0.001, stream=writer)
input()
call("cuStreamWriteValue32", writer, int(value), 1, 0)
call("cuCtxSynchronize")
"""


def run(
    program: str, libraries: Libraries, run_dir: RunDir, state_dir: Path, **variables: str
) -> subprocess.Popen[str]:
    """Starts a program under the library; it goes on with each line on its stdin."""
    environment = simgpu.environment(state_dir) | {
        LD_PRELOAD: str(libraries.shim),
        RUN_DIR: str(run_dir.root / "run"),
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
        **variables,
    }
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def clients(scheduler: Scheduler) -> list[admin_pb2.Client]:
    """All clients of all devices."""
    return [client for device in scheduler.status().devices for client in device.clients]


def go_on(program: subprocess.Popen[str]) -> None:
    """Lets a program go on."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def test_a_notice(serve: Serve, libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> None:
    """What the library can't prevent is there for whoever looks at the program."""
    scheduler = serve()
    with run(PEERS, libraries, run_dir, tmp_path / "simgpu", **{MEMORY: "native"}) as program:
        notices = poll_until(
            lambda: [text for client in clients(scheduler) for text in client.notices], "it is told", 20
        )
        assert set(notices) == {"peer access is on: kernels of one GPU may use another GPU without its lock"}
        go_on(program)


def test_a_drain_that_steps(serve: Serve, libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> None:
    """A drain whose work waits for the program is shown as one, and as over when it is."""
    scheduler = serve("--policy", "exclusive", "--quantum", "0.05")
    with run(WORK_THAT_WAITS, libraries, run_dir, tmp_path / "simgpu") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waits\n"
        [holder] = clients(scheduler)
        waiter = scheduler.client()
        waiter.register(device_uuid=bytes.fromhex(scheduler.status().devices[0].uuid[4:].replace("-", "")))
        waiter.send(wire.ReqLock())
        poll_until(lambda: clients(scheduler)[0].state == "leaving", "it is asked to leave", 20)
        go_on(program)
        poll_until(lambda: clients(scheduler)[0].drain == "stepping", "its drain steps", 20)
        assert clients(scheduler)[0].pid == holder.pid == program.pid
        go_on(program)
        waiter.expect(wire.LockOk)
        assert clients(scheduler)[0].drain == ""
        waiter.close()
