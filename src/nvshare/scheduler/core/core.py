"""The scheduler's core: told what happened and what time it is, it answers what to do and when to ask again.

No I/O, no clock, no randomness: the same events at the same times give the same actions. Times are seconds of one
monotonic clock and never go back from one call to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, get_args

from nvshare.scheduler.core.absent import Absent
from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.client_events import check, disbelieve, handle_swap, pin, progress, release, resize
from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.ends import Ends
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ArenaGrown,
    ClaimedState,
    ClientGone,
    ClientIdle,
    ClientRegistered,
    ContainerFound,
    DeviceForgotten,
    DeviceSeen,
    Event,
    FootprintChanged,
    GangJoined,
    GangLeft,
    GrowthRequested,
    HolderDied,
    HolderRecorded,
    HostMemorySet,
    LockReleased,
    LockRequested,
    MemoryFreed,
    PinnedAssumed,
    PinnedMeasured,
    Policy,
    PolicySet,
    ProgressOffered,
    ProgressReported,
    QuantumSet,
    ResidencyReported,
    ResidentRecorded,
    ResidentSettled,
    TermsSet,
)
from nvshare.scheduler.core.gangs.gangs import AGAIN_SECONDS, MOST_ROUNDS, Gangs
from nvshare.scheduler.core.records.client import Client, LostTurn
from nvshare.scheduler.core.records.containers import Container, Containers
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.shown import show
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.sleep.sleepers import Sleepers
from nvshare.scheduler.core.sleep.sleeping import Sleeping
from nvshare.scheduler.core.sleep_events import OwnerFound, SleepEvent, SleepOffered, StoreEvent
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, HostMemory
from nvshare.scheduler.core.terms import UNSET
from nvshare.scheduler.core.transitions import INITIAL, Step


class Core:
    """All devices and clients of one scheduler."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._policy, self._quantum_seconds = settings.policy, settings.quantum_seconds
        self._devices: dict[str, Device] = {}
        self._clients = Clients()
        self._host = Host(settings.host_bytes, file_budget_bytes=settings.file_bytes)
        self._absent = Absent(self._devices, self._host)
        self._containers, self._gangs = Containers(), Gangs(self._clients)
        self._ends = Ends(self._clients, self._host)
        self._last_grant, self._new_ticket = 0, count(1).__next__
        self._sleeping = sleeping = Sleeping(self._clients, self._host, settings.sleep_after_seconds, self._new_ticket)
        self._changed: dict[str, Device] = {}
        """Devices of which something was recorded since the last plan, in that order."""
        self._actions: list[Action] = []
        """What is to be done whatever the plan says."""
        self._recorders: dict[type[Event], Callable[[Any, float], None]] = {
            ClientRegistered: self._register,
            HolderRecorded: self._record_holder,
            HolderDied: self._holder_died,
            DeviceSeen: self._see_device,
            DeviceForgotten: self._forget_device,
            PolicySet: self._set_policy,
            QuantumSet: self._set_quantum,
            ResidentRecorded: self._await_resident,
            ResidentSettled: self._resident_settled,
            HostMemorySet: self._set_host_memory,
            MemoryFreed: self._free,
            TermsSet: self._set_terms,
            **dict.fromkeys(get_args(SleepEvent), lambda event, now: self._mark(*sleeping.handle(event, now))),
            **dict.fromkeys(get_args(StoreEvent), lambda event, now: self._mark(*sleeping.storing.handle(event, now))),
        }
        self._client_recorders: dict[type[Event], Callable[[Any, Client, Device, float], bool]] = {
            LockRequested: self._request,
            LockReleased: release,
            FootprintChanged: resize,
            PinnedMeasured: pin,
            PinnedAssumed: pin,
            GrowthRequested: handle_swap,
            ResidencyReported: handle_swap,
            ArenaGrown: handle_swap,
            ContainerFound: self._enter,
            ProgressOffered: progress,
            ProgressReported: progress,
            GangJoined: self._gangs.handle,
            GangLeft: self._gangs.handle,
            ClientIdle: self._gangs.idles,
            SleepOffered: self._offer_sleep,
            OwnerFound: self._sleeping.storing.sharing.own,
            ClientGone: self._gone,
        }

    def handle(self, event: Event, now: float) -> list[Action]:
        """Records an event, and returns what to do about it, in this order. Raises as ``record`` does."""
        self.record(event, now)
        return self.plan(now)

    def record(self, event: Event, now: float) -> None:
        """Takes note of what happened; ``plan`` says what to do about it, and about all that was recorded before that.

        Raises IllegalEvent, with nothing changed, if the state does not allow it.
        """
        recorder = self._recorders.get(type(event))
        if recorder is not None:
            recorder(event, now)
            return
        number: int = event.client  # type: ignore[union-attr]
        if number not in self._clients:
            raise IllegalEvent(f"client {number} is unknown", event)
        client, device = self._clients[number]
        if self._client_recorders[type(event)](event, client, device, now):
            self._changed[device.uuid] = device

    def plan(self, now: float) -> list[Action]:
        """What to do about all that was recorded since the last plan, in this order."""
        actions, self._actions = self._actions, []
        for _ in range(MOST_ROUNDS):
            if self._settle(now, actions):
                return actions
        self._gangs.note_unsettled()
        for device in self._changed.values():
            device.wake_at(now + AGAIN_SECONDS)
        return actions

    def deadline(self) -> float | None:
        """When ``handle_timer`` wants to be called if nothing happens before; None: not until something happens."""
        first = self._sleeping.deadline
        for device in self._devices.values():
            if first is None or (device.deadline is not None and device.deadline < first):
                first = device.deadline
        return first

    def handle_timer(self, now: float) -> list[Action]:
        """What to do because it is ``now``, in the order in which the devices were first seen.

        Nothing if that is before the deadline.
        """
        for device in self._devices.values():
            if device.deadline is not None and now >= device.deadline:
                self._changed[device.uuid] = device
        return self.plan(now)

    def snapshot(self, now: float) -> tuple[DeviceSnapshot, ...]:
        """Every device at ``now``, in the order in which they were first seen."""
        return tuple(device.snapshot(now) for device in self._devices.values())

    @property
    def unsettled(self) -> int:
        """How often its rules did not agree on what to do, a fault of theirs: it is done a moment later then."""
        return self._gangs.unsettled

    def host_memory(self) -> HostMemory:
        """The host memory of all clients' arenas."""
        return self._sleeping.storing.sharing.host_memory()

    def client(self, client: int, now: float) -> ClientSnapshot:
        """A registered client at ``now``."""
        known, device = self._clients[client]
        return show(known, now, device.line(known, now), self._gangs.wait(known))

    def client_apart(self, client: int, now: float) -> ClientSnapshot:
        """The same without its place in the line, at a cost that does not grow with the line."""
        return show(self._clients[client][0], now)

    def devices(self) -> tuple[str, ...]:
        """Every device seen so far, in the order in which they were first seen."""
        return tuple(self._devices)

    def is_measured(self, device: str) -> bool | None:
        """Whether the memory of a device was measured; None: the device was not seen yet."""
        seen = self._devices.get(device)
        return None if seen is None else seen.ledger.total_measured

    def policy(self, device: str) -> Policy:
        """The policy of a device; of one that was not seen yet, the policy that it will have."""
        seen = self._devices.get(device)
        return self._policy if seen is None else seen.lock.policy

    def policies(self) -> dict[str | None, Policy]:
        """The policy of every device, after that of later ones (None)."""
        return {None: self._policy} | {uuid: device.lock.policy for uuid, device in self._devices.items()}

    # What happened to a client: whether there may be something to do on its device.

    def _request(self, event: LockRequested, client: Client, device: Device, now: float) -> bool:
        if client.summoned:
            client.ask_as_well()
            return False
        if client.asks_in_vain:
            return False
        check(client, Step.REQUESTED, event)
        if not client.resumes(now):
            client.line_up(self._new_ticket())
        device.request(client, now)
        self._gangs.asks(client, device, now)
        return True

    def _gone(self, event: ClientGone, client: Client, device: Device, now: float) -> bool:
        self._gangs.gone(client, device, now)
        self._mark(*self._sleeping.gone(client, device))
        device.remove(client, now)
        del self._clients[event.client]
        self._containers.leave(event.client, client.container)
        return True

    def _enter(self, event: ContainerFound, client: Client, device: Device, now: float) -> bool:
        device.lock.turns.leave(client, now)
        self._containers.leave(client.number, client.container)
        client.enter(self._containers.enter(client.number, event.container, event.terms))
        device.lock.turns.enter(client, now)
        self._members_changed(client.container, now)
        return False

    def _offer_sleep(self, event: SleepOffered, client: Client, device: Device, now: float) -> bool:
        self._mark(*self._sleeping.offer(event, client, device, now))
        return False

    # What else happened.

    def _register(self, event: ClientRegistered, now: float) -> None:
        device = self._known(event.device, event)
        if event.client in self._clients:
            raise IllegalEvent(f"client {event.client} is already registered", event)
        turn: LostTurn | None = None
        if event.recorded_grant is not None:
            turn = self._absent.holder_is_back(event.recorded_grant, device, event)
            self._gangs.await_holders(self._absent.holders, now)
        client = Client(
            number=event.client,
            memory=device.memory_of(event, now),
            container=self._containers.enter(event.client, "", UNSET),
            state=INITIAL[event.claimed],
            since=now,
            ticket=self._new_ticket(),
        )
        revokes: list[Action] = []
        if event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING):
            client.claim(event.grant, now)
            if event.grant != event.recorded_grant:
                revokes = disbelieve(client, event)
            elif turn is not None:
                client.resume(turn, now)
        self._clients[event.client] = client, device
        device.add(client, len(revokes), now)
        self._actions += revokes
        self._mark(device)

    def _record_holder(self, event: HolderRecorded, now: float) -> None:
        device = self._known(event.device, event)
        lost = (each for each, on in self._clients.values() if on is device and each.holds)
        client = next((each for each in lost if each.grant == event.grant), None)
        self._absent.record_holder(event, device, None if client is None else client.lose())
        self._gangs.await_holders(self._absent.holders, now, event.grant)
        self._last_grant = max(self._last_grant, event.grant)
        self._mark(device)

    def _holder_died(self, event: HolderDied, now: float) -> None:
        device = self._absent.holder_died(event)
        self._gangs.await_holders(self._absent.holders, now)
        self._mark(device)

    def _await_resident(self, event: ResidentRecorded, _now: float) -> None:
        device = self._known(event.device, event)
        self._absent.record_resident(event, device)
        self._mark(device)

    def _resident_settled(self, event: ResidentSettled, _now: float) -> None:
        device = self._absent.resident_settled(event)
        # Clients of any device may wait for host memory.
        self._mark(*([device] if self._host.awaited else self._devices.values()))

    def _free(self, event: MemoryFreed, _now: float) -> None:
        for device in self._devices.values():
            estate = device.residency.estates.free(event.client)
            if estate is not None:
                self._mark(*(self._devices.values() if estate.memory.taken_bytes else [device]))

    def _see_device(self, event: DeviceSeen, _now: float) -> None:
        device = self._devices.get(event.device)
        if device is None:
            given = self._settings, self._host, self._ends, Sleepers(self._sleeping, event.device)
            device = self._devices[event.device] = Device(event.device, self._policy, self._quantum_seconds, *given)
        device.measure(event)
        self._mark(device)

    def _forget_device(self, event: DeviceForgotten, _now: float) -> None:
        if self._known(event.device, event).in_use:
            raise IllegalEvent(f"device {event.device} is in use", event)
        self._devices.pop(event.device).residency.estates.free_all()
        self._changed.pop(event.device, None)
        self._mark(*(each for each in self._devices.values() if each.residency.clients))

    def _set_policy(self, event: PolicySet, _now: float) -> None:
        chosen = self._chosen(event)
        if event.device is None:
            self._policy = event.policy
        for device in chosen:
            device.lock.follow(event.policy)
        self._mark(*chosen)

    def _set_quantum(self, event: QuantumSet, _now: float) -> None:
        chosen = self._chosen(event)
        if not 0 < event.seconds < float("inf"):
            raise IllegalEvent("a quantum is a positive number of seconds", event)
        if event.device is None:
            self._quantum_seconds = event.seconds
        for device in chosen:
            device.lock.set_quantum(event.seconds)
        self._mark(*chosen)

    def _set_host_memory(self, event: HostMemorySet, _now: float) -> None:
        self._host.limit(event.host_bytes)
        self._mark(*self._devices.values())

    def _set_terms(self, event: TermsSet, now: float) -> None:
        container = self._containers.find(event.container)
        if container is None:
            raise IllegalEvent(f"container {event.container!r} has no clients", event)
        container.set_terms(event.terms)
        self._members_changed(container, now)

    # The rest is its own.

    def _chosen(self, event: PolicySet | QuantumSet) -> list[Device]:
        return list(self._devices.values()) if event.device is None else [self._known(event.device, event)]

    def _mark(self, *devices: Device) -> None:
        """There may be something to do on these."""
        self._changed.update((device.uuid, device) for device in devices)

    def _members_changed(self, container: Container, now: float) -> None:
        """There are other clients in a container, or it has other terms."""
        used: set[Device] = set()
        for device in dict.fromkeys(self._clients.devices_of(container.clients)):
            device.lock.turns.renew(container, now)
        for client, device in self._clients.members(container.clients):
            device.lock.turns.reclass(client)
            device.limits.update(client)
            device.requests.update(client)
            used |= {device, *self._sleeping.look_again(client, now)}
        self._mark(*(device for device in self._devices.values() if device in used))

    def _known(self, uuid: str, event: Event) -> Device:
        device = self._devices.get(uuid)
        if device is None:
            raise IllegalEvent(f"device {uuid} is unknown", event)
        return device

    def _settle(self, now: float, actions: list[Action]) -> bool:
        """Does what follows from all that has changed; whether nothing more has changed by that."""
        changed, self._changed = self._changed, {}
        planned: dict[str, Device] = {}
        for device in changed.values():
            if device.uuid in planned:
                continue
            if self._gangs.touch(device, now):
                together = self._gangs.reconcile(device, now, self._new_grant, actions)
                planned.update((each.uuid, each) for each in together)
            else:
                planned[device.uuid] = device
                actions += device.reconcile(now, self._new_grant)
        if self._sleeping.is_possible:
            more, touched = self._sleeping.plan(planned.values(), now)
            actions += more
            self._mark(*touched)
        lacking = [each for each in self._devices.values() if each.residency.admission.lacks_host_memory]
        if lacking and self._host.grew():
            self._mark(*lacking)
        return not self._changed

    def _new_grant(self) -> int:
        self._last_grant += 1
        return self._last_grant
