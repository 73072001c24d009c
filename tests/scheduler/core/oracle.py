"""The rules of the core, written a second time: slowly, over plain lists, so that they can be read off.

The oracle is told every event and every action. It knows nothing of the core's inside, and says what is wrong with an
action or with the state that the actions leave behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import assert_never

from nvshare.scheduler.core.actions import Action, Grant, Kill, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
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
    PolicySet,
    QuantumSet,
)
from nvshare.scheduler.core.ledger import SLACK_BYTES, SLACK_SHARE
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.snapshot import DeviceSnapshot, ShownState


@dataclass(slots=True, eq=False)
class Turn:
    """One grant in one client's hands."""

    grant: int
    began: float
    revoked_at: float | None = None
    reported: bool = False
    killed: bool = False
    told: bool = False


@dataclass(slots=True, eq=False)
class ModelClient:
    """One client of a device."""

    number: int
    backend: Backend
    footprint_bytes: int | None
    claimed_bytes: int
    pinned_bytes: int
    measured: bool = False
    turn: Turn | None = None
    asked_at: float = 0.0
    held_seconds: float = 0.0
    """In turns that are over."""
    waited_seconds: float = 0.0
    """In waits that are over."""
    grants: int = 0


@dataclass(slots=True, eq=False)
class ModelDevice:
    """One device."""

    policy: Policy
    quantum_seconds: float
    measured_bytes: int = 0
    foreign_bytes: int = 0
    clients: list[ModelClient] = field(default_factory=list)
    queue: list[ModelClient] = field(default_factory=list)
    holders: list[ModelClient] = field(default_factory=list)
    """In the order in which they began to hold."""
    awaited: set[int] = field(default_factory=set)
    """The grants of recorded holders that are not back."""

    def total_bytes(self) -> int:
        """NVML's word, else the smallest claim of those who are here."""
        claims = [client.claimed_bytes for client in self.clients if client.claimed_bytes]
        return self.measured_bytes or min(claims, default=0)

    def needed(self, holders: list[ModelClient], *, assumed: bool = True) -> int:
        """What must be on the device while these hold; without ``assumed`` only measured pinned memory counts."""
        pinned = [client.pinned_bytes for client in self.clients if assumed or client.measured]
        stay = [client for client in self.clients if client.backend is Backend.NATIVE or client in holders]
        return sum(pinned) + sum(client.footprint_bytes or 0 for client in stay)

    def fit(self, holders: list[ModelClient]) -> bool:
        """Whether these may hold together."""
        if self.policy is Policy.OFF or len(holders) <= 1:
            return True
        if self.policy is Policy.EXCLUSIVE or any(client.footprint_bytes is None for client in holders):
            return False
        return self.needed(holders) <= self.total_bytes() - self.foreign_bytes

    def outgrown(self, slack: int) -> list[ModelClient]:
        """The holders that may be asked to leave because those who stay outgrew the device by more than ``slack``."""
        staying = self.staying()
        if self.policy is Policy.OFF or len(staying) <= 1:
            return []
        if self.policy is Policy.EXCLUSIVE:
            return staying
        free = [client for client in staying if client.backend is not Backend.NATIVE and client.footprint_bytes != 0]
        unknown = any(client.footprint_bytes is None for client in staying)
        too_much = self.needed(staying, assumed=False) > self.total_bytes() - self.foreign_bytes + slack
        return free if unknown or too_much else []

    def slack(self) -> int:
        """How much too much is let pass; none while nobody knows how much there is."""
        return max(SLACK_BYTES, int(self.total_bytes() * SLACK_SHARE)) if self.total_bytes() else 0

    def staying(self) -> list[ModelClient]:
        """The holders that were not asked to leave."""
        return [client for client in self.holders if client.turn and client.turn.revoked_at is None]

    def stuck(self) -> list[ModelClient]:
        """The unresponsive holders."""
        return [client for client in self.holders if client.turn and client.turn.reported]

    def first(self) -> ModelClient | None:
        """The first waiter that is not kept out by the unresponsive holders alone."""
        return next((client for client in self.queue if self.fit([*self.stuck(), client])), None)

    def blocking(self) -> list[ModelClient]:
        """Who must leave for the first waiter.

        The fewest of those that have had their quantum when the waiter can come in; the choice with the longest ones.
        """
        staying, stuck, first = self.staying(), self.stuck(), self.first()
        if first is None:
            return []
        counts = range(len(staying) + 1)
        soon = staying[: next(count for count in counts if self.fit([*stuck, *staying[count:], first]))]
        for count in counts:
            for leaving in combinations(soon, count):
                stay = [client for client in staying if client not in leaving]
                if self.fit([*stuck, *stay, first]):
                    return list(leaving)
        raise AssertionError("the first waiter does not fit though all leave")

    def may_pass(self, client: ModelClient) -> bool:
        """Whether a waiter behind the first may come in before it."""
        first, stuck = self.first(), self.stuck()
        if first is None or not self.fit([*self.holders, client]):
            return False
        blocking = self.blocking()
        then = [*stuck, *(each for each in self.staying() if each not in blocking), first]
        last = first
        for other in self.queue[self.queue.index(first) + 1 : self.queue.index(client)]:
            if not self.fit([*stuck, other]):
                continue
            if last is first and self.fit([*then, other]):
                then.append(other)
            elif not self.fit([*then, other]) and not self.fit([*stuck, last, other]):
                last = other
            else:
                return False
        return self.fit([*then, client])

    def to_kill(self) -> list[ModelClient]:
        """The fewest unresponsive holders that must go for the first in the queue, of those not killed yet."""
        alive = [client for client in self.stuck() if client.turn and not client.turn.killed]
        for count in range(len(alive) + 1):
            for gone in combinations(alive, count):
                if not self.queue or self.fit([*(each for each in alive if each not in gone), self.queue[0]]):
                    return list(gone)
        raise AssertionError("a waiter does not fit alone")


class Oracle:
    """All devices; raises AssertionError at the first broken rule."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.policy = settings.policy
        self.quantum_seconds = settings.quantum_seconds
        self.devices: dict[str, ModelDevice] = {}
        self.last_grant = 0
        self.shrinking: set[int] = set()
        """The devices (by id) of which a holder was just asked to leave because the holders outgrew it."""
        self.to_be_revoked: dict[int, int] = {}
        """The grants of those that just claimed to hold and are in no record, by client."""

    def saw(self, event: Event, now: float) -> None:
        """An event that the core accepted."""
        match event:
            case DeviceSeen(uuid, total_bytes, foreign_bytes):
                device = self.devices.setdefault(uuid, ModelDevice(self.policy, self.quantum_seconds))
                device.measured_bytes, device.foreign_bytes = total_bytes, foreign_bytes
            case ClientRegistered():
                self._registered(event, now)
            case HolderRecorded(uuid, grant):
                self.devices[uuid].awaited.add(grant)
                self.last_grant = max(self.last_grant, grant)
            case HolderDied(grant):
                for device in self.devices.values():
                    device.awaited.discard(grant)
            case LockRequested(number):
                device, client = self._find(number)
                assert client.turn is None
                assert client not in device.queue
                client.asked_at = now
                device.queue.append(client)
                if not client.measured and client.pinned_bytes == 0:
                    client.pinned_bytes = self.settings.assumed_pinned_bytes
            case LockReleased(number, grant):
                device, client = self._find(number)
                if client.turn and client.turn.grant == grant:
                    client.held_seconds += now - client.turn.began
                    client.turn = None
                    device.holders.remove(client)
            case FootprintChanged(number, footprint_bytes):
                self._find(number)[1].footprint_bytes = footprint_bytes
            case PinnedMeasured(number, pinned_bytes):
                client = self._find(number)[1]
                client.pinned_bytes, client.measured = pinned_bytes, True
            case PinnedAssumed(number, pinned_bytes):
                client = self._find(number)[1]
                client.pinned_bytes, client.measured = pinned_bytes, False
            case ClientGone(number):
                device, client = self._find(number)
                for clients in (device.clients, device.queue, device.holders):
                    if client in clients:
                        clients.remove(client)
            case PolicySet(policy, uuid):
                self.policy = policy if uuid is None else self.policy
                for device in self._chosen(uuid):
                    device.policy = policy
            case QuantumSet(seconds, uuid):
                self.quantum_seconds = seconds if uuid is None else self.quantum_seconds
                for device in self._chosen(uuid):
                    device.quantum_seconds = seconds
            case _:
                assert_never(event)

    def answered(self, actions: list[Action], now: float) -> None:
        """What the core answered to the last event or timer: every action must be allowed in its turn."""
        self.shrinking = set()
        for action in actions:
            device, client = self._find(action.client)
            match action:
                case Revoke(number, grant) if number in self.to_be_revoked:
                    assert self.to_be_revoked.pop(number) == grant
                case Grant(_, grant):
                    self._granted(device, client, grant, now)
                case Revoke(_, grant):
                    self._revoked(device, client, grant, now)
                case TellWaiters(_, waiters):
                    turn = client.turn
                    assert turn is not None
                    assert turn.revoked_at is None, "a holder that must leave anyway is told of waiters"
                    assert turn.told is not bool(waiters), "a holder is told what it knows"
                    assert waiters in (0, len(device.queue))
                    turn.told = bool(waiters)
                case ReportUnresponsive(_, grant, overdue_seconds):
                    turn = client.turn
                    assert turn is not None
                    assert turn.grant == grant
                    assert turn.revoked_at is not None
                    assert not turn.reported
                    assert overdue_seconds == now - turn.revoked_at
                    assert now >= turn.revoked_at + self.settings.grace_seconds
                    turn.reported = True
                case Kill(_, grant):
                    turn = client.turn
                    assert self.settings.unresponsive is Unresponsive.KILL
                    assert turn is not None
                    assert turn.grant == grant
                    assert client in device.to_kill(), "a holder is killed though that helps nobody"
                    turn.killed = True
                case _:
                    assert_never(action)

    def check(self, now: float, deadline: float | None, seen: tuple[DeviceSnapshot, ...]) -> None:
        """The rules that hold between events, for what the core shows and for when it wants to be woken."""
        assert not self.to_be_revoked, "a client that is not believed may go on"
        due = [moment for device in self.devices.values() for moment in self._check_device(device, now)]
        assert deadline == min(due, default=None)
        assert [snapshot.device for snapshot in seen] == list(self.devices)
        for snapshot in seen:
            assert snapshot.recovering is bool(self.devices[snapshot.device].awaited)
            self._check_snapshot(snapshot, self.devices[snapshot.device], now)

    def _check_device(self, device: ModelDevice, now: float) -> list[float]:
        blocking = device.blocking()
        assert not device.outgrown(device.slack()), "holders that do not fit together stay"
        told = [client for client in device.holders if client.turn and client.turn.told and not client.turn.revoked_at]
        due = [
            client.turn.revoked_at + self.settings.grace_seconds
            for client in device.holders
            if client.turn and client.turn.revoked_at is not None and not client.turn.reported
        ]
        if device.awaited:
            assert not told, "somebody is told of waiters that can't be granted yet"
            return due
        assert told == blocking, "the blocking holders are not those that know it"
        first = device.first()
        assert first is None or not device.fit([*device.holders, first]), "the first waiter fits and waits"
        assert not any(map(device.may_pass, device.queue)), "somebody waits who could pass and delay nobody"
        if self.settings.unresponsive is Unresponsive.KILL:
            assert not device.to_kill(), "an unresponsive holder keeps somebody out and lives"
        if blocking:
            turn = blocking[-1].turn
            assert turn is not None
            due.append(turn.began + device.quantum_seconds)
        assert all(now < moment for moment in due), "something was due and was not done"
        return due

    def _granted(self, device: ModelDevice, client: ModelClient, grant: int, now: float) -> None:
        assert not device.awaited, "a grant while a recorded holder may still run"
        assert client in device.queue, "a grant to somebody who does not wait"
        assert client is device.first() or device.may_pass(client), "a waiter was overtaken and is delayed by that"
        assert device.fit([*device.holders, client]), "a grant to a client that does not fit"
        device.queue.remove(client)
        assert grant > self.last_grant, "a grant's number came twice"
        self.last_grant = grant
        client.turn = Turn(grant, now)
        client.waited_seconds += now - client.asked_at
        client.grants += 1
        device.holders.append(client)

    def _revoked(self, device: ModelDevice, client: ModelClient, grant: int, now: float) -> None:
        turn = client.turn
        assert turn is not None
        assert turn.grant == grant
        assert turn.revoked_at is None, "a grant was revoked twice"
        too_many = device.outgrown(0 if id(device) in self.shrinking else device.slack())
        if too_many:
            assert client is too_many[-1], "not the most recent holder was revoked"
            self.shrinking.add(id(device))
        else:
            assert client in device.blocking(), "a holder was revoked though that helps nobody"
            assert now >= turn.began + device.quantum_seconds, "a holder was revoked before its quantum ended"
        turn.revoked_at = now

    def _registered(self, event: ClientRegistered, now: float) -> None:
        device = self.devices[event.device]
        client = ModelClient(
            event.client,
            event.backend,
            event.footprint_bytes,
            event.device_bytes,
            self.settings.assumed_pinned_bytes,
        )
        device.clients.append(client)
        match event.claimed:
            case ClaimedState.IDLE:
                pass
            case ClaimedState.WAITING:
                client.asked_at = now
                device.queue.append(client)
            case ClaimedState.HOLDING | ClaimedState.DRAINING:
                believed = event.recorded_grant == event.grant
                leaves = event.claimed is ClaimedState.DRAINING
                if believed or not event.doubted:
                    client.turn = Turn(event.grant, now, revoked_at=now if leaves or not believed else None)
                    device.holders.append(client)
                if not believed and not leaves:
                    self.to_be_revoked[event.client] = event.grant
            case _:
                assert_never(event.claimed)
        if event.recorded_grant is not None:
            device.awaited.remove(event.recorded_grant)

    def _check_snapshot(self, snapshot: DeviceSnapshot, device: ModelDevice, now: float) -> None:
        assert (snapshot.total_bytes, snapshot.total_measured) == (device.total_bytes(), device.measured_bytes > 0)
        assert [shown.client for shown in snapshot.clients] == [client.number for client in device.clients]
        for shown, client in zip(snapshot.clients, device.clients, strict=True):
            expected = ShownState.WAITING if client in device.queue else ShownState.IDLE
            if client.turn:
                leaving = ShownState.LEAVING if client.turn.revoked_at is not None else ShownState.HOLDING
                expected = ShownState.UNRESPONSIVE if client.turn.reported else leaving
            assert shown.state is expected
            place = device.queue.index(client) + 1 if client in device.queue else None
            assert (shown.line and (shown.line.position, shown.line.length)) == (place and (place, len(device.queue)))
            assert shown.footprint_bytes == client.footprint_bytes
            assert (shown.pinned_bytes, shown.pinned_measured) == (client.pinned_bytes, client.measured)
            assert shown.grants == client.grants
            held = now - client.turn.began if client.turn else 0.0
            waited = now - client.asked_at if client in device.queue else 0.0
            assert (shown.held_seconds, shown.waited_seconds) == (
                client.held_seconds + held,
                client.waited_seconds + waited,
            )

    def _chosen(self, uuid: str | None) -> list[ModelDevice]:
        return list(self.devices.values()) if uuid is None else [self.devices[uuid]]

    def _find(self, number: int) -> tuple[ModelDevice, ModelClient]:
        for device in self.devices.values():
            for client in device.clients:
                if client.number == number:
                    return device, client
        raise AssertionError(f"client {client} is not there, or not any more")
