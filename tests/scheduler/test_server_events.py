"""Random sequences of events: the real server says what the pure core says."""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.protocol import wire
from nvshare.scheduler.clients import translate
from nvshare.scheduler.core.actions import GrowArena, Kill, ReportUnresponsive
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Event,
    FootprintChanged,
    LockReleased,
    LockRequested,
    Policy,
    PolicySet,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.gpus.names import gpu_name
from tests.polling import poll_until
from tests.scheduler.core.event_sequences import DEVICES, Come, Operation, Peers, Pin, Wait, operations
from tests.scheduler.wire_client import Scheduler, WireClient

NOW = 0.0
"""The core's time stands still: nothing here lasts as long as a quantum or the grace time."""

STATES = {
    ClaimedState.IDLE: wire.State.IDLE,
    ClaimedState.WAITING: wire.State.WAITING,
    ClaimedState.HOLDING: wire.State.HOLDING,
    ClaimedState.DRAINING: wire.State.DRAINING,
}


@dataclass(slots=True)
class Pair:
    """A server and a core to which the same things happen; the core's client numbers are the server's."""

    scheduler: Scheduler
    core: Core = field(default_factory=lambda: Core(Settings()))
    clients: dict[int, WireClient] = field(default_factory=dict)
    examples: Iterator[int] = field(default_factory=itertools.count)
    registered: int = 0
    claimed: set[str] = field(default_factory=set)
    """Devices on which somebody has claimed to hold."""

    def play(self, policy: Policy, played: list[Operation]) -> None:
        """One example, on devices that no example had before."""
        example = next(self.examples)
        devices = {name: uuid.UUID(int=(example << 8) + number) for number, name in enumerate(DEVICES)}
        self.core.handle(PolicySet(policy), NOW)
        self.scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy=policy.value))
        known: set[uuid.UUID] = set()
        peers = Peers(last_number=self.registered)
        for operation in played:
            # Neither can be said over a version 2 connection.
            if isinstance(operation, Pin | Wait) or (isinstance(operation, Come) and operation.footprint_bytes is None):
                continue
            event = peers.event(operation)
            if event is not None:
                self.tell(event, devices, known, peers)
        self.registered = peers.last_number
        for number in list(self.clients):
            self.tell(ClientGone(number), devices, known, peers)

    def tell(self, event: Event, devices: dict[str, uuid.UUID], known: set[uuid.UUID], peers: Peers) -> None:
        """One event, to both; the answers are compared."""
        if isinstance(event, ClientRegistered):
            device = devices[event.device]
            name = gpu_name(device.bytes)
            if device not in known:
                known.add(device)
                self.core.handle(DeviceSeen(name, 0), NOW)
            # All clients are of this process, whose first false claim on a device counts.
            claims = event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING)
            told: Event = replace(event, device=name, doubted=claims and name in self.claimed)
            self.claimed |= {name} if claims else set()
        else:
            told = event
        actions = self.core.handle(told, NOW)
        for action in actions:
            peers.receive(action)
        self.say(event, devices)
        expected = defaultdict(list)
        for action in actions:
            assert not isinstance(action, ReportUnresponsive | Kill | GrowArena)
            expected[action.client].append(translate.frame_of(action))
        for number, frames in expected.items():
            assert [self.clients[number].receive() for _ in frames] == frames
        clients = {client.client: client for device in self.core.snapshot(NOW) for client in device.clients}
        states = {number: client.state.value for number, client in clients.items()}
        poll_until(lambda: self.scheduler.states() == states, f"the states are {states}")
        assert all(client.has_nothing() for client in self.clients.values())

    def say(self, event: Event, devices: dict[str, uuid.UUID]) -> None:
        """What causes the event at the server."""
        match event:
            case ClientRegistered(
                number, device, footprint_bytes, claimed, grant, backend=backend, device_bytes=device_bytes
            ):
                client = self.scheduler.client().register(
                    device_uuid=devices[device].bytes,
                    total_bytes=device_bytes,
                    backend=wire.Backend[backend.name],
                    footprint_bytes=footprint_bytes,
                    state=STATES[claimed],
                    grant=grant,
                )
                assert client.client_id == number
                self.clients[number] = client
            case LockRequested(number):
                self.clients[number].send(wire.ReqLock())
            case LockReleased(number, grant):
                self.clients[number].send(wire.LockReleased(grant))
            case FootprintChanged(number, footprint_bytes):
                self.clients[number].send(wire.Footprint(footprint_bytes))
            case ClientGone(number):
                self.clients.pop(number).close()
            case _:
                pytest.fail(f"{event} has no place here")


@pytest.mark.parametrize("policy", Policy)
def test_server_does_what_the_core_says(run_dir: RunDir, policy: Policy) -> None:
    """After every event each client has heard exactly what the core answered, and the states are the core's."""
    roots: Iterator[Path] = (run_dir.root / str(number) for number in itertools.count())
    running: list[Pair] = []

    @settings(max_examples=12, database=None, suppress_health_check=list(HealthCheck))
    @given(operations(operator=False, most=40))
    def compare(played: list[Operation]) -> None:
        if not running:
            running.append(Pair(Scheduler(next(roots)).__enter__()))
        try:
            running[0].play(policy, played)
        except BaseException:
            # What comes after a failure (a smaller example) begins with a fresh pair.
            stop(running)
            raise

    try:
        compare()
    finally:
        stop(running)


def stop(running: list[Any]) -> None:
    """Ends the server, if one runs."""
    while running:
        running.pop().scheduler.__exit__(None, None, None)
