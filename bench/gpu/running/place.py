"""Where an experiment runs: devices that a hog makes small, a scheduler, and what its status says."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from bench.gpu.running.program import Program, ProgramError, kill, starting
from nvshare import admin_channel, paths, scheduler_process, shim
from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.ctl.asking.admin_client import admin
from nvshare.scheduler_process import SchedulerStartError
from nvshare.unix_sockets import grpc_address

MIB = 1 << 20
RESERVE_BYTES = 512 * MIB
"""What the scheduler keeps free: its default for the devices of 16 GiB that a hog makes of larger ones."""
HEADROOM_BYTES = 1536 * MIB
CONTEXT_BYTES = 768 * MIB
"""More than what a PyTorch process has beside its data: 730 MiB with cuBLAS and cuDNN."""
HOST_GIB = 48
"""Host memory to swap into, of all programs together: two of 20 GB that push each other out need most."""
START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Place:
    """What all experiments share; sizes are in units, so that the same experiments fit a simulated device."""

    environment: Mapping[str, str]
    simulated: bool
    unit: int
    logs: Path
    stack: ExitStack
    """Ends what runs: closed at the end of each experiment."""

    def start(self, name: str, script: str, environment: Mapping[str, str], *arguments: object) -> Program:
        """A program, not yet there."""
        return self.stack.enter_context(starting(name, script, environment, self.logs, *arguments))

    def there(self, *programs: Program) -> None:
        """Waits until they are."""
        for program in programs:
            program.answer(START_SECONDS)

    def ready(self, name: str, script: str, environment: Mapping[str, str], *arguments: object) -> Program:
        """A program that is there."""
        program = self.start(name, script, environment, *arguments)
        self.there(program)
        return program

    def hog(self, left: int, ordinal: int = 0) -> Program:
        """Takes all of a device but ``left`` bytes."""
        return self.ready(f"hog{ordinal}", "hog.py", self.environment, ordinal, left)

    def run_dir(self) -> paths.RunDir:
        """A new run directory, for a scheduler that does not run yet."""
        folder = self.logs / f"scheduler-{time.monotonic_ns()}"
        folder.mkdir()
        return paths.RunDir(folder)

    def clients(self, run_dir: paths.RunDir) -> dict[str, str]:
        """The environment of programs that share the GPU through the scheduler of ``run_dir``."""
        return {**self.environment, **shim.preload_environment(run_dir, self.environment)}

    def scheduler(
        self,
        quantum: float,
        policy: str = "auto",
        run_dir: paths.RunDir | None = None,
        host_memory: str = f"{HOST_GIB}GiB",
        sleep_after: float | None = None,
        swap_dir: Path | None = None,
    ) -> Scheduler:
        """A scheduler of its own, by default in a new run directory."""
        options = ["--policy", policy, "--quantum", str(quantum), "--host-memory", host_memory]
        options += [] if sleep_after is None else ["--sleep-after", str(sleep_after)]
        options += [] if swap_dir is None else ["--swap-dir", str(swap_dir)]
        return self.stack.enter_context(_scheduler(self, run_dir or self.run_dir(), options))


def left_for(data: int, programs: int) -> int:
    """What a hog leaves so that so many programs together can have ``data`` bytes resident."""
    return data + RESERVE_BYTES + max(HEADROOM_BYTES, programs * CONTEXT_BYTES)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A running one."""

    run_dir: paths.RunDir
    clients: dict[str, str]
    """The environment of its clients."""
    began: float = field(default_factory=time.monotonic)

    def status(self) -> admin_pb2.Status:
        """What it says now."""
        with admin([self.run_dir]) as stub:
            status: admin_pb2.Status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=10)
        return status

    def demand_swap(self) -> None:
        """ProgramError if the memory of a client does not swap: the figures would mean nothing."""
        for device in self.status().devices:
            for client in device.clients:
                if client.backend != "swap":
                    raise ProgramError(f"the memory of {client.command} is {client.backend or 'unknown'}, not swap")

    @contextmanager
    def watching(self, see: Callable[[admin_pb2.Status], None]) -> Iterator[None]:
        """Each status goes there until the end of the block."""
        with grpc.insecure_channel(grpc_address(self.run_dir.admin_socket), admin_channel.OPTIONS) as channel:
            stream = admin_pb2_grpc.AdminStub(channel).WatchStatus(admin_pb2.WatchStatusRequest())

            def follow() -> None:
                try:
                    for status in stream:
                        see(status)
                except grpc.RpcError:
                    return

            reader = threading.Thread(target=follow, daemon=True)
            reader.start()
            try:
                yield
            finally:
                stream.cancel()
                reader.join()

    def states(self) -> dict[int, str]:
        """Of each client, by pid."""
        return {client.pid: client.state for device in self.status().devices for client in device.clients}

    def until(self, pid: int, state: str, seconds: float = 60.0) -> None:
        """Waits until a process is in that state; ProgramError after so long."""
        end = time.monotonic() + seconds
        while (seen := self.states().get(pid)) != state:
            if time.monotonic() > end:
                reasons = [c.awake_reason for device in self.status().devices for c in device.clients if c.pid == pid]
                raise ProgramError(f"a program is {seen}, not {state}, after {seconds:g} s: {reasons}")
            time.sleep(0.01)

    def ask_to_sleep(self, pid: int) -> None:
        """As soon as it rests; grpc.RpcError if it can't."""
        with admin([self.run_dir]) as stub:
            stub.Sleep(admin_pb2.SleepRequest(name=f"pid:{pid}"), timeout=60)

    def put_to_sleep(self, pid: int) -> None:
        """As soon as it rests, and waits until it is asleep."""
        self.ask_to_sleep(pid)
        self.until(pid, "asleep")

    def wake(self, pid: int) -> None:
        """By command, and waits until it is awake."""
        with admin([self.run_dir]) as stub:
            stub.Wake(admin_pb2.SleepRequest(name=f"pid:{pid}"), timeout=60)
        self.until(pid, "idle")

    def stored(self) -> int:
        """The pid of a program whose host memory is in a file, once all sleep; ProgramError: none in a minute."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            clients = [client for device in self.status().devices for client in device.clients]
            found = [client.pid for client in clients if client.swap.stored_bytes]
            if found and all(client.state == "asleep" for client in clients):
                return found[0]
            time.sleep(0.01)
        raise ProgramError("no program's host memory went into a file in a minute")

    def file_seconds(self) -> tuple[list[float], list[float]]:
        """How long each transfer into a file took so far, and each out of one, as the scheduler logged it."""
        entries = [json.loads(line) for line in self.run_dir.log_file.read_text(encoding="utf-8").splitlines()]
        written, read = (
            [float(entry["seconds"]) for entry in entries if entry.get("event") == f"the data of a process is {what}"]
            for what in ("in a file", "back from a file")
        )
        return written, read

    def set_policy(self, policy: str) -> None:
        """For all devices."""
        with admin([self.run_dir]) as stub:
            stub.SetPolicy(admin_pb2.SetPolicyRequest(policy=policy), timeout=10)

    def set_compute_limit(self, container: str, share: float) -> None:
        """Of a container that has clients."""
        with admin([self.run_dir]) as stub:
            stub.SetTerms(admin_pb2.SetTermsRequest(container=container, compute_limit=share), timeout=10)

    def mix(self) -> str:
        """What its devices' clients do better, as far as it knows."""
        found = []
        for mix in (device.mix for device in self.status().devices if device.HasField("mix")):
            if mix.HasField("bursts"):
                found.append(f"bursts {mix.bursts:.3f} of turns")
            else:
                found.append(f"{mix.ratio:.3f} of turns" if mix.HasField("ratio") else "not known")
        return "; ".join(found)

    def moved(self) -> Moved:
        """What was swapped so far, on all devices."""
        each = [device.swapping for device in self.status().devices]
        return Moved(
            sum(one.out_bytes for one in each),
            sum(one.in_bytes for one in each),
            sum(one.out_seconds for one in each),
            sum(one.in_seconds for one in each),
            sum(one.stalls for one in each),
            sum(one.stall_seconds for one in each),
            sum(one.prefetched for one in each),
            sum(one.spared_bytes for one in each),
        )


@dataclass(frozen=True, slots=True)
class Moved:
    """The scheduler's own count of what was swapped."""

    out_bytes: int
    in_bytes: int
    out_seconds: float
    in_seconds: float
    stalls: int
    stall_seconds: float
    prefetched: int
    spared_bytes: int

    def since(self, before: Moved) -> Moved:
        """What was added."""
        return Moved(
            self.out_bytes - before.out_bytes,
            self.in_bytes - before.in_bytes,
            self.out_seconds - before.out_seconds,
            self.in_seconds - before.in_seconds,
            self.stalls - before.stalls,
            self.stall_seconds - before.stall_seconds,
            self.prefetched - before.prefetched,
            self.spared_bytes - before.spared_bytes,
        )


@contextmanager
def _scheduler(place: Place, run_dir: paths.RunDir, options: list[str]) -> Iterator[Scheduler]:
    options = ["--log-format=json", f"--reserve={RESERVE_BYTES // MIB}MiB", *options]
    command = scheduler_process.command(run_dir, *options)
    with run_dir.log_file.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=dict(place.environment), stdout=log, stderr=log, start_new_session=True)
    try:
        scheduler_process.wait_until_accepting(run_dir, lambda: process.poll() is None, run_dir.log_file)
        yield Scheduler(run_dir, place.clients(run_dir))
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        kill(process)


__all__ = ["RESERVE_BYTES", "Moved", "Place", "Scheduler", "SchedulerStartError", "left_for"]
