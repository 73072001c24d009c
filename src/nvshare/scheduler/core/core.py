"""The scheduler's core: told what happened and what time it is, it answers what to do and when to ask again.

No I/O, no clock, no randomness: the same events at the same times give the same actions. Times are seconds of one
monotonic clock and never go back from one call to the next.
"""

from __future__ import annotations

from typing import assert_never

from nvshare.scheduler.core.absent import Absent
from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.client import Client, LostTurn
from nvshare.scheduler.core.client_events import SwapEvent, check, disbelieve, handle_swap, release
from nvshare.scheduler.core.containers import Container, Containers
from nvshare.scheduler.core.device import Device, step_in, step_out
from nvshare.scheduler.core.ends import Ends
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ArenaGrown,
    Backend,
    ClaimedState,
    ClientGone,
    ClientIdle,
    ClientRegistered,
    ContainerFound,
    DeviceForgotten,
    DeviceSeen,
    Event,
    FootprintChanged,
    GangEvent,
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
from nvshare.scheduler.core.gangs.gangs import Gangs
from nvshare.scheduler.core.memory.arenas import Host
from nvshare.scheduler.core.memory.ledger import Account
from nvshare.scheduler.core.memory.swap import Swap
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, HostMemory
from nvshare.scheduler.core.terms import Terms
from nvshare.scheduler.core.transitions import INITIAL, Step

ClientEvent = (
    LockRequested
    | LockReleased
    | FootprintChanged
    | PinnedMeasured
    | PinnedAssumed
    | SwapEvent
    | ContainerFound
    | ProgressOffered
    | ProgressReported
    | GangEvent
    | ClientGone
)


class Core:
    """All devices and clients of one scheduler."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._policy = settings.policy
        self._quantum_seconds = settings.quantum_seconds
        self._devices: dict[str, Device] = {}
        self._clients: dict[int, tuple[Client, Device]] = {}
        self._deadlines: dict[str, float] = {}
        self._host = Host(settings.host_bytes)
        self._absent = Absent(self._host)
        self._containers = Containers()
        self._gangs = Gangs(self._clients)
        self._ends = Ends(self._clients, self._host)
        self._last_grant = self._last_ticket = 0

    def handle(self, event: Event, now: float) -> list[Action]:
        """What to do about an event, in this order.

        Raises IllegalEvent, with nothing changed, if the state does not allow it.
        """
        match event:
            case ClientRegistered():
                return self._register(event, now)
            case HolderRecorded():
                return self._record(event, now)
            case HolderDied():
                device = self._absent.holder_died(event)
                self._gangs.await_holders(self._absent.holders, now)
                return self._reconcile(device, now)
            case DeviceSeen():
                return self._see_device(event, now)
            case DeviceForgotten():
                return self._forget_device(event, now)
            case PolicySet() | QuantumSet():
                return self._set(event, now)
            case ResidentRecorded() | ResidentSettled():
                return self._await_resident(event, now)
            case HostMemorySet():
                self._host.budget_bytes = event.host_bytes
                return self._reconcile_each(list(self._devices.values()), now)
            case MemoryFreed():
                return self._free(event, now)
            case TermsSet():
                return self._set_terms(event, now)
            case _:
                return self._handle_client(event, now)

    def deadline(self) -> float | None:
        """When ``handle_timer`` wants to be called if nothing happens before; None: not until something happens."""
        return min(self._deadlines.values(), default=None)

    def handle_timer(self, now: float) -> list[Action]:
        """What to do because it is ``now``, in the order in which the devices were first seen.

        Nothing if that is before the deadline.
        """
        devices = self._devices.values()
        due = [device for device in devices if device.deadline is not None and now >= device.deadline]
        return self._reconcile_each(due, now)

    def snapshot(self, now: float) -> tuple[DeviceSnapshot, ...]:
        """Every device at ``now``, in the order in which they were first seen."""
        return tuple(device.snapshot(now) for device in self._devices.values())

    @property
    def unsettled(self) -> int:
        """How often its rules did not agree on what to do, a fault of theirs: it is done a moment later then."""
        return self._gangs.unsettled

    def host_memory(self) -> HostMemory:
        """The host memory of all clients' arenas."""
        return self._host.snapshot()

    def client(self, client: int, now: float) -> ClientSnapshot:
        """A registered client at ``now``."""
        known, device = self._clients[client]
        return known.snapshot(now, device.line(known, now), self._gangs.wait(known))

    def client_apart(self, client: int, now: float) -> ClientSnapshot:
        """The same without its place in the line, at a cost that does not grow with the line."""
        known, _device = self._clients[client]
        return known.snapshot(now)

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

    def _handle_client(self, event: ClientEvent, now: float) -> list[Action]:
        found = self._clients.get(event.client)
        if found is None:
            raise IllegalEvent(f"client {event.client} is unknown", event)
        client, device = found
        match event:
            case LockRequested() if client.summoned:
                client.advance(Step.REQUESTED_AGAIN)
                client.summoned = False
                return []
            case LockRequested():
                check(client, Step.REQUESTED, event)
                if not client.stay.keeps or not client.stay.resumes(client.since, now):
                    client.ticket = self._new_ticket()
                device.request(client, now)
                self._gangs.asks(client, device, now)
            case LockReleased():
                if not release(client, device, event, now):
                    return []
            case FootprintChanged():
                if client.swap is not None:
                    raise IllegalEvent(f"client {event.client} swaps", event)
                device.resize(client, event.footprint_bytes)
            case PinnedMeasured():
                device.pin(client, event.pinned_bytes, now, measured=True)
            case PinnedAssumed():
                device.pin(client, event.pinned_bytes, now, measured=False)
            case GrowthRequested() | ResidencyReported() | ArenaGrown():
                handle_swap(event, client, device, now)
            case ContainerFound():
                return self._enter(client, event, now)
            case ProgressOffered() | ProgressReported():
                device.lock.mix.handle(event, client, now)
            case GangJoined() | GangLeft():
                self._gangs.handle(event, client, device, now)
            case ClientIdle():
                if not self._gangs.idles(client, now):
                    return []
            case ClientGone():
                self._gangs.gone(client, device, now)
                device.remove(client, now)
                del self._clients[event.client]
                self._containers.leave(event.client, client.container)
                self._absent.gone(event.client, device)
            case _:
                assert_never(event)
        return self._reconcile(device, now)

    def _register(self, event: ClientRegistered, now: float) -> list[Action]:
        device = self._known(event.device, event)
        if event.client in self._clients:
            raise IllegalEvent(f"client {event.client} is already registered", event)
        turn: LostTurn | None = None
        if event.recorded_grant is not None:
            turn = self._absent.holder_is_back(event.recorded_grant, device, event)
            self._gangs.await_holders(self._absent.holders, now)
        account = Account(event.backend, event.footprint_bytes, 0, claimed_total_bytes=event.device_bytes)
        account.pinned_bytes = device.ledger.assumed_pinned_bytes(account, self._settings.assumed_pinned_bytes)
        account.split()
        client = Client(
            number=event.client,
            account=account,
            container=self._containers.enter(event.client, "", Terms()),
            state=INITIAL[event.claimed],
            since=now,
            ticket=self._new_ticket(),
        )
        actions: list[Action] = []
        if event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING):
            client.grant, client.revoked_at = event.grant, now
            if event.grant != event.recorded_grant:
                disbelieve(client, event, actions)
            elif turn is not None:
                client.resume(turn, now)
        if event.backend is Backend.SWAP:
            footprint = event.footprint_bytes or 0
            client.swap = Swap(event.client, client.account, footprint, footprint, footprint, progress_at=now)
            client.swap.context_at = now
            client.swap.has_context = footprint > 0 or event.claimed is not ClaimedState.IDLE
        self._clients[event.client] = client, device
        device.add(client, revokes=len(actions))
        return actions + self._reconcile(device, now)

    def _record(self, event: HolderRecorded, now: float) -> list[Action]:
        device = self._known(event.device, event)
        lost = (each for each, on in self._clients.values() if on is device and each.holds)
        client = next((each for each in lost if each.grant == event.grant), None)
        self._absent.record_holder(event, device, None if client is None else client.lose())
        self._gangs.await_holders(self._absent.holders, now, event.grant)
        self._last_grant = max(self._last_grant, event.grant)
        return self._reconcile(device, now)

    def _await_resident(self, event: ResidentRecorded | ResidentSettled, now: float) -> list[Action]:
        match event:
            case ResidentRecorded():
                device = self._known(event.device, event)
                self._absent.record_resident(event, device)
            case ResidentSettled():
                device = self._absent.resident_settled(event)
            case _:
                assert_never(event)
        # Clients of any device may wait for host memory.
        return self._reconcile_each([device] if self._host.awaited else list(self._devices.values()), now)

    def _free(self, event: MemoryFreed, now: float) -> list[Action]:
        used_bytes = self._host.used_bytes
        device = self._absent.freed(event.client)
        if device is None:
            return []
        # Clients of any device may wait for the host memory.
        freed = used_bytes != self._host.used_bytes
        return self._reconcile_each(list(self._devices.values()) if freed else [device], now)

    def _see_device(self, event: DeviceSeen, now: float) -> list[Action]:
        device = self._devices.get(event.device)
        if device is None:
            device = Device(event.device, self._policy, self._quantum_seconds, self._settings, self._host, self._ends)
            self._devices[event.device] = device
        device.ledger.measure_device(event.total_bytes, event.foreign_bytes)
        return self._reconcile(device, now)

    def _forget_device(self, event: DeviceForgotten, now: float) -> list[Action]:
        if self._known(event.device, event).in_use:
            raise IllegalEvent(f"device {event.device} is in use", event)
        self._devices.pop(event.device).residency.estates.free_all()
        self._deadlines.pop(event.device, None)
        return self._reconcile_each([each for each in self._devices.values() if each.residency.clients], now)

    def _set(self, event: PolicySet | QuantumSet, now: float) -> list[Action]:
        chosen = list(self._devices.values()) if event.device is None else [self._known(event.device, event)]
        match event:
            case PolicySet():
                if event.device is None:
                    self._policy = event.policy
                for device in chosen:
                    device.lock.policy = event.policy
            case QuantumSet():
                if not 0 < event.seconds < float("inf"):
                    raise IllegalEvent("a quantum is a positive number of seconds", event)
                if event.device is None:
                    self._quantum_seconds = event.seconds
                for device in chosen:
                    device.lock.quantum_seconds = event.seconds
            case _:
                assert_never(event)
        return self._reconcile_each(chosen, now)

    def _enter(self, client: Client, event: ContainerFound, now: float) -> list[Action]:
        known = self._containers.find(event.container)
        members = self._step_out({client.number} if known is None else {client.number} | known.clients, now)
        self._containers.leave(client.number, client.container)
        client.container = self._containers.enter(client.number, event.container, event.terms)
        step_in(members, now)
        return self._reconcile_members(client.container, now)

    def _set_terms(self, event: TermsSet, now: float) -> list[Action]:
        container = self._containers.find(event.container)
        if container is None:
            raise IllegalEvent(f"container {event.container!r} has no clients", event)
        members = self._step_out(container.clients, now)
        container.terms = event.terms
        step_in(members, now)
        return self._reconcile_members(container, now)

    def _step_out(self, numbers: set[int], now: float) -> list[tuple[Client, Device]]:
        """For clients whose container or terms are about to change; ``step_in`` when they have."""
        return step_out([self._clients[number] for number in sorted(numbers)], now)

    def _reconcile_members(self, container: Container, now: float) -> list[Action]:
        used = set()
        for number in container.clients:
            client, device = self._clients[number]
            device.limits.update(client)
            device.requests.update(client)
            used.add(device.uuid)
        return self._reconcile_each([device for uuid, device in self._devices.items() if uuid in used], now)

    def _known(self, uuid: str, event: Event) -> Device:
        device = self._devices.get(uuid)
        if device is None:
            raise IllegalEvent(f"device {uuid} is unknown", event)
        return device

    def _reconcile_each(self, devices: list[Device], now: float) -> list[Action]:
        return [action for device in devices for action in self._reconcile(device, now)]

    def _reconcile(self, device: Device, now: float) -> list[Action]:
        if self._gangs.touch(device, now):
            actions: list[Action] = []
            for each in self._gangs.reconcile(device, now, self._new_grant, actions):
                self._keep_deadline(each)
            return actions
        actions = device.reconcile(now, self._new_grant)
        self._keep_deadline(device)
        return actions

    def _keep_deadline(self, device: Device) -> None:
        if device.deadline is None:
            self._deadlines.pop(device.uuid, None)
        else:
            self._deadlines[device.uuid] = device.deadline

    def _new_grant(self) -> int:
        self._last_grant += 1
        return self._last_grant

    def _new_ticket(self) -> int:
        self._last_ticket += 1
        return self._last_ticket
