"""The operator changes what holds, and programs that are no clients take memory, while programs work and are measured.

Nobody waits for ever because of that.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    DeviceForgotten,
    Event,
    HolderRecorded,
    HostMemorySet,
    PinnedAssumed,
    Policy,
    PolicySet,
    QuantumSet,
    ResidencyReported,
    ResidentRecorded,
    ResidentSettled,
)
from nvshare.scheduler.core.settings import Unresponsive
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_model import Process
from tests.scheduler.core.memory.test_swap_properties import GIB, PINNED, SLOT, SLOTS, TOTAL
from tests.scheduler.core.test_nobody_waits_for_ever import DEVICES, PLACES, SIZES, STYLES, TERMS, WholeMachine
from tests.scheduler.core.whole_model import Place, WatchedWorker, Worker

pytestmark = pytest.mark.timeout(240)

DEVICE = st.sampled_from(DEVICES)
SOME_OR_ALL = st.sampled_from((None, *DEVICES))
PIECES = 20
"""In so many the time passes while somebody is watched."""


class OperatedMachine(WholeMachine):
    """Two devices and those who change what there is of them."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited: dict[Process, int] = {}
        """Those that had memory when the scheduler began, and have not told it since; each with its record."""

    @initialize(
        host_bytes=st.sampled_from((0, 6 * GIB, 100 * GIB, 100 * GIB)),
        sizes=st.lists(SIZES, min_size=4, max_size=SLOTS),
        places=st.lists(PLACES, min_size=SLOTS, max_size=SLOTS),
        terms=st.lists(TERMS, min_size=3, max_size=3),
        burst_seconds=st.sampled_from((0.0, 0.0, 10.0)),
        style=st.sampled_from(STYLES),
        unresponsive=st.sampled_from(Unresponsive),
    )
    def start(  # type: ignore[override]
        self,
        host_bytes: int,
        sizes: list[int],
        places: list[Place],
        terms: list[Terms],
        burst_seconds: float,
        style: tuple[bool, bool],
        unresponsive: Unresponsive,
    ) -> None:
        self.burst_seconds = burst_seconds
        WholeMachine.start(self, Policy.AUTO, host_bytes, sizes, places, terms, style, unresponsive)

    @rule(policy=st.sampled_from(Policy), device=SOME_OR_ALL)
    def set_policy(self, policy: Policy, device: str | None) -> None:
        self.handle(PolicySet(policy, device))

    @rule(seconds=st.sampled_from((0.05, 1.0, 5.0)), device=SOME_OR_ALL)
    def set_quantum(self, seconds: float, device: str | None) -> None:
        self.handle(QuantumSet(seconds, device))

    @rule(host_bytes=st.sampled_from((0, 6 * GIB, 100 * GIB)))
    def set_host_memory(self, host_bytes: int) -> None:
        """There is more of it, or less; what processes have of it they keep."""
        self.handle(HostMemorySet(host_bytes))

    @rule(device=DEVICE, part=st.sampled_from((0.0, 0.25, 0.5, 1.0)))
    def take(self, device: str, part: float) -> None:
        """Others take so much of what is free, and give back what they had."""
        processes = [*self.processes.values(), *(process for _, process in self.dead)]
        used = sum(process.used_bytes for process in processes if process.device == device)
        self.foreign[device] = int(part * max(0, TOTAL - used))
        self.measure_devices()

    @rule(device=DEVICE)
    def forget(self, device: str) -> None:
        """A device that nobody uses goes away, and is there again later."""
        if not any(process.device == device for process in self.processes.values()):
            self.handle(DeviceForgotten(device))
            self.measure_devices()

    @rule(slot=SLOT, pinned_bytes=st.sampled_from((0, PINNED // 2, PINNED)))
    def assume(self, slot: int, pinned_bytes: int) -> None:
        """A context can't be measured."""
        process = self.processes.get(slot)
        if (
            process
            and process.number
            and process.pinned
            and not self.core.client_apart(process.number, self.now).pinned_measured
        ):
            self.handle(PinnedAssumed(process.number, pinned_bytes))

    @rule()
    def take_over(self) -> None:
        """Another scheduler, which has a record of all; they come back one after another, whenever that is."""
        self.core = Core(self.settings)
        self.more_to_say = True
        for forgotten in (self.arenas, self.former, self.asleep, self.condemned, self.dead, self.awaited):
            forgotten.clear()
        self.processes = {slot: process for slot, process in self.processes.items() if process.pinned}
        self.measure_devices()
        for record, process in enumerate(self.processes.values()):
            assert isinstance(process, Worker)
            process.number, process.recorded = 0, None
            if process.grant is not None and process.grant != process.former_grant:
                process.recorded = process.grant
                self.handle(HolderRecorded(process.device, process.grant))
            else:
                # It is in no record of holders, and must leave.
                process.former_grant, process.revoked = process.grant, process.grant is not None
            if process.backend is Backend.SWAP:
                self.awaited[process] = record
                self.handle(ResidentRecorded(process.device, record))
        self.more_to_say = False

    @rule(seconds=st.sampled_from((7.0, 25.0)))
    def submit_more(self, seconds: float) -> None:
        """Programs may need longer than the grace time to leave."""
        self.work_seconds = seconds

    @rule(slot=SLOT)
    def kill(self, slot: int) -> None:
        self.settle_record(self.processes.get(slot))
        WholeMachine.kill(self, slot)

    @rule()
    def restart(self) -> None:
        self.awaited.clear()
        WholeMachine.restart(self)

    @rule(slot=SLOT, submissions=st.sampled_from((0, 1, 1000)))
    def compute(self, slot: int, submissions: int) -> None:
        """A holder tells how its work goes on."""
        process = self.able(slot)
        if isinstance(process, WatchedWorker):
            process.compute(submissions)

    @rule(seconds=st.sampled_from((0.01, 1.0, 5.0, 70.0)))
    def wait(self, seconds: float) -> None:
        """Who is watched tells all the time how its work goes on, each at a rate of its own."""
        watched = [process for process in self.all_able() if isinstance(process, WatchedWorker) and process.watched]
        pieces = PIECES if watched else 1
        for _ in range(pieces):
            for process in watched:
                process.compute(1 + process.number % 3)
                while process.number and process.outbox:
                    self.say_one(process)
            WholeMachine.wait(self, seconds / pieces)

    def handle(self, event: Event) -> None:
        WholeMachine.handle(self, event)
        if isinstance(event, ResidencyReported):
            self.settle_record(self.process_of(event.client))

    def settle_record(self, process: Process | None) -> None:
        """It has told what it has, or will never do."""
        record = self.awaited.pop(process, None) if process is not None else None
        if record is not None:
            WholeMachine.handle(self, ResidentSettled(record))

    def teardown(self) -> None:
        """Others end first."""
        if hasattr(self, "core"):
            self.foreign.clear()
            self.measure_devices()
        WholeMachine.teardown(self)

    def make(self, slot: int) -> Process:
        place = self.places[slot]
        worker = WholeMachine.make(self, slot)
        assert isinstance(worker, Worker)
        watched = WatchedWorker(place.device, backend=place.backend, team=worker.team, clock=lambda: self.now)
        if worker.team is not None:
            worker.team.members[-1] = watched
        return watched


TestOperatedMachine = OperatedMachine.TestCase
TestOperatedMachine.settings = settings(
    max_examples=80, stateful_step_count=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
