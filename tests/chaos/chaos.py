"""Kills, stops, floods, forks and captures at random, and what must hold nevertheless.

The seed chooses what is done in which order; when it meets what the programs do depends on the machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import grpc

import build_native
from nvshare import paths, scheduler_process, shim, simgpu
from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.protocol import wire
from nvshare.simgpu import record, turns
from tests.chaos import programs
from tests.chaos.programs import Program
from tests.polling import poll_until
from tests.programs.compiler import compiled

DEVICES = 2
QUANTUM_SECONDS = 0.2
MEMORY_BYTES = 8 << 20
"""How much a scheduler may grow in any number of connections: its heap's pieces, not a leak of bytes a connection."""
PATIENCE_SECONDS = 90.0
"""Sixteen programs take turns of at most half a second each, beside all that is done to them."""


@dataclass(slots=True)
class Chaos:
    """A node with a scheduler and its programs, and what was done to them."""

    folder: Path
    seed: int
    random: Random = field(init=False)
    run_dir: paths.RunDir = field(init=False)
    environment: dict[str, str] = field(init=False)
    programs: list[Program] = field(default_factory=list)
    scheduler: subprocess.Popen[bytes] = field(init=False)
    done: dict[str, int] = field(default_factory=dict)
    """How often each deed was done."""
    started: int = 0
    """How many schedulers were."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.run_dir = paths.RunDir(self.folder / "run")
        simulated = simgpu.environment(self.folder / "gpus", f"{DEVICES}x16GiB", os.environ)
        shared = shim.preload_environment(self.run_dir, os.environ)
        self.environment = programs.environment_of({**shared, **simulated})

    @property
    def log(self) -> Path:
        """What all schedulers said."""
        return self.folder / "scheduler.log"

    def start_scheduler(self) -> None:
        """Starts a scheduler, and waits until it accepts clients."""
        command = scheduler_process.command(self.run_dir, "--policy", "exclusive", "--quantum", str(QUANTUM_SECONDS))
        command += ["--pod-resources", str(self.folder / "no-kubelet.sock")]
        environment = {name: value for name, value in self.environment.items() if name != "LD_PRELOAD"}
        with self.log.open("ab") as log:
            self.scheduler = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.started += 1
        poll_until(self._accepts, "the scheduler accepts clients", PATIENCE_SECONDS)

    def _accepts(self) -> bool:
        assert self.scheduler.poll() is None, self.log.read_text()[-2000:]
        return scheduler_process.accepts(self.run_dir.client_socket)

    def pids(self, *states: str) -> list[int]:
        """The pids of the clients in these states, as the scheduler says; none if it does not answer."""
        with grpc.insecure_channel(f"unix:{self.run_dir.admin_socket}") as channel:
            try:
                status = admin_pb2_grpc.AdminStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=1)
            except grpc.RpcError:
                return []
        return [client.pid for device in status.devices for client in device.clients if client.state in states]

    def one_in(self, *states: str) -> Program:
        """One of the programs in these states, else any."""
        pids = self.pids(*states)
        return self.random.choice([place for place in self.programs if place.process.pid in pids] or self.programs)

    def check(self) -> None:
        """Nothing that went on so far was wrong."""
        for place in self.programs:
            assert not (text := place.failed()), text
        for device in range(DEVICES):
            found = turns.overlaps(record.read(self.folder / "gpus", device))
            assert not found, f"{len(found)} overlaps on device {device}, the first: {found[0]}"
        text = self.log.read_text(errors="replace")
        assert "Traceback" not in text, text[-4000:]
        assert "a bug in the scheduler" not in text, text[-4000:]

    def do_something(self) -> None:
        """One deed."""
        deed = self.random.choices(list(DEEDS), list(DEEDS.values()))[0]
        self.done[deed.__name__] = self.done.get(deed.__name__, 0) + 1
        deed(self)

    def calm_down(self) -> None:
        """Every program makes progress when nothing more is done to it, and ends well."""
        for place in self.programs:
            place.resume()
        before = {place.name: place.rounds for place in self.programs}
        for place in self.programs:

            def goes_on(place: Program = place) -> bool:
                assert not (text := place.failed()), text
                return place.rounds > before[place.name]

            _poll(goes_on, "goes on", place, self)
        for place in self.programs:
            place.ask_to_end()
        for place in self.programs:
            _poll(lambda place=place: place.process.poll() is not None, "ends", place, self)  # type: ignore[misc]
            assert not (text := place.failed()), text


def _poll(condition: Callable[[], bool], what: str, place: Program, chaos: Chaos) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, (
            f"no program may be stuck; this one never {what}: {place.where()}\n"
            f"it said: {place.errors.read_text(errors='replace')[-600:]}\n"
            f"the scheduler says: {chaos.log.read_text(errors='replace')[-1500:]}"
        )
        time.sleep(0.02)


# Deeds.


def _kill_and_replace(chaos: Chaos, *states: str) -> None:
    place = chaos.one_in(*states)
    place.kill()
    place.start(chaos.random.getrandbits(32))


def kill_holder(chaos: Chaos) -> None:
    """Kills a program that holds a lock."""
    _kill_and_replace(chaos, "holding")


def kill_waiter(chaos: Chaos) -> None:
    """Kills a program that waits."""
    _kill_and_replace(chaos, "waiting")


def kill_draining(chaos: Chaos) -> None:
    """Kills a program that was asked to leave."""
    _kill_and_replace(chaos, "leaving", "unresponsive")


def kill_scheduler(chaos: Chaos) -> None:
    """Kills the scheduler, and starts the next one at once or after a while."""
    chaos.scheduler.kill()
    chaos.scheduler.wait()
    time.sleep(chaos.random.choice((0.0, 0.0, 0.5, 1.5)))
    chaos.start_scheduler()


def restart_scheduler(chaos: Chaos) -> None:
    """Ends the scheduler as an operator does, and starts the next one."""
    chaos.scheduler.terminate()
    chaos.scheduler.wait()
    chaos.start_scheduler()


def kill_both(chaos: Chaos) -> None:
    """Kills a holder while there is no scheduler to see it."""
    place = chaos.one_in("holding", "leaving")
    chaos.scheduler.kill()
    chaos.scheduler.wait()
    place.kill()
    place.start(chaos.random.getrandbits(32))
    chaos.start_scheduler()


def stop_scheduler(chaos: Chaos) -> None:
    """Stops the scheduler for a moment."""
    chaos.scheduler.send_signal(signal.SIGSTOP)
    time.sleep(chaos.random.uniform(0.05, 0.8))
    chaos.scheduler.send_signal(signal.SIGCONT)


def stop_program(chaos: Chaos) -> None:
    """Stops a program; a later deed lets it go on."""
    if sum(place.stopped for place in chaos.programs) < 3:
        chaos.one_in("holding", "waiting", "leaving").stop()


def resume_program(chaos: Chaos) -> None:
    """Lets a stopped program go on."""
    stopped = [place for place in chaos.programs if place.stopped]
    if stopped:
        chaos.random.choice(stopped).resume()


def change_settings(chaos: Chaos) -> None:
    """Sets the quantum, as an operator may at any time."""
    with grpc.insecure_channel(f"unix:{chaos.run_dir.admin_socket}") as channel, contextlib.suppress(grpc.RpcError):
        seconds = chaos.random.choice((0.05, QUANTUM_SECONDS, 0.5))
        admin_pb2_grpc.AdminStub(channel).SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds), timeout=1)


@contextmanager
def _connections(chaos: Chaos, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(1)
            with contextlib.suppress(OSError):
                connection.connect(str(chaos.run_dir.client_socket))
                opened.append(connection)
        yield opened


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


def flood_with_garbage(chaos: Chaos) -> None:
    """Many connections that send what is no frame, half a frame, or nothing."""
    whole = wire.encode(wire.ReqLock())
    with _connections(chaos, 100) as opened:
        for connection in opened:
            # Not with a first byte of version 1: any bytes behind it are a command, and root's are obeyed.
            garbage = b"\0" + chaos.random.randbytes(700)
            _send(connection, chaos.random.choice((b"", whole[:100], whole, garbage)))


def flood_with_footprints(chaos: Chaos) -> None:
    """Clients of an unknown device that send nothing but footprints."""
    device = chaos.random.randbytes(wire.UUID_BYTES)
    with _connections(chaos, 20) as opened:
        for connection in opened:
            _send(connection, wire.encode(wire.Register(device, 1 << 30)))
            _send(connection, b"".join(wire.encode(wire.Footprint(size)) for size in range(200)))


def claim_to_hold(chaos: Chaos) -> None:
    """Somebody says that he holds the lock of a device, and does not."""
    with _connections(chaos, 4) as opened:
        for connection, state in zip(opened, (wire.State.HOLDING, wire.State.DRAINING) * 2, strict=False):
            grant = chaos.random.choice((0, 1, 2**63 - 1, 2**64 - 1))
            device = chaos.random.choice(list(_device_uuids(chaos).values()))
            _send(connection, wire.encode(wire.Register(device, 16 << 30, state, grant=grant)))
        for connection in opened:
            with contextlib.suppress(OSError):
                connection.recv(4096)


def _device_uuids(chaos: Chaos) -> Mapping[str, bytes]:
    with grpc.insecure_channel(f"unix:{chaos.run_dir.admin_socket}") as channel:
        try:
            status = admin_pb2_grpc.AdminStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=1)
        except grpc.RpcError:
            return {"": bytes(wire.UUID_BYTES)}
    found = {device.uuid: bytes.fromhex(device.uuid.partition("-")[2].replace("-", "")) for device in status.devices}
    return found or {"": bytes(wire.UUID_BYTES)}


DEEDS: Mapping[Callable[[Chaos], None], int] = {
    kill_holder: 6,
    kill_waiter: 4,
    kill_draining: 6,
    kill_scheduler: 4,
    restart_scheduler: 1,
    kill_both: 2,
    stop_scheduler: 3,
    stop_program: 4,
    resume_program: 8,
    change_settings: 2,
    flood_with_garbage: 2,
    flood_with_footprints: 2,
    claim_to_hold: 3,
}
"""How often each is done beside the others."""


def _connect(chaos: Chaos, connections: int) -> None:
    for _ in range(connections // 120):
        flood_with_garbage(chaos)
        flood_with_footprints(chaos)


def memory_growth(chaos: Chaos, connections: int) -> int:
    """By how many bytes the scheduler's own memory grows while so many connections come and go.

    The first tenth is not counted: until then it fills what it keeps.
    """
    _connect(chaos, connections // 10)
    before = _memory_bytes(chaos.scheduler.pid)
    _connect(chaos, connections - connections // 10)
    grown = _memory_bytes(chaos.scheduler.pid) - before
    assert grown <= MEMORY_BYTES, f"the scheduler has grown by {grown} bytes in {connections} connections"
    return grown


def _memory_bytes(pid: int) -> int:
    """Without what it shares with others and with files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


@contextmanager
def running(folder: Path, seed: int) -> Iterator[Chaos]:
    """A node with all its programs; whatever happens, nothing of it is left."""
    (folder / "gpus").mkdir(parents=True)
    executable = compiled(
        "chaos", build_native.TARGETS[platform.machine()], simgpu.library_dir() / "libcuda.so.1", folder
    )
    chaos = Chaos(folder, seed)
    try:
        chaos.start_scheduler()
        chaos.programs = programs.programs(executable, folder, chaos.environment, chaos.random)
        yield chaos
    finally:
        for place in chaos.programs:
            place.kill()
        chaos.scheduler.kill()
        chaos.scheduler.wait()


def rage(chaos: Chaos, seconds: float, report: Callable[[str], None]) -> None:
    """Does something a few times a second for so long, and looks again and again whether all is well."""
    end = time.monotonic() + seconds
    next_check = time.monotonic() + 10
    while time.monotonic() < end:
        chaos.do_something()
        time.sleep(chaos.random.expovariate(8))
        if time.monotonic() > next_check:
            chaos.check()
            rounds = sum(place.rounds for place in chaos.programs)
            report(f"{end - time.monotonic():.0f} s left, {rounds} rounds, {sum(chaos.done.values())} deeds")
            next_check = time.monotonic() + 10
