"""One process on its way to sleep and back, with all that can come between."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nvshare.protocol import wire
from nvshare.scheduler.sleeping.sleeper import OPERATING_SYSTEM, End, State
from nvshare.scheduler.sleeping.sleepers import Outcome
from tests.scheduler.sleeping.world import GPUS, World

FIRST, SECOND = GPUS


def awake(*gpus: int) -> World:
    """One with connections for these GPUs, in this order."""
    world = World()
    for gpu in GPUS:
        world.disconnect(gpu)
    for gpu in gpus:
        world.connect(gpu)
        world.settle()
    return world


def asleep(*gpus: int) -> World:
    """The same, asleep."""
    world = awake(*gpus)
    world.sleep()
    world.settle()
    assert world.driver is State.CHECKPOINTED
    return world


@pytest.mark.parametrize("before", [(FIRST,), GPUS], ids=["one", "both"])
@pytest.mark.parametrize("order", [(SECOND, FIRST), (FIRST, FIRST, SECOND)], ids=["second", "first"])
def test_all_goes_over_one_connection(before: tuple[int, ...], order: tuple[int, ...]) -> None:
    """What closes the door is not heard before what opened it."""
    world = asleep(*before)
    world.wake()
    while world.step():
        pass
    world.connect(SECOND)
    while world.hear(1):
        pass
    world.sleep()
    for gpu in order:
        world.read(gpu, obeys=True)
        for which in range(len(GPUS)):
            world.hear(which)
        world.step()
        world.check()
    world.settle()
    world.check_settled()


def test_connection_ends_before_it_hears() -> None:
    """Of a process that was to open its door, and does not come back with that GPU: the other one is told."""
    world = asleep(FIRST, SECOND)
    world.wake()
    while world.step():
        pass
    world.disconnect(FIRST)
    world.settle()
    assert not world.is_closed


def test_connection_ends_while_it_closes() -> None:
    """The core hears that it stays awake, without waiting for an answer that can't come."""
    world = awake(FIRST, SECOND)
    world.sleep()
    world.disconnect(FIRST)
    while world.hear(0) or world.step():
        pass
    assert world.core == "awake"


def test_asleep_before() -> None:
    """Its door is never opened for what was only not heard yet."""
    world = asleep(FIRST)
    world.disconnect(FIRST)
    world.hear(0)
    world.connect(FIRST)
    world.hear(0)
    world.sleep()
    world.disconnect(FIRST)
    world.connect(FIRST)
    world.settle()
    world.check_settled()
    assert world.driver is State.CHECKPOINTED


def test_one_call_wakes_it_once() -> None:
    """The next time it sleeps until the next call."""
    world = asleep(FIRST)
    for _ in range(2):
        world.call(FIRST)
        world.hear(FIRST)
        assert world.wants
        world.settle()
        assert world.driver is State.RUNNING
        world.sleep()
        world.settle()
        assert world.driver is State.CHECKPOINTED


def test_lost() -> None:
    """It is told so, and does not sleep again."""
    world = asleep(FIRST)
    world.wake()
    world.driver = State.RUNNING  # As far as the core may see: it has woken.
    world.sleepers.pop().done(Outcome(End.LOST, "restore", 2))
    assert list(world.connections[FIRST].to_client) == [wire.Awake(lost=True)]
    assert world.core == "awake"
    assert world.means.times.lost == 1
    world.sleep()
    world.loop.go_on()
    assert world.core == "awake"
    assert len(world.connections[FIRST].to_client) == 1


def test_what_its_sleeper_did_can_not_be_seen() -> None:
    """Its door stays closed until the next one knows how far it is."""
    world = awake(FIRST)
    world.sleep()
    world.read(FIRST, obeys=True)
    world.hear(FIRST)
    world.driver = State.LOCKED
    world.sleepers.pop().done(Outcome(End.UNKNOWN, "lock", OPERATING_SYSTEM))
    assert world.is_closed
    assert not world.connections[FIRST].to_client
    world.settle()
    assert world.driver is State.RUNNING
    assert world.core == "awake"
    world.check_settled()


def test_unable() -> None:
    """Who was asked for nothing waits for nothing; who sleeps already waits until somebody is able."""
    world = awake(FIRST)
    world.sleep()
    world.read(FIRST, obeys=True)
    world.hear(FIRST)
    world.sleepers.pop().done(Outcome(End.UNABLE, "begin", reason="no driver"))
    assert world.core == "awake"
    world.settle()
    assert not world.is_closed
    world = asleep(FIRST)
    world.wake()
    world.sleepers.pop().done(Outcome(End.UNABLE, "begin", reason="no driver"))
    world.sleepers.clear()
    world.loop.go_on()
    world.sleepers.pop().done(Outcome(End.UNKNOWN, "state", OPERATING_SYSTEM))
    assert world.core == "waking"
    world.settle()
    world.check_settled()


class Lives(RuleBasedStateMachine):
    """Frames are late or lost, sleepers die, time is over, connections end: in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule()
    def sleep(self) -> None:
        self.world.sleep()

    @rule()
    def wake(self) -> None:
        self.world.wake()

    @rule(gpu=st.sampled_from(GPUS), obeys=st.booleans())
    def read(self, gpu: int, obeys: bool) -> None:
        self.world.read(gpu, obeys)

    @rule(which=st.integers(0, 3))
    def hear(self, which: int) -> None:
        self.world.hear(which)

    @rule()
    def step(self) -> None:
        self.world.step()

    @rule()
    def die(self) -> None:
        self.world.die()

    @rule()
    def go_on(self) -> None:
        self.world.loop.go_on()

    @rule(gpu=st.sampled_from(GPUS))
    def call(self, gpu: int) -> None:
        self.world.call(gpu)

    @rule(gpu=st.sampled_from(GPUS))
    def disconnect(self, gpu: int) -> None:
        self.world.disconnect(gpu)

    @rule(gpu=st.sampled_from(GPUS))
    def connect(self, gpu: int) -> None:
        self.world.connect(gpu)

    @rule(refuses=st.booleans())
    def refuse(self, refuses: bool) -> None:
        self.world.refuses = refuses

    @rule()
    def settle(self) -> None:
        self.world.settle()
        self.world.check_settled()

    @invariant()
    def nobody_is_inside(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Whatever happened, it ends asleep or awake."""
        self.settle()


TestLives = Lives.TestCase
