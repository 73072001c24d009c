"""The rules of the core, written a second time: slowly, over plain lists, so that they can be read off.

The oracle is told every event and every action. It knows nothing of the core's inside, and says what is wrong with an
action or with the state that the actions leave behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from nvshare.scheduler.core.actions import Action, Grant, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Event,
    FootprintChanged,
    LockReleased,
    LockRequested,
    PinnedMeasured,
    Policy,
    PolicySet,
    QuantumSet,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import DeviceSnapshot, ShownState


@dataclass(slots=True)
class Turn:
    """One grant in one client's hands."""

    grant: int
    began: float
    revoked_at: float | None = None
    reported: bool = False
    told: bool = False


@dataclass(slots=True)
class Member:
    """One client of a device."""

    number: int
    footprint_bytes: int | None
    pinned_bytes: int
    measured: bool = False
    turn: Turn | None = None
    asked_at: float = 0.0
    held_seconds: float = 0.0
    """In turns that are over."""
    waited_seconds: float = 0.0
    """In waits that are over."""
    grants: int = 0


@dataclass(slots=True)
class Place:
    """One device."""

    policy: Policy
    quantum_seconds: float
    total_bytes: int = 0
    foreign_bytes: int = 0
    members: list[Member] = field(default_factory=list)
    queue: list[Member] = field(default_factory=list)
    holders: list[Member] = field(default_factory=list)
    """In the order in which they began to hold."""

    def fit(self, holders: list[Member], *, assumed: bool = True) -> bool:
        """Whether these may hold together; without ``assumed`` only measured pinned memory counts."""
        if self.policy is Policy.OFF or len(holders) <= 1:
            return True
        if self.policy is Policy.EXCLUSIVE:
            return False
        footprints = [member.footprint_bytes for member in holders]
        pinned = [member.pinned_bytes for member in self.members if assumed or member.measured]
        known = [size for size in footprints if size is not None]
        return len(known) == len(footprints) and sum(known) + sum(pinned) <= self.total_bytes - self.foreign_bytes

    def staying(self) -> list[Member]:
        """The holders that were not asked to leave."""
        return [member for member in self.holders if member.turn and member.turn.revoked_at is None]

    def blocking(self) -> list[Member]:
        """The fewest holders, the longest ones first, without which the first waiter fits beside the others."""
        staying = self.staying()
        for count in range(len(staying) + 1):
            if not self.queue or self.fit([*staying[count:], self.queue[0]]):
                return staying[:count]
        raise AssertionError("a waiter does not fit alone")


class Oracle:
    """All devices; raises AssertionError at the first broken rule."""

    def __init__(self, settings: Settings, recovery_end: float | None) -> None:
        self.settings = settings
        self.policy = settings.policy
        self.quantum_seconds = settings.quantum_seconds
        self.recovery_end = recovery_end
        self.places: dict[str, Place] = {}
        self.last_grant = 0

    def saw(self, event: Event, now: float) -> None:
        """An event that the core accepted."""
        match event:
            case DeviceSeen(device, total_bytes, foreign_bytes):
                place = self.places.setdefault(device, Place(self.policy, self.quantum_seconds))
                place.total_bytes, place.foreign_bytes = total_bytes, foreign_bytes
            case ClientRegistered():
                self._registered(event, now)
            case LockRequested(client):
                place, member = self._find(client)
                assert member.turn is None
                assert member not in place.queue
                member.asked_at = now
                place.queue.append(member)
            case LockReleased(client, grant):
                place, member = self._find(client)
                if member.turn and member.turn.grant == grant:
                    member.held_seconds += now - member.turn.began
                    member.turn = None
                    place.holders.remove(member)
            case FootprintChanged(client, footprint_bytes):
                self._find(client)[1].footprint_bytes = footprint_bytes
            case PinnedMeasured(client, pinned_bytes):
                member = self._find(client)[1]
                member.pinned_bytes, member.measured = pinned_bytes, True
            case ClientGone(client):
                place, member = self._find(client)
                for members in (place.members, place.queue, place.holders):
                    if member in members:
                        members.remove(member)
            case PolicySet(policy, device):
                self.policy = policy if device is None else self.policy
                for place in self._chosen(device):
                    place.policy = policy
            case QuantumSet(seconds, device):
                self.quantum_seconds = seconds if device is None else self.quantum_seconds
                for place in self._chosen(device):
                    place.quantum_seconds = seconds
            case _:
                assert_never(event)

    def answered(self, actions: list[Action], now: float) -> None:
        """What the core answered to the last event or timer: every action must be allowed in its turn."""
        for action in actions:
            place, member = self._find(action.client)
            match action:
                case Grant(_, grant):
                    self._granted(place, member, grant, now)
                case Revoke(_, grant):
                    self._revoked(place, member, grant, now)
                case TellWaiters(_, waiters):
                    turn = member.turn
                    assert turn is not None
                    assert turn.revoked_at is None, "a holder that must leave anyway is told of waiters"
                    assert turn.told is not bool(waiters), "a holder is told what it knows"
                    assert waiters in (0, len(place.queue))
                    turn.told = bool(waiters)
                case ReportUnresponsive(_, grant, overdue_seconds):
                    turn = member.turn
                    assert turn is not None
                    assert turn.grant == grant
                    assert turn.revoked_at is not None
                    assert not turn.reported
                    assert overdue_seconds == now - turn.revoked_at
                    assert now >= turn.revoked_at + self.settings.grace_seconds
                    turn.reported = True
                case _:
                    assert_never(action)

    def check(self, now: float, deadline: float | None, seen: tuple[DeviceSnapshot, ...]) -> None:
        """The rules that hold between events, for what the core shows and for when it wants to be woken."""
        due = [] if self.recovery_end is None or now >= self.recovery_end else [self.recovery_end]
        for place in self.places.values():
            due += self._check_place(place, now)
        if self.recovery_end is None or now < self.recovery_end:
            assert deadline == min(due, default=None)
        assert [view.device for view in seen] == list(self.places)
        for view in seen:
            self._check_snapshot(view, self.places[view.device], now)

    def _check_place(self, place: Place, now: float) -> list[float]:
        staying, blocking = place.staying(), place.blocking()
        assert place.fit(staying, assumed=False), "holders that do not fit together stay"
        told = [member for member in place.holders if member.turn and member.turn.told and not member.turn.revoked_at]
        due = [
            member.turn.revoked_at + self.settings.grace_seconds
            for member in place.holders
            if member.turn and member.turn.revoked_at is not None and not member.turn.reported
        ]
        if self._recovering(now):
            assert not told, "somebody is told of waiters that can't be granted yet"
            return due
        assert told == blocking, "the blocking holders are not those that know it"
        if place.queue:
            assert not place.fit([*place.holders, place.queue[0]]), "the first waiter fits and waits"
        if blocking:
            turn = blocking[-1].turn
            assert turn is not None
            due.append(turn.began + place.quantum_seconds)
        assert all(now < moment for moment in due), "something was due and was not done"
        return due

    def _granted(self, place: Place, member: Member, grant: int, now: float) -> None:
        assert not self._recovering(now), "a grant while recovering"
        assert place.queue, "a grant to somebody who does not wait"
        assert place.queue.pop(0) is member, "a waiter was overtaken"
        assert place.fit([*place.holders, member]), "a grant to a client that does not fit"
        assert grant > self.last_grant, "a grant's number came twice"
        self.last_grant = grant
        member.turn = Turn(grant, now)
        member.waited_seconds += now - member.asked_at
        member.grants += 1
        place.holders.append(member)

    def _revoked(self, place: Place, member: Member, grant: int, now: float) -> None:
        turn = member.turn
        assert turn is not None
        assert turn.grant == grant
        assert turn.revoked_at is None, "a grant was revoked twice"
        staying = place.staying()
        if place.fit(staying, assumed=False):
            assert member in place.blocking(), "a holder was revoked though that helps nobody"
            assert now >= turn.began + place.quantum_seconds, "a holder was revoked before its quantum ended"
        else:
            assert member is staying[-1], "not the most recent holder was revoked"
        turn.revoked_at = now

    def _registered(self, event: ClientRegistered, now: float) -> None:
        place = self.places[event.device]
        member = Member(event.client, event.footprint_bytes, self.settings.assumed_pinned_bytes)
        place.members.append(member)
        match event.claimed:
            case ClaimedState.IDLE:
                pass
            case ClaimedState.WAITING:
                member.asked_at = now
                place.queue.append(member)
            case ClaimedState.HOLDING:
                member.turn = Turn(event.grant, now)
                place.holders.append(member)
                self.last_grant = max(self.last_grant, event.grant)
            case _:
                assert_never(event.claimed)

    def _check_snapshot(self, view: DeviceSnapshot, place: Place, now: float) -> None:
        assert [client.client for client in view.clients] == [member.number for member in place.members]
        for client, member in zip(view.clients, place.members, strict=True):
            expected = ShownState.WAITING if member in place.queue else ShownState.IDLE
            if member.turn:
                expected = ShownState.UNRESPONSIVE if member.turn.reported else ShownState.HOLDING
            assert client.state is expected
            assert client.footprint_bytes == member.footprint_bytes
            assert (client.pinned_bytes, client.pinned_measured) == (member.pinned_bytes, member.measured)
            assert client.grants == member.grants
            held = now - member.turn.began if member.turn else 0.0
            waited = now - member.asked_at if member in place.queue else 0.0
            assert (client.held_seconds, client.waited_seconds) == (
                member.held_seconds + held,
                member.waited_seconds + waited,
            )

    def _recovering(self, now: float) -> bool:
        return self.recovery_end is not None and now < self.recovery_end

    def _chosen(self, device: str | None) -> list[Place]:
        return list(self.places.values()) if device is None else [self.places[device]]

    def _find(self, client: int) -> tuple[Place, Member]:
        for place in self.places.values():
            for member in place.members:
                if member.number == client:
                    return place, member
        raise AssertionError(f"client {client} is not there, or not any more")
