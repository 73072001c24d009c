"""Processes that sleep, against a model that knows what is really on the device: a restore without room loses one."""

from __future__ import annotations

import contextlib
from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from nvshare.scheduler.core.actions import Action, ShareArena, Sleep, StoreArena, Wake
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ArenaGrown, ContainerFound, Policy, TermsSet
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.sleep_events import (
    ArenaLoaded,
    ArenaShared,
    ArenaStored,
    FellAsleep,
    OwnerFound,
    SleepAsked,
    SleepOffered,
    WakeWanted,
)
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_model import MIB, Process
from tests.scheduler.core.memory.test_swap_properties import (
    DEVICE,
    GIB,
    PINNED,
    RESERVE,
    SLOT,
    SLOTS,
    TOTAL,
    SwapMachine,
)
from tests.scheduler.core.sleep.shell_model import Shell
from tests.scheduler.core.sleep.sleep_model import (
    ASLEEP,
    TERMS,
    Asked,
    Sleeper,
    host_bytes,
    is_for,
    loads,
    never_sleeps,
)

SIZES = st.sampled_from((2 * MIB, 64 * MIB, GIB // 2, GIB, 2 * GIB))


class SleepMachine(Shell):
    """Most of the device is others': few contexts fit beside each other."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign = {DEVICE: 12 * GIB}
        self.pids = 0

    @initialize(
        policy=st.sampled_from((Policy.AUTO, Policy.AUTO, Policy.EXCLUSIVE)),
        after=st.sampled_from((None, None, 2.0)),
        reserve=st.sampled_from((RESERVE, 16 * MIB)),
        memory=st.sampled_from(((100, 0), (100, 100), (6, 100), (4, 3), (4, 0), (6, 0), (9, 0))),
        sizes=st.lists(SIZES, min_size=3, max_size=SLOTS),
        foreign=st.sampled_from((12, 13, 14)),
        busy=st.booleans(),
    )
    def start(  # type: ignore[override]
        self,
        policy: Policy,
        after: float | None,
        reserve: int,
        memory: tuple[int, int],
        sizes: list[int],
        foreign: int,
        busy: bool,
    ) -> None:
        host, file = memory
        self.foreign = {DEVICE: foreign * GIB}
        self.settings = Settings(
            policy=policy,
            assumed_pinned_bytes=PINNED,
            reserve_bytes=reserve,
            host_bytes=host * GIB,
            file_bytes=file * GIB,
            quantum_seconds=5.0,
            sleep_after_seconds=after,
        )
        self.core = Core(self.settings)
        self.measure_devices()
        for slot, size in enumerate(sizes):
            self.grow(slot, 0)
            self.grow(slot, size)
            self.be_busy(slot, busy)
            self.ask([slot])
        self.deliver_all()

    @rule(slot=SLOT, size=SIZES)
    def come(self, slot: int, size: int) -> None:
        SwapMachine.come(self, slot, size)

    @rule(slot=SLOT)
    def poll(self, slot: int) -> None:
        """A call that needs no turn."""
        self.able(slot)

    @rule(slot=SLOT)
    def put_to_sleep(self, slot: int) -> None:
        """The operator wants it to sleep."""
        process = self.processes.get(slot)
        if isinstance(process, Sleeper) and process.number:
            # It may not be possible now.
            with contextlib.suppress(IllegalEvent):
                self.handle(SleepAsked(process.pid))

    @rule(slot=SLOT, busy=st.booleans())
    def be_busy(self, slot: int, busy: bool) -> None:
        if isinstance(process := self.able(slot), Sleeper):
            process.busy = busy
            process.ask()

    @rule(slot=SLOT, size=st.sampled_from((64 * MIB, 256 * MIB)))
    def load(self, slot: int, size: int) -> None:
        """Its context grows, as far as there is room that nobody was promised, and is measured. That of one which is
        about to sleep does neither."""
        process = self.able(slot)
        falls = process and any(isinstance(step, Sleep) and is_for(step, process) for step in self.steps)
        if process and process.pinned and not (self.dead or falls) and self.promised_bytes() + size <= TOTAL:
            process.pinned += size
            self.measure(slot)

    def promised_bytes(self) -> int:
        """What others may have of the device, with all that anybody may bring there."""
        promised = self.foreign[DEVICE]
        for process in self.processes.values():
            shown = self.core.client(process.number, self.now)
            assert shown.swap is not None
            context = max(shown.pinned_bytes, process.pinned, PINNED if process.wanted else 0)
            promised += context + max(process.fixed, shown.swap.fixed_bytes)
            promised += max(process.resident, shown.swap.allotted_bytes, shown.swap.wanted_bytes)
        return promised

    @rule(slot=SLOT)
    def wake_up(self, slot: int) -> None:
        """The operator wants it awake."""
        process = self.processes.get(slot)
        if isinstance(process, Sleeper) and process.number:
            self.handle(WakeWanted(process.pid))

    @rule(slot=SLOT, terms=TERMS)
    def set_terms(self, slot: int, terms: Terms) -> None:
        process = self.processes.get(slot)
        if not isinstance(process, Sleeper) or not process.number:
            return
        name = f"container {process.pid}"
        self.handle(ContainerFound(process.number, name, terms) if process.terms is None else TermsSet(name, terms))
        process.terms = terms

    @rule(slot=SLOT)
    def stop(self, slot: int) -> None:
        """A process is stopped, awake or asleep."""
        if process := self.processes.get(slot):
            self.stopped.add(process)

    @rule(slot=SLOT)
    def go_on(self, slot: int) -> None:
        process = self.processes.get(slot)
        if process in self.stopped:
            self.stopped.discard(process)
            self.load_back(process)

    @rule(fails=st.booleans())
    def break_disk(self, fails: bool) -> None:
        """From now on nothing can be written, or all can."""
        self.disk_fails = fails

    @rule(quarters=st.integers(0, 4))
    def change_data(self, quarters: int) -> None:
        """From now on so much is equal."""
        self.alike = quarters

    @rule()
    def take_steps(self) -> None:
        """The shell does one thing that it was asked to."""
        while self.possible_steps():
            step = self.possible_steps()[0]
            self.steps.remove(step)
            process = next((each for each in self.processes.values() if is_for(step, each)), None)
            if isinstance(process, Sleeper) and process.number:
                match step:
                    case Sleep():
                        process.note(self.core.client(process.number, self.now))
                        self.close(process)
                    case Wake():
                        self.open(process)
                    case StoreArena():
                        self.store(process)
                    case ShareArena():
                        self.share(process, step.pack_bytes)
                return

    @invariant()
    def nothing_is_given_twice(self) -> None:
        for used in self.used_bytes():
            assert used + self.foreign[DEVICE] <= TOTAL, f"{used / GIB:.3f} GiB are used"

    @invariant()
    def host_memory_is_enough(self) -> None:
        has = [each for each in self.processes.values() if isinstance(each, Sleeper)]
        used = host_bytes(has, {pack: size for pack, (_, size) in self.packs.items()})
        assert used <= self.settings.host_bytes, f"{used / GIB:.3f} GiB of host memory are used"
        left = [each.pack for each in has if each.away and each.pack]
        self.packs = {pack: found for pack, found in self.packs.items() if pack in left}

    @rule()
    def everyone_is_served(self) -> None:
        for slot in list(self.processes):
            self.go_on(slot)
        sleepers = [each for each in self.processes.values() if isinstance(each, Sleeper)]
        before = {each: (each.wakes, each.turns, each.asks) for each in sleepers if each.calls}
        SwapMachine.everyone_is_served(self)
        for process, (wakes, turns, asks) in before.items():
            served = process.wakes > wakes and (process.turns > turns or not asks)
            assert served or self.may_stay_out(process), f"it waits at the door for ever: {process}"

    def let_pass(self, seconds: float) -> None:
        """Holders that are never idle are asked to leave, and do so in time."""
        for _ in range(10):
            self.wait(seconds / 10)
            self.deliver_all()

    def may_stay_out(self, process: Process) -> bool:
        """Whether it sleeps, others are shown to keep it out, and some never sleep as they or their user want; or it
        waits for memory as its user wants."""
        swap = self.core.client(process.number, self.now).swap
        if not isinstance(process, Sleeper) or swap is None:
            return False
        if not process.closed:
            return process.wanted is not None and process.waits_when_full and bool(swap.wait)
        sleepers = [each for each in self.processes.values() if isinstance(each, Sleeper)]
        # What it takes was not measured before its connection was cut, and counts for more than when requests were
        # granted. Or some made way for each other then, and have terms now by which they do not.
        is_more = process.noted_bytes is None and swap.wanted_bytes > process.context
        is_more |= sum(self.stays_awake(each, beside_more=True) for each in sleepers) > 1
        never = any(self.stays_awake(each, beside_more=is_more) for each in sleepers if not each.closed)
        is_host_short = self.settings.host_bytes < 100 * GIB and "--host-memory" in swap.wait
        return bool(swap.wait and never) or is_host_short

    def stays_awake(self, process: Process, *, beside_more: bool) -> bool:
        """See ``never_sleeps``."""
        return isinstance(process, Sleeper) and never_sleeps(process, beside_more=beside_more)

    # What these processes do in another way.

    def give_arena(self, process: Process, segment_bytes: int) -> None:
        """What comes back is read when all has come."""
        if not isinstance(process, Sleeper) or not process.away:
            SwapMachine.give_arena(self, process, segment_bytes)
            return
        process.back += segment_bytes
        assert process.back <= process.away, "it gets more host memory than it had"
        self.handle(ArenaGrown(process.number, segment_bytes))
        if process not in self.stopped:
            self.load_back(process)

    def load_back(self, process: Process) -> None:
        if isinstance(process, Sleeper) and process.number and loads(process):
            process.away = process.back = 0
            self.handle(ArenaLoaded(process.number))

    def make(self, _slot: int) -> Process:
        self.pids += 1
        return Sleeper(DEVICE, pid=self.pids, owner=("", "one", "other")[min(self.pids % 6, 2)])

    def able(self, slot: int) -> Process | None:
        """Whoever is asked for does something, for which it is awake."""
        process = super().able(slot)
        if process in self.stopped:
            return None
        if isinstance(process, Sleeper) and process.closed:
            process.calls = True
            self.handle(WakeWanted(process.pid))
            return None
        return process

    def all_able(self) -> list[Process]:
        """Its client hears the scheduler, asleep or not."""
        return [process for process in self.processes.values() if process.number and process not in self.stopped]

    def connect(self, process: Process) -> None:
        super().connect(process)
        assert isinstance(process, Sleeper)
        process.terms = None
        process.back = 0
        if len(self.mates(process)) == 1:
            self.steps = deque(step for step in self.steps if not is_for(step, process))
        self.handle(SleepOffered(process.number, process.pid, process.noted_bytes))
        self.handle(OwnerFound(process.number, process.owner))
        if process.away:
            # That is said first.
            self.say_one(process)
            pack = ArenaShared(process.number, process.away, process.pack, self.packs.get(process.pack, ("", 0))[1])
            self.handle(pack if process.pack else ArenaStored(process.number))
        if process.closed and self.core.client(process.number, self.now).state not in ASLEEP:
            self.handle(FellAsleep(process.pid))
        if process.calls:
            self.handle(WakeWanted(process.pid))

    def work(self, process: Process) -> bool:
        """A holder has done what it had to."""
        if not isinstance(process, Sleeper) or process.grant is None or process.busy or not process.yields:
            return False
        process.release()
        return True

    def has_context(self, process: Process) -> bool:
        return process.pinned > 0 or (isinstance(process, Sleeper) and process.closed)

    def deliver_all(self) -> None:
        for _ in range(100):
            SwapMachine.deliver_all(self)
            if not self.possible_steps():
                return
            self.take_steps()
        raise AssertionError("processes fall asleep and wake for ever")

    def restart(self) -> None:
        self.steps.clear()
        self.stopped.clear()
        SwapMachine.restart(self)

    def is_quiet(self) -> bool:
        is_loading = any(loads(each) and each not in self.stopped for each in self.processes.values())
        return not self.possible_steps() and not is_loading and SwapMachine.is_quiet(self)

    def send(self, actions: list[Action]) -> None:
        self.steps += [action for action in actions if isinstance(action, Asked)]
        super().send([action for action in actions if not isinstance(action, Asked)])


TestSleepMachine = SleepMachine.TestCase
TestSleepMachine.settings = settings(max_examples=60, stateful_step_count=30, derandomize=True)
