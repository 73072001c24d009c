"""Processes with two devices that sleep: on both of them, or on neither."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.terms import Priority, Terms
from tests.scheduler.core.gangs.test_swapping_properties import DEVICES
from tests.scheduler.core.memory.swap_model import MIB, Process
from tests.scheduler.core.memory.test_swap_properties import GIB, SLOT, SwapMachine
from tests.scheduler.core.sleep.sleep_model import TERMS, Sleeper
from tests.scheduler.core.sleep.test_sleep_properties import SIZES, SleepMachine


class TwoGpuMachine(SleepMachine):
    """Two slots that follow each other are one process, each on a device and with a connection of its own."""

    devices = DEVICES

    def measure_devices(self) -> None:
        self.foreign = dict.fromkeys(DEVICES, self.foreign.get(DEVICES[0], 12 * GIB))
        # One after the other; nobody is served by one of them alone.
        more, self.more_to_say = self.more_to_say, True
        super().measure_devices()
        self.more_to_say = more

    def make(self, slot: int) -> Process:
        mate = self.processes.get(slot ^ 1)
        if not isinstance(mate, Sleeper):
            self.pids += 1
        return Sleeper(DEVICES[slot % 2], pid=mate.pid if isinstance(mate, Sleeper) else self.pids)

    @rule(slot=SLOT, size=SIZES)
    def come(self, slot: int, size: int) -> None:
        """Who is asleep makes no context elsewhere."""
        if slot in self.processes or slot ^ 1 not in self.processes or self.able(slot ^ 1):
            SleepMachine.come(self, slot, size)

    @rule(slot=SLOT)
    def stop(self, slot: int) -> None:
        for each in (slot, slot ^ 1):
            SleepMachine.stop(self, each)

    @rule(slot=SLOT)
    def go_on(self, slot: int) -> None:
        for each in (slot, slot ^ 1):
            SleepMachine.go_on(self, each)

    @rule(slot=SLOT)
    def kill(self, slot: int) -> None:
        for each in (slot, slot ^ 1):
            SwapMachine.kill(self, each)

    @rule(slot=st.sampled_from((0, 2, 4)), terms=TERMS)
    def set_terms(self, slot: int, terms: Terms) -> None:
        for each in (slot, slot ^ 1):
            SleepMachine.set_terms(self, each, terms)

    def used_bytes(self) -> list[int]:
        processes = [*self.processes.values(), *(process for _, process in self.dead)]
        return [sum(each.used_bytes for each in processes if each.device == device) for device in DEVICES]

    def may_stay_out(self, process: Process) -> bool:
        """One of its clients may."""
        return any(SleepMachine.may_stay_out(self, each) for each in self.mates(process))

    def stays_awake(self, process: Process, *, beside_more: bool) -> bool:
        return any(SleepMachine.stays_awake(self, each, beside_more=beside_more) for each in self.mates(process))


def test_who_may_sleep_no_more_for_what_it_has_on_one_gpu_is_looked_at_on_both() -> None:
    """The third process asks on one GPU for memory that can't be swapped. On the other one a request gets less then,
    and the second process has room to wake."""
    machine = TwoGpuMachine()
    machine.start(
        sizes=[64 * MIB, GIB, GIB, GIB, GIB, 64 * MIB],
        policy=Policy.EXCLUSIVE,
        memory=(4, 3),
        busy=False,
        reserve=16 * MIB,
        foreign=12,
        after=None,
    )
    machine.put_to_sleep(slot=2)
    machine.everyone_is_served()
    machine.set_terms(slot=0, terms=Terms(memory_request_bytes=32 * GIB, priority=Priority.HIGH))
    machine.ask(slots=[2, 3])
    machine.pin(slot=5, size=256 * MIB)
    machine.grow(slot=1, size=64 * MIB)


TestTwoGpuMachine = TwoGpuMachine.TestCase
TestTwoGpuMachine.settings = settings(max_examples=40, stateful_step_count=30, derandomize=True)
