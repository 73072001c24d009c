"""Memory that swaps, against a model that knows what is really on the device."""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nvshare.scheduler.core.actions import Action, Evict, GrowArena, Measure
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ArenaGrown,
    ClientGone,
    DeviceSeen,
    Event,
    MemoryFreed,
    PinnedMeasured,
    Policy,
    ResidencyReported,
    ResidentRecorded,
    ResidentSettled,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import ShownState
from tests.scheduler.core import waiting
from tests.scheduler.core.memory.swap_model import MIB, Process

DEVICE = "GPU-a"
GIB = 1 << 30
TOTAL = 16 * GIB
RESERVE = GIB // 2
PINNED = 640 * MIB
SLOTS = 6
SLOT = st.integers(0, SLOTS - 1)
SIZES = st.sampled_from((2 * MIB, 64 * MIB, GIB, 3 * GIB, 5 * GIB, 8 * GIB, 13 * GIB))
HOLDING = (ShownState.HOLDING, ShownState.UNRESPONSIVE)


class SwapMachine(RuleBasedStateMachine):
    """Processes come, grow, ask, are cut off and die; messages cross; the scheduler restarts."""

    devices: tuple[str, ...] = (DEVICE,)

    def __init__(self) -> None:
        super().__init__()
        self.processes: dict[int, Process] = {}
        self.dead: list[tuple[int, Process]] = []
        """Whose memory the driver has not freed yet, by the number of their last connection."""
        self.former: dict[Process, list[int]] = {}
        """Numbers of the connections that a process had, until it has said what it has."""
        self.now = 100.0
        self.last_number = 0
        self.arenas: deque[GrowArena] = deque()
        self.in_doubt = False
        """A measurement was asked for."""
        self.more_to_say = False
        """The scheduler is about to hear more of what has happened."""
        self.foreign: dict[str, int] = {}
        """What programs that are no clients use of a device."""

    @initialize(
        policy=st.sampled_from((Policy.AUTO, Policy.AUTO, Policy.EXCLUSIVE, Policy.OFF)),
        host_bytes=st.sampled_from((6 * GIB, 100 * GIB, 100 * GIB)),
        sizes=st.lists(SIZES, min_size=2, max_size=SLOTS - 1),
    )
    def start(self, policy: Policy, host_bytes: int, sizes: list[int]) -> None:
        """Some processes have their memory already, and all of them want to compute."""
        self.settings = Settings(
            policy=policy,
            assumed_pinned_bytes=PINNED,
            reserve_bytes=RESERVE,
            host_bytes=host_bytes,
            quantum_seconds=5.0,
        )
        self.core = Core(self.settings)
        self.measure_devices()
        for slot, size in enumerate(sizes):
            self.grow(slot, 0)
            self.grow(slot, size)
            self.ask([slot])
        self.deliver_all()

    @rule(slot=SLOT, size=SIZES)
    def come(self, slot: int, size: int) -> None:
        """A process begins, and asks for its context; or it wants more."""
        process = self.able(slot)
        if slot not in self.processes:
            process = self.processes[slot] = self.make(slot)
            self.connect(process)
            process.grow(0, 0)
        elif process and process.pinned and process.wanted is None:
            process.grow(size, 0)

    @rule(slot=SLOT, size=SIZES)
    def grow(self, slot: int, size: int) -> None:
        """The usual case: a footprint grows and all messages arrive."""
        self.come(slot, size)
        self.deliver_all()

    @rule(slot=SLOT, size=st.sampled_from((2 * MIB, 256 * MIB, GIB)))
    def pin(self, slot: int, size: int) -> None:
        """Memory that can't move."""
        process = self.able(slot)
        if process and process.pinned and process.wanted is None:
            process.grow(0, size)

    @rule(slot=SLOT, size=SIZES)
    def free(self, slot: int, size: int) -> None:
        if process := self.able(slot):
            process.free(size)

    @rule(slots=st.lists(SLOT, min_size=1, max_size=SLOTS))
    def ask(self, slots: list[int]) -> None:
        for slot in slots:
            if process := self.able(slot):
                process.ask()

    @rule(slot=SLOT)
    def release(self, slot: int) -> None:
        process = self.able(slot)
        if process and self.can_stop(process):
            process.release()

    @rule(slot=SLOT)
    def read(self, slot: int) -> None:
        """A client reads one message."""
        if process := self.able(slot):
            process.read()

    @rule(slot=SLOT)
    def say(self, slot: int) -> None:
        """One message of a client arrives."""
        process = self.processes.get(slot)
        if process and process.number:
            self.say_one(process)

    @rule(slot=SLOT, most=st.sampled_from((64 * MIB, GIB, TOTAL)))
    def move(self, slot: int, most: int) -> None:
        if process := self.able(slot):
            process.move(most)

    @rule()
    def make_arenas(self) -> None:
        """The host memory that was asked for is there."""
        while self.arenas:
            asked = self.arenas.popleft()
            process = self.process_of(asked.client)
            if process is not None:
                self.give_arena(process, asked.segment_bytes)

    @rule()
    def see(self) -> None:
        """The device is measured, as that was asked for."""
        if self.in_doubt:
            self.in_doubt, self.more_to_say = False, True
            self.measure_contexts()
            self.more_to_say = False
            self.measure_devices()

    @rule()
    def deliver_all(self) -> None:
        """Everything arrives, everything moves, and those who are to leave do, until nothing is under way."""
        for _ in range(150):
            busy = bool(self.arenas) or self.in_doubt
            self.make_arenas()
            self.see()
            for process in self.all_able():
                busy |= bool(process.inbox or process.outbox)
                while process.inbox:
                    process.read()
                busy |= self.work(process)
                if process.revoked and self.can_stop(process):
                    process.release()
                process.move(TOTAL)
                while process.outbox:
                    self.say_one(process)
            if not busy:
                return
        raise AssertionError("messages never end")

    @rule(slot=SLOT)
    def measure(self, slot: int) -> None:
        """A context is measured: as large as it is."""
        process = self.processes.get(slot)
        if process and process.number and process.pinned:
            self.handle(PinnedMeasured(process.number, process.pinned))

    @rule(slot=SLOT)
    def cut(self, slot: int) -> None:
        """A connection ends; what was under way is lost. The process goes on and connects again."""
        process = self.processes.get(slot)
        if process and process.number:
            former = process.number
            if self.has_context(process):
                self.former.setdefault(process, []).append(former)
                self.handle(ClientGone(former))
                self.connect(process)
                self.measure_contexts()
            else:
                self.dead.append((former, self.processes.pop(slot)))
                self.handle(ClientGone(former))

    @rule(slot=SLOT)
    def kill(self, slot: int) -> None:
        """A process dies. What it had stays on the device for a while."""
        process = self.processes.pop(slot, None)
        if process is not None:
            self.dead.append((process.number, process))
            self.handle(ClientGone(process.number))

    @rule()
    def clean_up(self) -> None:
        """The driver has freed what the dead had."""
        for number, process in self.dead:
            self.handle(MemoryFreed(number))
            self.free_former(process)
        self.dead.clear()

    @rule()
    def restart(self) -> None:
        """Another scheduler, which has a record of those that are there; they come back one after another."""
        self.core = Core(self.settings)
        self.more_to_say = True
        self.arenas.clear()
        self.former.clear()
        self.processes = {slot: each for slot, each in self.processes.items() if self.has_context(each)}
        here = list(self.processes.values())
        gone = sum(process.used_bytes for _, process in self.dead)
        self.dead.clear()
        assert gone >= 0
        self.measure_devices()
        for record, process in enumerate(here):
            self.handle(ResidentRecorded(process.device, record))
        for record, process in enumerate(here):
            if process.grant is not None:
                # It is in no record of holders here: it must leave.
                process.revoked = True
            self.connect(process)
            while process.outbox:
                self.say_one(process)
            self.handle(ResidentSettled(record))
        self.more_to_say = False
        self.measure_contexts()

    @rule(seconds=st.sampled_from((0.01, 1.0, 5.0)))
    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.core.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            actions = self.core.handle_timer(self.now)
            self.send(actions)
            after = self.core.deadline()
            assert actions or after is None or after > self.now, "the timer that was due has nothing to do"
        self.now = end

    @rule()
    def everyone_is_served(self) -> None:
        """When all obey, each one that waits has its turn, wholly on the device, within a quantum each.

        One is long where the hand-over before it was slow: up to QUANTUM_STALLS times four times what the link takes.
        """
        waiting = {process: process.turns for process in self.processes.values() if process.waits and process.number}
        for _ in range(3 * SLOTS):
            self.clean_up()
            self.deliver_all()
            self.let_pass(70.0)
            self.deliver_all()
            for process in self.processes.values():
                assert process.grant is None or process.runs, "somebody holds and is not wholly on the device"
        for process, turns in waiting.items():
            assert process.turns > turns or self.may_stay_out(process), f"it waits for ever: {process}"
        for process in self.processes.values():
            assert process.wanted is None or self.may_stay_out(process), f"a growth is never answered: {process}"

    def may_stay_out(self, _process: Process) -> bool:
        """Whether one that waited need not have had a turn, or an answer."""
        return False

    def let_pass(self, seconds: float) -> None:
        """Turns pass that nobody has to leave within less."""
        self.wait(seconds)

    @invariant()
    def nothing_is_given_twice(self) -> None:
        """What is really on the device never exceeds it."""
        for used in self.used_bytes():
            assert used <= TOTAL, f"{used / GIB:.3f} GiB are used"

    def used_bytes(self) -> list[int]:
        """What is really on each device."""
        return [sum(each.used_bytes for each in (*self.processes.values(), *(process for _, process in self.dead)))]

    # What other machines do in another way.

    def give_arena(self, process: Process, segment_bytes: int) -> None:
        process.arena += segment_bytes
        self.more_to_say = True
        self.handle(ArenaGrown(process.number, segment_bytes))
        self.more_to_say = False
        process.report()

    def make(self, _slot: int) -> Process:
        """A new process."""
        return Process(DEVICE)

    def mates_of(self, number: int) -> list[int]:
        return [number]

    def has_context(self, process: Process) -> bool:
        """Whether it goes on with what it has when its connection ends."""
        return process.pinned > 0

    def able(self, slot: int) -> Process | None:
        """The process in a slot, if it is connected and does what it is told."""
        process = self.processes.get(slot)
        return process if process is not None and process.number else None

    def all_able(self) -> list[Process]:
        return [process for slot in list(self.processes) if (process := self.able(slot)) is not None]

    def work(self, _process: Process) -> bool:
        """A process computes; whether that is news to others."""
        return False

    def can_stop(self, _process: Process) -> bool:
        """Whether what a holder has submitted completes without more of anybody."""
        return True

    def is_quiet(self) -> bool:
        """Whether nobody who does what it is told has anything to do."""
        if self.arenas or self.in_doubt or self.dead or self.former or self.more_to_say:
            return False
        return not any(
            process.inbox or process.outbox or process.has_to_move or (process.revoked and self.can_stop(process))
            for process in self.all_able()
        )

    def measure_contexts(self) -> None:
        """All contexts are measured. Who comes back with nothing but a context can't be known otherwise."""
        for process in list(self.processes.values()):
            if process.number and process.pinned:
                self.handle(PinnedMeasured(process.number, process.pinned))

    def measure_devices(self) -> None:
        """The memory of all devices is measured."""
        for device in self.devices:
            self.handle(DeviceSeen(device, TOTAL, self.foreign.get(device, 0)))

    def connect(self, process: Process) -> None:
        self.last_number += 1
        self.handle(process.register(self.last_number, TOTAL))

    def process_of(self, number: int) -> Process | None:
        return next((process for process in self.processes.values() if process.number == number), None)

    def say_one(self, process: Process) -> None:
        if process.outbox:
            event = process.outbox.popleft()
            self.handle(event)
            if isinstance(event, ResidencyReported):
                self.free_former(process)

    def free_former(self, process: Process) -> None:
        """What it had by earlier connections is what it has by this one, or nothing."""
        numbers = self.former.get(process, [])
        while numbers:
            number = numbers.pop()
            if not numbers:
                del self.former[process]
            self.handle(MemoryFreed(number))

    def handle(self, event: Event) -> None:
        self.send(self.core.handle(event, self.now))

    def send(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, GrowArena):
                self.arenas.append(action)
                continue
            if isinstance(action, Measure):
                self.in_doubt = True
                continue
            process = self.process_of(action.client)
            assert process is not None, f"{action} for a client that is gone"
            if isinstance(action, Evict):
                shown = self.core.client_apart(action.client, self.now)
                holds = shown.state in HOLDING and not shown.keeps_room
                least = shown.swap.resident_bytes if holds and shown.swap is not None else 0
                assert action.allotted_bytes >= least, "a holder is to move memory out"
            process.inbox.append(action)
        assert not self.core.unsettled, "one rule undoes what another one does"
        if self.is_quiet():
            waiting.check(self.core, self.now, self.mates_of)


TestSwapMachine = SwapMachine.TestCase
TestSwapMachine.settings = settings(max_examples=100, stateful_step_count=40)
