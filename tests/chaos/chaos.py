"""A node whose programs have more memory than its devices, and what must hold whatever is done to them.

The seed chooses what is done in which order; when it meets what the programs do depends on the machine.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import grpc

import build_native
from nvshare import paths, scheduler_process, shim, simgpu
from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.simgpu import record, transfers, turns
from nvshare.simgpu.turns import Span
from tests.chaos import gangs, programs
from tests.chaos.gangs import Gang
from tests.chaos.programs import Program
from tests.polling import poll_until
from tests.programs.compiler import compiled

DEVICES = 2
DEVICE = "1GiB/32MiB"
"""Nine programs of up to 200 MiB have nearly twice the memory that their contexts leave of it."""
POLICIES = ("exclusive", "exclusive", "auto")
"""One of them, by the seed."""
SERVED = ("--host-memory", "4GiB", "--reserve", "128MiB")
"""The reserve is for second contexts, which programs take unasked while others are woken."""
QUANTUM_SECONDS = 0.2
TERMS = ("weight", "priority", "compute_limit", "memory_request_bytes", "sleep")
"""What is set of them."""
LONGEST_WAIT_SECONDS = 90.0
"""Sixteen programs take turns of at most half a second each, beside all that is done to them."""
_LATE = re.compile(r"holder does not give the lock back .* pid=(\d+)")


@dataclass(slots=True)
class Chaos:
    """A node with a scheduler and its programs, and what was done to them."""

    folder: Path
    seed: int
    random: Random = field(init=False)
    policy: str = field(init=False)
    run_dir: paths.RunDir = field(init=False)
    environment: dict[str, str] = field(init=False)
    programs: list[Program] = field(default_factory=list)
    gangs: list[Gang] = field(default_factory=list)
    scheduler: subprocess.Popen[bytes] = field(init=False)
    done: dict[str, int] = field(default_factory=dict)
    """How often each deed was done."""
    started: int = 0
    """How many schedulers were."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.policy = self.random.choice(POLICIES)
        self.run_dir = paths.RunDir(self.folder / "run")
        simulated = simgpu.environment(self.folder / "gpus", f"{DEVICES}x{DEVICE}", os.environ)
        shared = shim.preload_environment(self.run_dir, os.environ)
        self.environment = programs.environment_of({**shared, **simulated})

    @property
    def log(self) -> Path:
        """What all schedulers said."""
        return self.folder / "scheduler.log"

    def start_scheduler(self) -> None:
        """Starts a scheduler, and waits until it accepts clients."""
        told = ("--policy", self.policy, "--quantum", str(QUANTUM_SECONDS))
        command = scheduler_process.command(self.run_dir, *SERVED, *told)
        command += ["--pod-resources", str(self.folder / "no-kubelet.sock")]
        environment = {name: value for name, value in self.environment.items() if name != "LD_PRELOAD"}
        with self.log.open("ab") as log:
            self.scheduler = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.started += 1
        poll_until(self._accepts, "the scheduler accepts clients", LONGEST_WAIT_SECONDS)

    def _accepts(self) -> bool:
        assert self.scheduler.poll() is None, self.log.read_text()[-2000:]
        return scheduler_process.accepts(self.run_dir.client_socket)

    def devices(self) -> Sequence[admin_pb2.Device]:
        """What the scheduler says of the devices; nothing if it does not answer."""
        with grpc.insecure_channel(f"unix:{self.run_dir.admin_socket}") as channel:
            try:
                return admin_pb2_grpc.AdminStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=1).devices
            except grpc.RpcError:
                return ()

    @contextmanager
    def operator(self) -> Iterator[admin_pb2_grpc.AdminStub]:
        """Calls of an operator, who takes note of a refusal."""
        with grpc.insecure_channel(f"unix:{self.run_dir.admin_socket}") as channel, suppress(grpc.RpcError):
            yield admin_pb2_grpc.AdminStub(channel)

    def containers(self) -> set[str]:
        """Whose terms can be set."""
        named = {client.member_of for device in self.devices() for client in device.clients}
        return named - {""}

    def take_back_terms(self, container: str) -> None:
        """A container has what it had at first."""
        with self.operator() as admin:
            admin.SetTerms(admin_pb2.SetTermsRequest(container=container, taken_back=TERMS), timeout=1)

    def one_of(self, chosen: Callable[[admin_pb2.Client], bool]) -> Program:
        """One of the programs that are chosen by what the scheduler says of them, else any."""
        pids = {client.pid for device in self.devices() for client in device.clients if chosen(client)}
        return self.random.choice([place for place in self.programs if place.process.pid in pids] or self.programs)

    def check(self) -> None:
        """Nothing that went on so far was wrong."""
        for place in self.programs:
            assert not (text := place.failed()), text
        for gang in self.gangs:
            assert not (text := gang.failed()), text
        text = self.log.read_text(errors="replace")
        late = {int(pid) for pid in _LATE.findall(text)}
        for device in range(DEVICES if self.policy == "exclusive" else 0):
            found = turns.overlaps(self._as_units(transfers.work(record.read(self.folder / "gpus", device))))
            # Who can't stop may be helped beside others that can't.
            found = [pair for pair in found if not all(self._job(span.pid) & late for span in pair)]
            assert not found, f"{len(found)} overlaps on device {device}, the first: {found[0]}"
        assert "Traceback" not in text, text[-4000:]
        assert "a bug in the scheduler" not in text, text[-4000:]

    def _as_units(self, spans: Iterable[Span]) -> list[Span]:
        """The processes of a job are on a device together: what any of them did counts as done by one."""
        jobs = [pids for gang in self.gangs for pids in gang.all_pids]
        unit = {pid: -number for number, pids in enumerate(jobs, 1) for pid in pids}
        return [replace(span, client=unit.get(span.pid, span.client)) for span in spans]

    def _job(self, pid: int) -> set[int]:
        """The processes of its job, or itself."""
        return next((pids for gang in self.gangs for pids in gang.all_pids if pid in pids), {pid})

    def calm_down(self) -> None:
        """Every program makes progress when nothing more is done to it, and ends well."""
        for container in self.containers():
            self.take_back_terms(container)
        for place in (*self.programs, *self.gangs):
            place.resume()
        before = {place.name: place.rounds for place in (*self.programs, *self.gangs)}
        for place in (*self.programs, *self.gangs):

            def goes_on(place: Program | Gang = place) -> bool:
                assert not (text := place.failed()), text
                return place.rounds > before[place.name]

            _poll(goes_on, "goes on", place, self)
        for place in self.programs:
            place.ask_to_end()
        for place in self.programs:
            _poll(lambda place=place: place.process.poll() is not None, "ends", place, self)  # type: ignore[misc]
            assert not (text := place.failed()), text
        for gang in self.gangs:
            gang.finish()
        poll_until(
            lambda: not gangs.pages(self.scheduler.pid), "the scheduler keeps no page of a gang", LONGEST_WAIT_SECONDS
        )


def _poll(condition: Callable[[], bool], what: str, place: Program | Gang, chaos: Chaos) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, (
            f"nobody may be stuck; this one never {what}: {place.where()}\n"
            f"it said: {place.said()}\n"
            f"the scheduler says: {chaos.log.read_text(errors='replace')[-1500:]}\n{chaos.devices()}"
        )
        time.sleep(0.02)


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
        chaos.gangs = gangs.gangs(folder, chaos.environment)
        yield chaos
    finally:
        for place in (*chaos.programs, *chaos.gangs):
            place.kill()
        chaos.scheduler.kill()
        chaos.scheduler.wait()
