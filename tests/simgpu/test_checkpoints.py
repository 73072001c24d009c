"""Checkpoints of a process by another one: the answers of a real driver, and what comes of deaths between the steps."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simgpu.conftest import HERE, ROOT, Clients

ANSWERS = (HERE / "real_checkpoints.txt").read_text().splitlines()
NOT_SIMULATED = "ipc_"
GROUPS = 8
"""So many tests ask for what the situations of a process's life say; some take seconds in which nobody computes."""

SLEEPER = """
from tests.simgpu.device import *
import os, sys
Device.open()
memory = allocate({mib} << 20)
call("cuMemsetD8", memory, 7, {mib} << 20)
call("cuCtxSynchronize")
print(os.getpid(), flush=True)
for line in sys.stdin:
    there = bytearray({mib} << 20)
    call("cuMemcpyDtoH", there, memory, len(there))
    print(there == bytes([7]) * len(there), flush=True)
"""

HOLDER = """
from tests.simgpu.device import *
import os, sys
Device.open()
properties = driver.CUmemAllocationProp()
properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST_NUMA
handle = call("cuMemCreate", 2 << 20, properties, 0)
print(os.getpid(), flush=True)
sys.stdin.readline()
"""

STEPS = """
from tests.simgpu.programs.checkpoint.program import Program
from tests.simgpu.programs.checkpoint.driver import Nvml
program = Program()
def steps(pid, *names):
    return [program.step(name, pid)[0] for name in names]
"""


def situations() -> list[str]:
    """Those that are simulated, in the order of the answers."""
    named = dict.fromkeys(line.split(":")[0] for line in ANSWERS)
    return [name for name in named if not name.startswith(NOT_SIMULATED)]


@pytest.fixture
def open_to_all(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """An environment whose devices every user may use."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o777)
        yield environment | {"NVSHARE_SIMGPU_DIR": folder, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}


@pytest.mark.soak
@pytest.mark.parametrize("group", range(GROUPS))
def test_answers_are_those_of_a_real_gpu(group: int, open_to_all: dict[str, str], tmp_path: Path) -> None:
    """Steps, states, what waits, what is refused, what ends a process, who dies: as an H100 with driver 580 said."""
    names = [name for name in situations()[group::GROUPS] if name != "other_user" or os.geteuid() == 0]
    command = [sys.executable, "-m", "tests.simgpu.programs.checkpoint", str(tmp_path / "answers"), *names]
    subprocess.run(command, cwd=ROOT, env=open_to_all, check=True, capture_output=True, timeout=110)
    given = [line for line in (tmp_path / "answers").read_text().splitlines() if not line.startswith("#")]
    assert given == [line for name in names for line in ANSWERS if line.startswith(f"{name}:")]


def started(clients: Clients, mib: int) -> tuple[subprocess.Popen[str], int]:
    """A process with so much memory, and its pid."""
    process = clients.start(SLEEPER.format(mib=mib))
    return process, process.pid


def is_intact(process: subprocess.Popen[str]) -> bool:
    """Whether its memory is what it was."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline() == "True\n"


def test_more_sleep_than_fits(clients: Clients, environment: dict[str, str]) -> None:
    """Two that do not fit together take turns; NVML sees the one that is awake, and contents stay."""
    environment["NVSHARE_SIMGPU_DEVICES"] = "1GiB"
    first, pid = started(clients, 512)
    code = f"{STEPS}print(steps({pid}, 'lock', 'checkpoint'), Nvml().used_bytes(), Nvml().processes())"
    assert clients.run(code) == "[0, 0] 0 {}\n"
    second, other = started(clients, 512)
    there = (512 + 256) << 20
    code = f"{STEPS}print(steps({other}, 'lock', 'checkpoint'), steps({pid}, 'restore', 'unlock'), Nvml().processes())"
    assert clients.run(code) == f"[0, 0] [0, 0] {{{pid}: {there}}}\n"
    assert is_intact(first)
    first.kill()
    first.communicate()
    assert clients.run(f"{STEPS}print(steps({other}, 'restore', 'unlock'))") == "[0, 0]\n"
    assert is_intact(second)


def test_a_handle_of_host_memory_is_never_restored(clients: Clients) -> None:
    """As a real driver: the checkpoint succeeds, and the process is lost (one H100, driver 580)."""
    pid = clients.start(HOLDER).pid
    answers = clients.run(f"{STEPS}print(steps({pid}, 'lock', 'checkpoint', 'restore', 'restore'))")
    assert answers == "[0, 0, 999, 304]\n"


def test_step_ends_without_its_caller(clients: Clients) -> None:
    """Who dies in the middle of a checkpoint leaves it to the process itself; another caller finds it done."""
    process, pid = started(clients, 64)
    caller = clients.start(f"{STEPS}steps({pid}, 'lock')\nprint(1, flush=True)\nsteps({pid}, 'checkpoint')\n")
    caller.kill()
    caller.communicate()
    code = f"{STEPS}print(program.step('checkpoint', {pid})[0], steps({pid}, 'restore', 'unlock'))"
    assert clients.run(code) in ("0 [0, 0]\n", "401 [0, 0]\n")
    assert is_intact(process)


def test_bytes_take_their_time(clients: Clients) -> None:
    """Of a bus of 12 GB/s a checkpoint uses 5.5 %, and a restore 16 %."""
    _, pid = started(clients, 256)
    code = f"{STEPS}print(*(program.step(name, {pid})[1] for name in ('lock', 'checkpoint', 'restore')))"
    _, checkpoint_ms, restore_ms = (float(word) for word in clients.run(code).split())
    assert checkpoint_ms > 300 + 400
    assert restore_ms > 190 + 135


def test_pid_is_the_callers(clients: Clients, environment: dict[str, str]) -> None:
    """A process in a pid namespace of its own, as in a container, goes by the pid that its caller knows."""
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", SLEEPER.format(mib=2)]
    variables = environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as outer:
        assert outer.stdout
        said = outer.stdout.readline()
        if not said:
            pytest.skip("no pid namespaces here")
        inner = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0]
        assert said == "1\n"
        assert (
            clients.run(f"{STEPS}print(steps({inner}, 'lock', 'checkpoint', 'restore', 'unlock'))") == "[0, 0, 0, 0]\n"
        )
        assert is_intact(outer)
        assert outer.stdin
        outer.stdin.close()
