"""The rules of the core, written a second time: slowly, over plain lists, so that they can be read off.

The oracle is told every event and every action. It knows nothing of the core's inside, and says what is wrong with an
action or with the state that the actions leave behind.
"""

from __future__ import annotations

from typing import assert_never

from nvshare.scheduler.core.actions import Action, Grant, Kill, ReportUnresponsive, Revoke, TellWaiters
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
    PolicySet,
    QuantumSet,
)
from nvshare.scheduler.core.lock.blocking import GIVE_WAY_SECONDS
from nvshare.scheduler.core.lock.stuck import PATIENCE_SHARE
from nvshare.scheduler.core.records.gang import REJOIN_SECONDS
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.snapshot import DeviceSnapshot, ShownState
from tests.scheduler.core.oracle_device import ModelClient, ModelDevice, Turn


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
            case DeviceSeen() | DeviceForgotten() | PolicySet() | QuantumSet():
                self._saw_of_devices(event)
            case HolderRecorded(uuid, grant):
                self.devices[uuid].awaited.add(grant)
                self.last_grant = max(self.last_grant, grant)
            case HolderDied(grant):
                for device in self.devices.values():
                    device.awaited.discard(grant)
            case ClientRegistered():
                self._registered(event, now)
            case LockRequested() | LockReleased() | ClientGone():
                self._saw_of_lock(event, now)
            case FootprintChanged(number, footprint_bytes):
                self._find(number)[1].footprint_bytes = footprint_bytes
            case PinnedMeasured(number, pinned_bytes):
                client = self._find(number)[1]
                client.pinned_bytes, client.measured = pinned_bytes, True
            case PinnedAssumed(number, pinned_bytes):
                client = self._find(number)[1]
                client.pinned_bytes, client.measured = pinned_bytes, False
            case _:
                raise AssertionError(f"{event} though nothing swaps")

    def _saw_of_devices(self, event: DeviceSeen | DeviceForgotten | PolicySet | QuantumSet) -> None:
        match event:
            case DeviceSeen(uuid, total_bytes, foreign_bytes):
                device = self.devices.setdefault(uuid, ModelDevice(self.policy, self.quantum_seconds))
                device.measured_bytes, device.foreign_bytes = total_bytes, foreign_bytes
            case DeviceForgotten(uuid):
                forgotten = self.devices.pop(uuid)
                assert not forgotten.clients
                assert not forgotten.awaited
            case PolicySet(policy, uuid):
                self.policy = policy if uuid is None else self.policy
                for device in self._chosen(uuid):
                    device.policy = policy
            case QuantumSet(seconds, uuid):
                self.quantum_seconds = seconds if uuid is None else self.quantum_seconds
                for device in self._chosen(uuid):
                    device.quantum_seconds = seconds

    def _saw_of_lock(self, event: LockRequested | LockReleased | ClientGone, now: float) -> None:
        device, client = self._find(event.client)
        match event:
            case LockRequested():
                assert client.turn is None
                assert client not in device.queue
                client.asked_at = now
                device.queue.append(client)
                if not client.measured and client.pinned_bytes == 0:
                    client.pinned_bytes = self.settings.assumed_pinned_bytes
            case LockReleased(_, grant):
                if client.turn and client.turn.grant == grant:
                    client.held_seconds += now - client.turn.began
                    client.turn = None
                    device.holders.remove(client)
            case ClientGone():
                for clients in (device.clients, device.queue, device.holders):
                    if client in clients:
                        clients.remove(client)

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
                case TellWaiters(_, waiters, idle_seconds):
                    assert idle_seconds == (GIVE_WAY_SECONDS if waiters else 0.0)
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
                    raise AssertionError(f"{action} though nothing swaps")

    def check(self, now: float, deadline: float | None, seen: tuple[DeviceSnapshot, ...]) -> None:
        """The rules that hold between events, for what the core shows and for when it wants to be woken."""
        assert not self.to_be_revoked, "a client that is not believed may go on"
        due = [moment for device in self.devices.values() for moment in self._check_device(device, now)]
        if deadline is not None and deadline in self._patience_ends(now):
            due.append(deadline)
        assert deadline == min(due, default=None)
        assert [snapshot.device for snapshot in seen] == list(self.devices)
        for snapshot in seen:
            assert snapshot.recovering is bool(self.devices[snapshot.device].awaited)
            self._check_snapshot(snapshot, self.devices[snapshot.device], now)

    def _patience_ends(self, now: float) -> set[float]:
        """When those that wait may stop to wait for unresponsive holders: which of them do, goes by who fits beside."""
        turns = [
            (client.turn.revoked_at, waiter.asked_at)
            for device in self.devices.values()
            for client in device.holders
            for waiter in device.queue
            if client.turn and client.turn.revoked_at is not None and client.turn.reported
        ]
        grace = self.settings.grace_seconds
        ends = {revoked_at + max(grace, PATIENCE_SHARE * (revoked_at - asked_at)) for revoked_at, asked_at in turns}
        return {end for end in ends if end > now}

    def _check_device(self, device: ModelDevice, now: float) -> list[float]:
        blocking = device.blocking()
        rejoins = now < device.rejoin_end
        assert rejoins or not device.outgrown(device.slack()), "holders that do not fit together stay"
        told = [client for client in device.holders if client.turn and client.turn.told and not client.turn.revoked_at]
        due = [
            client.turn.revoked_at + self.settings.grace_seconds
            for client in device.holders
            if client.turn and client.turn.revoked_at is not None and not client.turn.reported
        ]
        due += [device.rejoin_end] if rejoins else []
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
        if too_many and now >= device.rejoin_end:
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
                if believed and not leaves and device.holders:
                    device.rejoin_end = now + REJOIN_SECONDS
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
        raise AssertionError(f"client {number} is not there, or not any more")
