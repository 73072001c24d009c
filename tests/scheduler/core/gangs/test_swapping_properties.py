"""Gangs whose memory swaps, beside others: several members on a device, and memory that does not fit."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from nvshare.scheduler.core.actions import Action, FormGang
from nvshare.scheduler.core.events import GangJoined, GangLeft
from tests.scheduler.core.memory.swap_model import Process
from tests.scheduler.core.memory.test_swap_properties import SLOT, SLOTS, SwapMachine

DEVICES = ("GPU-a", "GPU-b")
KEYS = st.sampled_from(("first", "second"))


class GangMachine(SwapMachine):
    """Most processes are on the first of two devices. Any of them say that they belong together, or no more."""

    devices = DEVICES

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[Process, dict[str, int]] = {}
        """What a process says, and how many processes say so by what it knows."""

    @rule(slots=st.lists(SLOT, min_size=2, max_size=SLOTS, unique=True), key=KEYS, counted=st.booleans())
    def join(self, slots: list[int], key: str, counted: bool) -> None:
        """These belong together."""
        members = [process for slot in slots if (process := self.able(slot)) is not None]
        for process in members:
            self.keys[process][key] = len(members) if counted else 0
            self.say_key(process, key)

    @rule(slot=SLOT, key=KEYS)
    def part(self, slot: int, key: str) -> None:
        process = self.processes.get(slot)
        if process is not None and self.keys[process].pop(key, None) is not None:
            self.handle(GangLeft(process.number, key))

    def connect(self, process: Process) -> None:
        if process not in self.keys:
            slot = next(slot for slot, each in self.processes.items() if each is process)
            process.device, self.keys[process] = DEVICES[slot == SLOTS - 2], {}
        super().connect(process)
        for key in self.keys[process]:
            self.say_key(process, key)

    def say_key(self, process: Process, key: str) -> None:
        self.handle(GangJoined(process.number, key, self.keys[process][key], 1))

    def send(self, actions: list[Action]) -> None:
        super().send([action for action in actions if not isinstance(action, FormGang)])

    def used_bytes(self) -> list[int]:
        processes = [*self.processes.values(), *(process for _, process in self.dead)]
        return [sum(each.used_bytes for each in processes if each.device == device) for device in DEVICES]


TestGangMachine = GangMachine.TestCase
TestGangMachine.settings = settings(max_examples=40, stateful_step_count=40)
