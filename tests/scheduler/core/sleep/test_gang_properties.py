"""Processes that sleep, beside gangs and as their members: who belongs to one stays awake."""

from __future__ import annotations

from hypothesis import settings

from nvshare.scheduler.core.actions import Action, FormGang, LeaveGang
from nvshare.scheduler.core.events import ClientIdle, Policy
from tests.scheduler.core.gangs.test_swapping_properties import DEVICES, GangMachine
from tests.scheduler.core.memory.swap_model import MIB, Process
from tests.scheduler.core.memory.test_swap_properties import GIB
from tests.scheduler.core.sleep.sleep_model import Sleeper
from tests.scheduler.core.sleep.test_sleep_properties import SleepMachine


class SleepingGangMachine(SleepMachine, GangMachine):
    """Any that are awake say that they belong together, while others sleep; most of both devices is others'."""

    def __init__(self) -> None:
        super().__init__()
        self.formed: set[int] = set()
        """The clients that were told that they are a gang."""

    def measure_devices(self) -> None:
        self.foreign = dict.fromkeys(DEVICES, self.foreign.get(DEVICES[0], 12 * GIB))
        super().measure_devices()

    def send(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case FormGang(_, clients):
                    self.formed.update(clients)
                case LeaveGang(client):
                    self.formed.discard(client)
        super().send(actions)

    def work(self, process: Process) -> bool:
        """A holder has done what it had to: alone it gives the lock back, in a gang it says so."""
        if process.number not in self.formed:
            return super().work(process)
        if isinstance(process, Sleeper) and process.grant is not None and process.yields and not process.busy:
            self.handle(ClientIdle(process.number))
        return bool(process.inbox)

    def may_stay_out(self, process: Process) -> bool:
        """Or it had memory that fits no more beside those that became a gang."""
        line = self.core.client(process.number, self.now).line
        is_beside = any(self.stays_awake(each, beside_more=True) for each in self.processes.values() if each != process)
        return (line is not None and line.too_large and is_beside) or super().may_stay_out(process)

    def stays_awake(self, process: Process, *, beside_more: bool) -> bool:
        is_member = bool(process.number) and self.core.client(process.number, self.now).gang is not None
        return is_member or super().stays_awake(process, beside_more=beside_more)


def test_who_is_to_sleep_for_another_one_does_not_pass_others() -> None:
    """It would have the lock again and again, beside a gang that takes turns with others, and never sleep."""
    machine = SleepingGangMachine()
    sizes = [GIB // 2, 2 * GIB, GIB, 2 * MIB, GIB, GIB // 2]
    machine.start(after=None, memory=(9, 0), policy=Policy.AUTO, reserve=16 * MIB, busy=True, sizes=sizes, foreign=13)
    machine.join(slots=[2, 0], key="first", counted=False)
    machine.everyone_is_served()


TestSleepingGangMachine = SleepingGangMachine.TestCase
TestSleepingGangMachine.settings = settings(max_examples=40, stateful_step_count=30, derandomize=True)
