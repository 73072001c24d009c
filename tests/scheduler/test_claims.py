"""One scheduler a GPU and machine: whoever comes second refuses the GPU, or takes it because it is the machine's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvshare import gpu_claims, paths, simgpu
from nvshare.device_uuid import device_bytes
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.real_user import as_real_user, as_root
from tests.scheduler.several_schedulers import SYSTEM, Machine
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, ClosedError, Scheduler, WireClient
from tests.shim.controlled_program import ControlledProgram
from tests.stopping import stop

ALICE, BOB, MALLORY = 1000, 1001, 1002
WRITE = "cuMemsetD8_v2 p 1 64"
YIELDS = "the machine's scheduler serves a GPU of this one now: this one ends, and programs go to that one"
Begin = Callable[..., Scheduler]

pytestmark = pytest.mark.soak

# Claims the GPUs whose bytes it is told, says so, and accepts nobody.
_SQUATTER = """
import socket, sys
held = []
for device in sys.argv[1:]:
    for number in range(9):
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind(f"\\0nvshare/gpu/{device}/{number}")
        held[-1].listen(number * 10)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def machine(run_dir: RunDir, libraries: Libraries) -> Iterator[Machine]:
    """One whose schedulers end with the test."""
    with Machine(run_dir.root) as machine:
        yield machine


@pytest.fixture
def begin(machine: Machine) -> Begin:
    """Starts a scheduler on it."""
    return machine.begin


def gpus(scheduler: Scheduler) -> list[bytes]:
    """The GPUs that it knows, in NVML's order."""
    return [device_bytes(device.uuid) for device in sorted(scheduler.status().devices, key=lambda each: each.index)]


def come(scheduler: Scheduler, device: bytes, **more: object) -> WireClient:
    """A client on a GPU, which is served."""
    return scheduler.client().register(device_uuid=device, footprint_bytes=GIB >> 4, **more)


def refused(scheduler: Scheduler, device: bytes) -> str:
    """A client on a GPU, which is refused: why."""
    client = scheduler.client()
    client.send(wire.Register(device, GIB, backend=wire.Backend.NATIVE, command="test", pid=os.getpid()))
    text = client.expect(wire.Refused).text
    client.raw.wait_closed()
    return text


def served(scheduler: Scheduler, device: bytes) -> bool:
    """Whether a client that comes now is served."""
    client = scheduler.client()
    client.send(wire.Register(device, GIB, backend=wire.Backend.NATIVE, command="test", pid=os.getpid()))
    try:
        return isinstance(client.receive(), wire.SchedOn)
    except ClosedError:
        return False


@contextmanager
def squatter(uid: int, *devices: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """A stranger who claims GPUs."""
    command = [*as_real_user(uid), sys.executable, "-c", _SQUATTER, *(each.hex() for each in devices)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_second_refuses_a_gpu(begin: Begin) -> None:
    """Who comes second says whose the GPU is; GPUs that do not overlap are served by both."""
    first, second = begin("first"), begin("second")
    one, two = gpus(first)
    come(first, one)
    words = refused(second, one)
    assert f"has another scheduler, pid {first.process.pid} of user {os.geteuid()}" in words
    assert len(words.encode()) < wire.TEXT_BYTES
    come(second, two)
    assert f"pid {second.process.pid}" in refused(first, two)
    come(first, one)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_claim_ends_with_its_process(begin: Begin, end: signal.Signals) -> None:
    """However the first one ends: the next has the GPU at once, and so has its successor in the same folder."""
    first, second = begin("first"), begin("second")
    one = gpus(first)[0]
    come(first, one)
    assert "has another scheduler" in refused(second, one)
    first.process.send_signal(end)
    first.process.wait(TIMEOUT_SECONDS)
    poll_until(lambda: served(second, one), "the second has it", TIMEOUT_SECONDS)
    second.kill()
    come(begin("second"), one)


def test_who_has_no_clients_gives_the_gpu_up(begin: Begin) -> None:
    """A scheduler that nobody uses any more keeps no other one from the GPU."""
    first, second = begin("first"), begin("second")
    one = gpus(first)[0]
    client = come(first, one)
    assert "has another scheduler" in refused(second, one)
    client.raw.close()
    poll_until(lambda: served(second, one), "the second has it", TIMEOUT_SECONDS)
    assert first.process.poll() is None


@as_root
def test_the_machines_keeps_its_gpus(begin: Begin) -> None:
    """Also when nobody uses them: programs come to it anyhow."""
    machines, alices = begin(SYSTEM), begin("alice", ALICE)
    one, two = gpus(machines)
    for client in (come(machines, one), come(alices, two)):
        client.raw.close()
    poll_until(lambda: not gpu_claims.claims(two.__eq__), "the user's is given up", TIMEOUT_SECONDS)
    assert [claim.pid for claim in gpu_claims.claims(one.__eq__)] == [machines.process.pid]


def test_a_stopped_one_has_its_gpu(begin: Begin) -> None:
    """A scheduler that does not answer has its claim as long as it lives."""
    first, second = begin("first"), begin("second")
    one = gpus(first)[0]
    come(first, one)
    stop(first.process.pid)
    assert f"pid {first.process.pid}" in refused(second, one)
    first.process.send_signal(signal.SIGCONT)


def test_other_gpus_of_the_same_place_in_another_folder(begin: Begin, run_dir: RunDir, tmp_path: Path) -> None:
    """Simulated GPUs of another folder are other GPUs."""
    first = begin("first")
    come(first, gpus(first)[0])
    with Scheduler(run_dir.root / "other", environment=simgpu.environment(tmp_path / "other", "512MiB")) as other:
        come(other, gpus(other)[0])


def test_at_the_same_moment(begin: Begin) -> None:
    """Of several that claim one GPU at the same moment at most one gets it."""
    schedulers = [begin(f"scheduler-{number}") for number in range(3)]
    one = gpus(schedulers[0])[0]
    clients = [scheduler.client() for scheduler in schedulers]
    for client in clients:
        client.send(wire.Register(one, GIB, backend=wire.Backend.NATIVE, command="test", pid=os.getpid()))
    answers = [client.receive() for client in clients]
    assert sum(isinstance(answer, wire.SchedOn) for answer in answers) <= 1
    owners = {claim.pid for claim in gpu_claims.claims(one.__eq__)}
    assert len(owners) <= 1


@as_root
def test_users_have_ranks_of_their_own(begin: Begin) -> None:
    """Two users: the second is told of the first. Root's, in a folder of its own, has no better rank."""
    alices = begin("alice", ALICE)
    one = gpus(alices)[0]
    come(alices, one)
    for scheduler in (begin("bob", BOB), begin("roots")):
        assert f"pid {alices.process.pid} of user {ALICE}" in refused(scheduler, one)
    (claim,) = gpu_claims.claims(one.__eq__)
    assert (claim.pid, claim.uid, gpu_claims.run_dir_of(claim)) == (alices.process.pid, ALICE, alices.run_dir)


@as_root
def test_the_machines_takes_the_gpu(begin: Begin) -> None:
    """A user's scheduler ends when the machine's serves its GPU, and says so; who held there comes before others."""
    alices = begin("alice", ALICE)
    one = gpus(alices)[0]
    holder = come(alices, one)
    grant = holder.lock()
    machines = begin(SYSTEM)
    assert not served(machines, one)
    assert alices.process.wait(TIMEOUT_SECONDS) == 0
    (line,) = alices.logged(YIELDS)
    assert line["pid"] == machines.process.pid
    holder.raw.wait_closed()
    come(machines, one, state=wire.State.HOLDING, grant=grant)
    poll_until(lambda: served(machines, one), "the machine's serves all", TIMEOUT_SECONDS)
    refusing = begin("alice", ALICE)
    assert f"has the machine's scheduler, pid {machines.process.pid}" in refused(refusing, one)


@as_root
def test_squatters_keep_the_machines_from_nothing(begin: Begin) -> None:
    """It serves after some seconds, and says who is in the way; a user's scheduler can't."""
    machines, alices = begin(SYSTEM), begin("alice", ALICE)
    one = gpus(machines)[0]
    with squatter(MALLORY, one) as stranger:
        assert "has another scheduler" in refused(alices, one)
        poll_until(lambda: served(machines, one), "the machine's serves it", TIMEOUT_SECONDS)
        lines = machines.logged(
            "another process claims this GPU and does not give it up: its programs run beside whose turn it is"
        )
        assert (stranger.pid, MALLORY) in {(line["pid"], line["uid"]) for line in lines}
        assert f"has the machine's scheduler, pid {machines.process.pid}" in refused(alices, one)


@as_root
def test_squatters_can_not_send_a_scheduler_away(begin: Begin, run_dir: RunDir) -> None:
    """Who claims a GPU later, and says what it likes of itself, changes nothing for the one that has it."""
    alices = begin("alice", ALICE)
    one = gpus(alices)[0]
    come(alices, one)
    with squatter(MALLORY, one), socket.socket(socket.AF_UNIX) as roots:
        roots.bind(f"\0nvshare/gpu/{one.hex()}/roots")
        roots.listen()
        for claim in gpu_claims.claims(one.__eq__) * 5:
            gpu_claims.run_dir_of(claim) if claim.uid == ALICE else None
        come(alices, one)
    assert alices.process.poll() is None


@as_root
def test_programs_go_to_the_machines(begin: Begin, machine: Machine, libraries: Libraries) -> None:
    """A program of a user's scheduler goes on at the machine's when that comes, and both have their turns."""
    home = machine.folder("alice", ALICE)
    alices = begin("alice/nvshare", ALICE)
    variables = machine.environment | {
        "XDG_RUNTIME_DIR": str(home),
        paths.MEMORY: "native",
        "PYTHONPATH": str(SOURCE_ROOT),
        "PATH": "/usr/bin:/bin",
    }
    program = ControlledProgram(
        variables,
        prefix=[*machine.user(ALICE), "env", f"{paths.LD_PRELOAD}={libraries.shim}"],
        name="call_loop.py",
    )
    try:
        for call in ("cuInit 0", "cuDevicePrimaryCtxRetain &c 0", "cuCtxSetCurrent c", "cuMemAlloc_v2 &p 64", WRITE):
            assert program.do(call) == "0"
        machines = begin(SYSTEM)
        one = next(device_bytes(each.uuid) for each in alices.status().devices if each.clients)
        poll_until(lambda: served(machines, one), "the machine's serves it", TIMEOUT_SECONDS)
        assert alices.process.wait(TIMEOUT_SECONDS) == 0
        assert program.do(WRITE) == "0"
        assert program.pid in {client.pid for device in machines.status().devices for client in device.clients}
    finally:
        program.end()


@as_root
def test_out_of_memory_names_the_other_one(begin: Begin, machine: Machine, libraries: Libraries) -> None:
    """A program beside a scheduler that is not its own is told of it when its memory is refused; others are not."""
    machines = begin(SYSTEM)
    one = gpus(machines)[0]
    variables = machine.environment | {"PYTHONPATH": str(SOURCE_ROOT), "PATH": "/usr/bin:/bin"}

    def refused_memory(**more: str) -> str:
        before = ["env", f"{paths.LD_PRELOAD}={libraries.shim}"]
        program = ControlledProgram(variables | more, prefix=[*machine.user(ALICE), *before], name="call_loop.py")
        try:
            for call in ("cuInit 0", "cuDevicePrimaryCtxRetain &c 0", "cuCtxSetCurrent c"):
                assert program.do(call) == "0"
            assert program.do(f"cuMemAlloc_v2 &p {GIB}") == "2"
            return program.said("out of memory on device 0")
        finally:
            program.end()

    assert "another scheduler" not in refused_memory()
    come(machines, one)
    alone = refused_memory(**{paths.RUN_DIR: "/nonexistent", paths.ON_MISSING: "run"})
    assert alone.endswith(f"; another scheduler has this device: pid {machines.process.pid} of user 0")
    with squatter(MALLORY, one) as stranger:
        beside = refused_memory()
        assert beside.endswith(f"; another scheduler has this device, too: pid {stranger.pid} of user {MALLORY}")
