"""The shell, as processes that sleep see it: it closes and opens doors, and takes host memory elsewhere."""

from __future__ import annotations

from collections import deque

from nvshare.scheduler.core.sleep_events import (
    ArenaNotShared,
    ArenaNotStored,
    ArenaShared,
    ArenaStored,
    FellAsleep,
    StayedAwake,
    WakeWanted,
    Woke,
)
from tests.scheduler.core.memory.swap_model import Process
from tests.scheduler.core.memory.test_swap_properties import SwapMachine
from tests.scheduler.core.sleep.sleep_model import (
    Asked,
    Sleeper,
    is_for,
    put_into_pack,
)


class Shell(SwapMachine):
    """What was asked of it, and what it does then."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: deque[Asked] = deque()
        """What the shell was asked to do."""
        self.disk_fails = False
        self.packs: dict[int, tuple[str, int]] = {}
        """Whose each is, and how large."""
        self.alike = 4
        """So many quarters of the memory of each are equal to others'."""
        self.stopped: set[Process] = set()
        """Who does nothing that it is told."""

    def possible_steps(self) -> list[Asked]:
        """Those for which nobody has to do anything that is stopped."""
        return [step for step in self.steps if not any(is_for(step, each) for each in self.stopped)]

    def store(self, process: Sleeper) -> None:
        assert process.closed, "the host memory of one that is awake is not to be stored"
        assert not process.away
        if self.disk_fails:
            self.handle(ArenaNotStored(process.number, "no space left"))
            return
        process.away, process.back, process.pack = process.arena, 0, 0
        self.handle(ArenaStored(process.number))

    def share(self, process: Sleeper, pack_bytes: int) -> None:
        """It goes to a pack that there is, or to a new one."""
        assert process.closed, "the host memory of one that is awake is not to be shared"
        assert not process.away
        equal, pack = put_into_pack(process, self.packs, process.arena * self.alike // 4, pack_bytes)
        if not equal:
            self.handle(ArenaNotShared(process.number, "nobody has the same"))
            return
        process.away, process.back, process.pack = equal, 0, pack
        self.handle(ArenaShared(process.number, equal, pack, self.packs[pack][1]))

    def close(self, process: Sleeper) -> None:
        """All of the process; it is but one client here."""
        mates = self.mates(process)
        if not all(map(Sleeper.can_close, mates)):
            self.handle(StayedAwake(process.pid, "a thread is in the driver"))
            return
        for each in mates:
            each.close()
        self.handle(FellAsleep(process.pid))
        if any(each.calls for each in mates):
            self.handle(WakeWanted(process.pid))

    def open(self, process: Sleeper) -> None:
        mates = self.mates(process)
        for each in mates:
            each.restore()
        self.nothing_is_given_twice()
        for each in mates:
            # What it asked for before it slept is heard by now.
            while each.outbox:
                self.say_one(each)
            each.open()
        self.handle(Woke(process.pid))
        for each in mates:
            each.ask_again()

    def mates(self, process: Process) -> list[Sleeper]:
        """The clients of a process."""
        assert isinstance(process, Sleeper)
        return [each for each in self.processes.values() if isinstance(each, Sleeper) and each.pid == process.pid]

    def mates_of(self, number: int) -> list[int]:
        process = self.process_of(number)
        assert process is not None
        return [each.number for each in self.mates(process)]

    def nothing_is_given_twice(self) -> None:
        """What is used is there."""
        raise NotImplementedError
