"""Programs whose work waits for each other, their libraries, and a core, in virtual time.

A program has one process or several, each on one device. When all of its processes have joined, they make one
collective after another: a process submits the next one when the last one has completed, and one completes when all
have submitted it. A library that was told to leave submits no more than what others have submitted already, and gives
the lock back when all that it submitted has completed. So a process that holds while another one of its program does
not has soon submitted something that does not complete before the other one holds: a core that lets that happen makes
the model stand still. Before it has joined, a process computes by itself. Every message takes the same time.

``Model`` knows nothing of the core's inside: gang_rules.py checks the rules by what the core says.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from nvshare.scheduler.core.actions import (
    Action,
    ConfirmJoin,
    FormGang,
    Grant,
    LeaveGang,
    ReportMissing,
    ReportUnresponsive,
    Revoke,
    TellWaiters,
)
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientIdle,
    ClientRegistered,
    DeviceSeen,
    Event,
    GangJoined,
    GangLeft,
    HolderRecorded,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.records.gang import REJOIN_SECONDS
from nvshare.scheduler.core.settings import Settings
from tests.scheduler.core import waiting
from tests.scheduler.core.gangs.gang_programs import GIB, Job, Process, Program
from tests.scheduler.core.gangs.gang_rules import check

DEVICE_BYTES = 64 * GIB
MESSAGE_SECONDS = 0.0002
DRAIN_SECONDS = 0.005
BACK_SECONDS = 0.3
"""From the end of a connection to the next REGISTER, where a test does not say otherwise."""


class Model:
    """Devices, programs and a core."""

    def __init__(self, devices: int, policy: Policy = Policy.AUTO, quantum_seconds: float = 1.0) -> None:
        self.core = Core(Settings(policy=policy, quantum_seconds=quantum_seconds, assumed_pinned_bytes=0))
        self.quantum_seconds = quantum_seconds
        self.now = 0.0
        self.back_seconds = BACK_SECONDS
        self.goes_on_until = 0.0
        """So long more programs may come when all have ended."""
        self.stuck: list[ReportUnresponsive] = []
        self.missing: list[ReportMissing] = []
        self.jobs: list[Job] = []
        self.clients: dict[int, Process] = {}
        self.answers: list[tuple[float, Action]] = []
        self.longest_wait = 0.0
        self.completed = 0
        self._keys: dict[int, set[str]] = {}
        """By client: the keys that the core was told."""
        self._back_at: dict[str, float] = {}
        """When a holder was back the last time, by device."""
        self._complete: set[str] = set()
        """The keys that all processes of their program have said at one time."""
        self._numbers = itertools.count(1)
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._devices = [f"GPU-{number}" for number in range(devices)]
        for device in self._devices:
            self.core.handle(DeviceSeen(device, DEVICE_BYTES), 0.0)

    # Time.

    def run(self, seconds: float = 1e9) -> None:
        """Lets time pass until all programs have ended; AssertionError where they never will."""
        end = self.now + seconds
        while self.now < self.goes_on_until or any(not each.ended for job in self.jobs for each in job.processes):
            deadline = self.core.deadline()
            if deadline is not None and (not self._due or deadline <= self._due[0][0]):
                if deadline > end:
                    return
                self.now = max(self.now, deadline)
                self._obey(self.core.handle_timer(self.now))
                after = self.core.deadline()
                assert after is None or after > self.now, "the timer that was due has nothing to do"
                continue
            assert self._due, f"nothing will ever happen any more at {self.now}: {self._stuck()}"
            if self._due[0][0] > end:
                return
            self.now, _, act = heapq.heappop(self._due)
            act()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Does something later."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), act))

    def start(self, program: Program) -> Job:
        """A program that starts at its time."""
        job = Job(program, f"key {len(self.jobs)}")
        self.jobs.append(job)
        for device in program.devices:
            job.processes.append(Process(job, self._devices[device], alone=program.alone_steps))
        for process, delay in zip(job.processes, program.delays or (0.0,) * len(job.processes), strict=True):
            self.after(program.start + delay, lambda process=process: self._connect(process, None))  # type: ignore[misc]
        if program.dies_at is not None:
            self.after(program.start + program.dies_at, lambda: self._die(job.processes[0]))
        if program.lost_at is not None:
            self.after(program.start + program.lost_at, lambda: self._lose(job.processes[0]))
        return job

    # What processes do.

    def _connect(self, process: Process, recorded: int | None) -> None:
        if process.ended:
            return
        process.number, process.connected = next(self._numbers), True
        self.clients[process.number] = process
        self._keys[process.number] = set()
        footprint = process.job.program.footprint_bytes
        # Who waits is in line when it has said with whom.
        waits = process.state is ClaimedState.WAITING
        claimed, grant = ClaimedState.IDLE if waits else process.state, process.grant
        if claimed is ClaimedState.HOLDING:
            self._back_at[process.device] = self.now
        event = ClientRegistered(process.number, process.device, footprint, claimed, grant, recorded)
        self._obey(self.core.handle(event, self.now))
        job = process.job
        if process.joined or (len(job.processes) > 1 and (job.is_named or not process.alone)):
            self._join(process)
        if waits:
            self._say(process, LockRequested)
        if recorded is None and not process.joined:
            self._tick(process)

    def _join(self, process: Process) -> None:
        job, size, was_complete = process.job, len(process.job.processes), process.joined
        if job.is_named:
            place = job.processes.index(process) + 1
            self._say(process, lambda number: GangJoined(number, job.key, 0, 1, job.key, place, size, was_complete))
        else:
            self._say(process, lambda number: GangJoined(number, job.key, size, 1))

    def _tick(self, process: Process) -> None:
        """Looks what there is to do, all the time."""
        if process.ended:
            return
        job = process.job
        if process.state is ClaimedState.HOLDING and self.now >= process.busy_until:
            self._step(process)
        if process.state is ClaimedState.IDLE and self._has_work(process):
            self._request(process)
        elif process.state is ClaimedState.HOLDING and process.told and self._is_idle(process):
            if process.page:
                self._say(process, ClientIdle)
            else:
                self._leave(process)
        if self._is_done(process):
            self._end(process)
            return
        soon = process.told and process.state is ClaimedState.HOLDING and self._is_idle(process)
        self.after(process.told if soon else job.program.step_seconds, lambda: self._tick(process))

    def _step(self, process: Process) -> None:
        job = process.job
        if process.alone:
            process.alone -= 1
            process.busy_until = self.now + job.program.step_seconds
            if not process.alone and not process.joined and not job.over and len(job.processes) > 1:
                self._join(process)
        elif self._has_work(process):
            process.submitted += 1
            process.busy_until = self.now + job.program.step_seconds
            self._completed(job)

    def _has_work(self, process: Process) -> bool:
        job = process.job
        if process.alone:
            return True
        goes_on = job.runs and self.now >= job.paused_until
        return goes_on and process.submitted == job.completed < job.program.collectives

    def _is_idle(self, process: Process) -> bool:
        done = process.submitted == process.job.completed or process.job.over
        return done and self.now >= process.busy_until and not self._has_work(process)

    def _is_done(self, process: Process) -> bool:
        job = process.job
        over = job.over or len(job.processes) == 1 or job.completed >= job.program.collectives
        rests = process.state in (ClaimedState.IDLE, ClaimedState.HOLDING)
        return process.connected and over and not process.alone and rests

    def _completed(self, job: Job) -> None:
        """Somebody has submitted something; maybe all have."""
        for process in job.processes:
            if process.state is ClaimedState.DRAINING and not job.over:
                # Those behind catch up to the furthest one.
                process.submitted = max(each.submitted for each in job.processes)
        done = job.completed
        self.completed = max(self.completed, done)
        program = job.program
        if program.pause_every and done and done % program.pause_every == 0 and job.paused_until < self.now:
            job.paused_until = self.now + program.pause_seconds
        if done >= program.collectives and not job.over and len(job.processes) > 1:
            job.over = True
            for process in job.processes:
                if program.leaves:
                    process.alone = 2
                    self._say(process, lambda number: GangLeft(number, job.key))
        for process in job.processes:
            if process.state is ClaimedState.DRAINING and (job.over or process.submitted <= done):
                self._give_back(process)

    def _request(self, process: Process) -> None:
        process.state, process.since = ClaimedState.WAITING, self.now
        self._say(process, LockRequested)

    def _leave(self, process: Process) -> None:
        process.state, process.told = ClaimedState.DRAINING, 0.0
        self._completed(process.job)

    def _give_back(self, process: Process) -> None:
        grant, process.grant, process.state = process.grant, 0, ClaimedState.IDLE
        self._say(process, lambda number: LockReleased(number, grant))
        process.told = 0.0

    def _end(self, process: Process) -> None:
        process.ended = True
        self._disconnect(process)

    def _die(self, process: Process) -> None:
        """One process ends; what the others wait for is broken off."""
        if process.ended or not process.connected:
            return
        process.state = ClaimedState.IDLE
        job = process.job
        if job.is_named and not all(each.joined for each in job.processes):
            # Whoever started it ends those that wait for the others.
            for each in job.processes:
                if each.connected and not each.ended:
                    self._end(each)
                each.ended = True
            return
        job.over = True
        self._end(process)
        for other in job.processes:
            other.alone = 0
        self._completed(job)

    def _lose(self, process: Process) -> None:
        if process.ended or not process.connected:
            return
        recorded = process.grant if process.has_lock else None
        if recorded is not None:
            self._obey(self.core.handle(HolderRecorded(process.device, recorded), self.now))
        self._disconnect(process)
        self.after(self.back_seconds, lambda: self._back(process, recorded))

    def _back(self, process: Process, recorded: int | None) -> None:
        self._connect(process, recorded)

    def _disconnect(self, process: Process) -> None:
        process.connected, process.page, process.told = False, 0, 0.0
        del self._keys[process.number]
        del self.clients[process.number]
        self._obey(self.core.handle(ClientGone(process.number), self.now))

    # Messages.

    def _say(self, process: Process, event: Callable[[int], Event]) -> None:
        number = process.number

        def arrive() -> None:
            if number in self.clients:
                said = event(number)
                if isinstance(said, GangJoined):
                    self._keys[number].add(said.key)
                elif isinstance(said, GangLeft):
                    self._keys[number].discard(said.key)
                self._obey(self.core.handle(said, self.now))

        if process.connected:
            self.after(MESSAGE_SECONDS, arrive)

    def _obey(self, actions: list[Action]) -> None:
        waiting.check(self.core, self.now)
        if not actions:
            return
        self.answers += ((self.now, action) for action in actions)
        devices = {number: process.device for number, process in self.clients.items()}
        rejoined = {device for device, moment in self._back_at.items() if self.now < moment + REJOIN_SECONDS}
        check(self.core.snapshot(self.now), devices, self._keys, actions, self._incomplete(), rejoined)
        for action in actions:
            self.after(MESSAGE_SECONDS, lambda action=action: self._receive(action))  # type: ignore[misc]

    def _receive(self, action: Action) -> None:
        if isinstance(action, FormGang):
            for number in action.members:
                if number in self.clients:
                    self.clients[number].page = action.gang
            return
        if isinstance(action, ReportUnresponsive):
            self.stuck.append(action)
            return
        if isinstance(action, ReportMissing):
            self.missing.append(action)
            return
        process = self.clients.get(action.client)
        if process is None:
            return
        match action:
            case Grant(_, grant):
                if process.state is ClaimedState.WAITING:
                    self.longest_wait = max(self.longest_wait, self.now - process.since)
                process.state, process.grant = ClaimedState.HOLDING, grant
                process.busy_until = self.now
            case Revoke(number, grant):
                if process.state is ClaimedState.HOLDING and process.grant == grant:
                    process.state, process.told = ClaimedState.DRAINING, 0.0
                    self.after(DRAIN_SECONDS, lambda: self._completed(process.job))
                elif process.grant != grant:
                    self._say(process, lambda _: LockReleased(number, grant))
            case TellWaiters(_, waiters, idle_seconds):
                process.told = idle_seconds if waiters else 0.0
            case ConfirmJoin():
                process.joined, process.since = True, self.now
            case LeaveGang():
                process.page = 0
            case _:
                raise AssertionError(f"{action} is not expected")

    def _incomplete(self) -> set[int]:
        """Clients of gangs by name of which not all have ever been there."""
        for job in self.jobs:
            self._complete |= (
                {job.key} if all(job.key in self._keys.get(each.number, ()) for each in job.processes) else set()
            )
        waiting = {job.key for job in self.jobs if job.is_named} - self._complete
        return {number for number, keys in self._keys.items() if keys & waiting}

    def _stuck(self) -> list[str]:
        return [
            f"{process.number} on {process.device}: {process.state.value}, {process.submitted} of {job.key}"
            for job in self.jobs
            for process in job.processes
            if not process.ended
        ]
