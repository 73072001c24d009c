"""A process that sleeps, as it is: what its door keeps out, and where its host memory is."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from nvshare.scheduler.core.actions import Grant, ShareArena, Sleep, StoreArena, TellWaiters, Wake
from nvshare.scheduler.core.events import LockRequested
from nvshare.scheduler.core.sleep.reasons import UNMOVABLE_BYTES
from nvshare.scheduler.core.snapshot import ClientSnapshot, ShownState
from nvshare.scheduler.core.terms import Priority, SleepWhen, Terms, WhenFull
from tests.scheduler.core.memory.swap_model import GRANULE, Process
from tests.scheduler.core.memory.test_swap_properties import GIB, TOTAL

ASLEEP = (ShownState.ASLEEP, ShownState.WAKING)
TERMS = st.builds(
    Terms,
    weight=st.sampled_from((1.0, 1.0, 0.5, 4.0)),
    sleep=st.sampled_from((None, None, *SleepWhen)),
    memory_request_bytes=st.sampled_from((0, 0, 0, GIB // 2, 2 * TOTAL)),
    memory_limit_bytes=st.sampled_from((None, None, GIB // 2, 2 * GIB)),
    when_full=st.sampled_from(WhenFull),
    priority=st.sampled_from((Priority.NORMAL, Priority.NORMAL, Priority.HIGH)),
)

Asked = Sleep | Wake | StoreArena | ShareArena
"""What the shell is asked to do."""


@dataclass(slots=True, eq=False)
class Sleeper(Process):
    """A process with a door. While that is closed it does nothing but hear what its client is told."""

    pid: int = 0
    closed: bool = False
    context: int = 0
    """What the checkpoint keeps for it; 0: it is not checkpointed."""
    noted_bytes: int | None = None
    """What the shell knows that its context took when it was measured before it slept."""
    calls: bool = False
    """A call waits at the door."""
    wakes: int = 0
    asks: bool = False
    """It waited for its turn when the door was closed, and will again."""
    away: int = 0
    """So much of its host memory is in a file or a pack, but for ``back`` of that."""
    back: int = 0
    pack: int = 0
    """In which; 0: it is a file."""
    owner: str = ""
    terms: Terms | None = None
    yields: bool = False
    """It is to give way when it is idle."""
    busy: bool = False
    """It never is, and asks for the lock again as soon as it gave it back."""

    @property
    def waits_when_full(self) -> bool:
        """What there is no room for it waits for."""
        return self.terms is not None and self.terms.when_full is WhenFull.WAIT

    def note(self, shown: ClientSnapshot) -> None:
        """The shell writes down what was measured."""
        if shown.pinned_measured:
            self.noted_bytes = shown.pinned_bytes

    def can_close(self) -> bool:
        """Whether it does nothing, and has said all but that it wants its turn."""
        says_more = any(not isinstance(event, LockRequested) for event in self.outbox)
        return self.grant is None and self.wanted is None and not says_more

    def close(self) -> None:
        """It is checkpointed."""
        assert not self.resident, "its memory is not out"
        self.closed, self.context, self.pinned = True, self.pinned, 0
        self.asks, self.waits = self.waits, False
        self.calls |= self.asks

    def restore(self) -> None:
        """It has its context again."""
        assert not self.away, "its memory is elsewhere"
        self.pinned, self.context = self.context, 0

    def open(self) -> None:
        """Its door is."""
        self.wakes += 1
        self.closed = self.calls = False

    def ask_again(self) -> None:
        """What it waited for when it fell asleep, or what it always wants."""
        if self.asks or self.busy:
            self.asks = False
            self.ask()

    def read(self) -> None:
        match self.inbox[0] if self.inbox else None:
            case Grant():
                self.yields = False
            case TellWaiters(_, _, idle_seconds):
                self.yields = idle_seconds > 0
            case _:
                pass
        Process.read(self)

    def release(self) -> None:
        Process.release(self)
        if self.busy:
            self.ask()


def never_sleeps(process: Sleeper, *, beside_more: bool) -> bool:
    """Whether one that is awake stays so of its own or its user's will, for another one to come back.

    ``beside_more``: more is to come back, and to stay, than when requests were granted.
    """
    terms = process.terms or Terms()
    is_kept = beside_more and terms.memory_request_bytes > 0
    return process.fixed > UNMOVABLE_BYTES or terms.sleep is SleepWhen.NEVER or is_kept


def loads(process: Process) -> bool:
    """Whether it reads what is elsewhere."""
    return isinstance(process, Sleeper) and 0 < process.away == process.back


def is_for(step: Asked, process: Process) -> bool:
    """Whether it concerns this process."""
    if isinstance(step, StoreArena | ShareArena):
        return process.number == step.client
    return isinstance(process, Sleeper) and process.pid == step.process


def host_bytes(processes: list[Sleeper], packs: dict[int, int]) -> int:
    """What all have, packs of these sizes included, but for those that end when their last client is back."""
    stay = [each.pack for each in processes if each.away and each.pack]
    ending = {each.pack for each in processes if each.back and stay.count(each.pack) == 1}
    used = sum(each.arena - each.away + each.back for each in processes)
    return used + sum(packs[pack] for pack in {*stay} - ending)


def put_into_pack(
    process: Sleeper, packs: dict[int, tuple[str, int]], equal_bytes: int, new_bytes: int
) -> tuple[int, int]:
    """How much of it goes into which pack: one of its owner's that there is, or else a new one, if it fits; 0: nothing.

    ``packs``: the owner and the size of each.
    """
    equal = equal_bytes // GRANULE * GRANULE
    pack = next((pack for pack, (owner, _) in packs.items() if owner == process.owner), 0)
    if not pack and 0 < equal <= new_bytes:
        pack = max(packs, default=0) + 1
        packs[pack] = process.owner, equal
    return min(equal, packs.get(pack, ("", 0))[1]), pack
