"""The core against the oracle: random sequences of events, with messages that clients have not read yet."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nvshare.scheduler.core.actions import Action, Revoke
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceForgotten,
    DeviceSeen,
    Event,
    FootprintChanged,
    HolderDied,
    HolderRecorded,
    LockReleased,
    LockRequested,
    PinnedAssumed,
    PinnedMeasured,
    Policy,
)
from nvshare.scheduler.core.settings import Settings, Unresponsive
from tests.scheduler.core import waiting
from tests.scheduler.core.event_sequences import (
    COMES,
    DEATHS,
    DEVICE_BYTES,
    DEVICES,
    FALSE_GRANTS,
    FOOTPRINTS,
    GIB,
    PINS,
    POLICIES,
    QUANTA,
    RECORDS,
    RESIZES,
    SLOT,
    SLOTS,
    WAITS,
    Ask,
    Come,
    Go,
    Operation,
    Peers,
    Pin,
    Release,
    Resize,
    Wait,
    operations,
)
from tests.scheduler.core.oracle import Oracle


class CoreMachine(RuleBasedStateMachine):
    """Clients act on what they know, which may lag behind what the core has said."""

    def __init__(self) -> None:
        super().__init__()
        self.peers = Peers()
        self.now = 100.0
        self.under_way: dict[int, deque[Action]] = {}
        """By client: what the core said and the client has not read yet."""

    @initialize(
        policy=st.sampled_from((*[Policy.AUTO] * 4, Policy.EXCLUSIVE, Policy.OFF)),
        recorded=st.just({}) | RECORDS,
        assumed=st.sampled_from((0, GIB)),
        unresponsive=st.sampled_from(Unresponsive),
        footprints=st.lists(st.sampled_from(FOOTPRINTS), min_size=2, max_size=SLOTS),
    )
    def start(
        self,
        policy: Policy,
        recorded: dict[str, list[int]],
        assumed: int,
        unresponsive: Unresponsive,
        footprints: list[int],
    ) -> None:
        """The first clients are on one device and want it; those that come later are anywhere."""
        chosen = Settings(policy=policy, assumed_pinned_bytes=assumed, unresponsive=unresponsive)
        self.core = Core(chosen)
        self.oracle = Oracle(chosen)
        self.peers.recorded = {device: [*grants] for device, grants in recorded.items()}
        for device in DEVICES:
            self.handle(DeviceSeen(device, DEVICE_BYTES))
        for event in records(recorded):
            self.handle(event)
        for slot, footprint_bytes in enumerate(footprints):
            self.do(Come(slot, DEVICES[0], footprint_bytes, ClaimedState.IDLE))
            self.do(Ask(slot))

    @rule(operation=COMES)
    def come(self, operation: Come) -> None:
        self.do(operation)

    @rule(slots=st.lists(SLOT, min_size=1, max_size=SLOTS))
    def ask(self, slots: list[int]) -> None:
        """Several at once, so that there are queues."""
        for slot in slots:
            self.do(Ask(slot))

    @rule(slot=SLOT)
    def release(self, slot: int) -> None:
        self.do(Release(slot))

    @rule(operation=RESIZES)
    def resize(self, operation: Resize) -> None:
        self.do(operation)

    @rule(operation=PINS)
    def pin(self, operation: Pin) -> None:
        self.do(operation)

    @rule(operation=DEATHS)
    def die(self, operation: Operation) -> None:
        self.do(operation)

    @rule(slot=SLOT)
    def go(self, slot: int) -> None:
        self.do(Go(slot))

    @rule(operation=POLICIES | QUANTA, often=st.integers(0, 3))
    def choose(self, operation: Operation, often: int) -> None:
        """Seldom, or no policy would ever have time to show what it does."""
        if often == 0:
            self.do(operation)

    @rule(device=st.sampled_from(DEVICES), total=st.sampled_from((0, 12, 16, 16)), foreign=st.sampled_from((0, 0, 1)))
    def measure_device(self, device: str, total: int, foreign: int) -> None:
        self.handle(DeviceSeen(device, total * GIB, foreign * GIB))

    @rule(device=st.sampled_from(DEVICES))
    def forget_device(self, device: str) -> None:
        """One that nobody uses is forgotten, and comes back as if it had never been there."""
        if not (self.oracle.devices[device].clients or self.oracle.devices[device].awaited):
            self.handle(DeviceForgotten(device))
            self.handle(DeviceSeen(device, DEVICE_BYTES))

    @rule(slot=SLOT, answers=st.booleans())
    def read(self, slot: int, answers: bool) -> None:
        """A client reads one message; ``answers``: it answers a Revoke even of a grant that it gave back already."""
        if slot in self.peers.by_slot:
            self.read_one(self.peers.by_slot[slot].number, answers)

    @rule()
    def read_all(self) -> None:
        """All clients read everything, as they nearly always have; those that are asked to leave do."""
        for slot, peer in list(self.peers.by_slot.items()):
            while self.under_way.get(peer.number):
                self.read_one(peer.number, answers=False)
            if peer.asked_to_leave:
                self.do(Release(slot))

    @rule(operation=WAITS)
    def wait(self, operation: Wait) -> None:
        """Time passes, and the timer comes exactly when it is due."""
        end = self.now + operation.seconds
        while (deadline := self.core.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.wake()
            after = self.core.deadline()
            assert after is None or after > self.now, "the timer that was due has nothing to do"
        self.now = end

    @rule(seconds=st.sampled_from((0.5, 3.0, 45.0)))
    def oversleep(self, seconds: float) -> None:
        """Time passes and the timer comes at its end, late or before it is due."""
        self.now += seconds
        self.wake()

    @rule(data=st.data())
    def break_the_rules(self, data: st.DataObject) -> None:
        """An event that the state does not allow is refused, and the core is as it was."""
        event = data.draw(st.sampled_from(self.illegal_events()))
        before = self.core.snapshot(self.now), self.core.deadline()
        with pytest.raises(IllegalEvent) as raised:
            self.core.handle(event, self.now)
        assert raised.value.event == event
        assert (self.core.snapshot(self.now), self.core.deadline()) == before

    @invariant()
    def rules_hold(self) -> None:
        self.oracle.check(self.now, self.core.deadline(), self.core.snapshot(self.now))
        waiting.check(self.core, self.now)

    def illegal_events(self) -> list[Event]:
        here = {client.number for device in self.oracle.devices.values() for client in device.clients}
        events: list[Event] = []
        for nobody in set(range(self.peers.last_number + 2)) - here:
            events += [LockRequested(nobody), LockReleased(nobody, 1), ClientGone(nobody)]
            events += [FootprintChanged(nobody, 1), PinnedMeasured(nobody, 1), PinnedAssumed(nobody, 1)]
        events.append(DeviceForgotten("GPU-unknown"))
        for uuid, device in self.oracle.devices.items():
            events += [DeviceForgotten(uuid)] if device.clients or device.awaited else []
            nobody = self.oracle.last_grant + 1
            events += [HolderDied(nobody), *(HolderRecorded(uuid, grant) for grant in device.awaited)]
            events += [ClientRegistered(nobody << 8, uuid, 0, ClaimedState.IDLE, recorded_grant=nobody)]
            events += [LockRequested(client.number) for client in [*device.queue, *device.holders]]
            events += [LockReleased(client.number, self.oracle.last_grant + 1) for client in device.clients]
        return events

    def read_one(self, number: int, answers: bool) -> None:
        if not self.under_way.get(number):
            return
        peer = next(peer for peer in self.peers.by_slot.values() if peer.number == number)
        action = self.under_way[number].popleft()
        # Who claimed what nobody had granted gives that back once: such clients don't answer what crossed it.
        if answers and isinstance(action, Revoke) and action.grant not in (peer.grant, *FALSE_GRANTS):
            self.handle(LockReleased(number, action.grant))
        self.peers.receive(action)

    def do(self, operation: Operation) -> None:
        event = self.peers.event(operation)
        if event is not None:
            self.handle(event)

    def handle(self, event: Event) -> None:
        # Before its deadline passes the core sees every event; one at the same time may come before the timer.
        actions = self.core.handle(event, self.now)
        self.oracle.saw(event, self.now)
        self.send(actions)

    def wake(self) -> None:
        self.send(self.core.handle_timer(self.now))

    def send(self, actions: list[Action]) -> None:
        self.oracle.answered(actions, self.now)
        for action in actions:
            self.under_way.setdefault(action.client, deque()).append(action)


TestCoreMachine = CoreMachine.TestCase
TestCoreMachine.settings = settings(max_examples=100, stateful_step_count=60)


def records(recorded: dict[str, list[int]]) -> list[Event]:
    """What a core is told of the holders that are recorded."""
    return [HolderRecorded(device, grant) for device, grants in recorded.items() for grant in grants]


def run(sequence: list[Operation], policy: Policy, recorded: dict[str, list[int]]) -> list[list[Action]]:
    """What a core answers to each operation, clients reading every answer at once."""
    core, peers, now = (
        Core(Settings(policy=policy)),
        Peers(recorded={device: [*grants] for device, grants in recorded.items()}),
        0.0,
    )
    for device in DEVICES:
        core.handle(DeviceSeen(device, DEVICE_BYTES), now)
    for former in records(recorded):
        core.handle(former, now)
    answers: list[list[Action]] = []
    for operation in sequence:
        event = peers.event(operation)
        if isinstance(operation, Wait):
            now += operation.seconds
            answers.append(core.handle_timer(now))
        elif event is not None:
            answers.append(core.handle(event, now))
        else:
            continue
        for action in answers[-1]:
            peers.receive(action)
    return answers


@given(operations(), st.sampled_from(Policy), RECORDS)
def test_the_same_events_give_the_same_actions(
    sequence: list[Operation], policy: Policy, recorded: dict[str, list[int]]
) -> None:
    """Nothing inside depends on hashes, addresses, clocks or chance."""
    assert run(sequence, policy, recorded) == run(sequence, policy, recorded)
