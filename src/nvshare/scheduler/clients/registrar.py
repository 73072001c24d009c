"""Where a connection becomes a client: which device it means, who it is, and that it registers in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from nvshare.device_uuid import device_bytes
from nvshare.log import Log
from nvshare.protocol import legacy
from nvshare.scheduler.clients.awaited_claims import AwaitedClaims
from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.clients.deadlines import Deadlines
from nvshare.scheduler.clients.descriptions import Descriptions
from nvshare.scheduler.clients.faults import ComeAgainError, Fault, PeerError
from nvshare.scheduler.clients.registration import Registration
from nvshare.scheduler.clients.room import NoPlaceError, Room
from nvshare.scheduler.clients.sent_away import SentAway
from nvshare.scheduler.clients.strangers import Strangers
from nvshare.scheduler.clients.unknown_clients import UnknownClients
from nvshare.scheduler.clients.unlisted_devices import TooManyDevicesError, UnlistedDevices
from nvshare.scheduler.core.actions import Revoke
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ClaimedState, ClientRegistered
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import names
from nvshare.scheduler.gpus.claims import ClaimedError, Claims, NotYetError
from nvshare.scheduler.gpus.inventory import Inventory
from nvshare.scheduler.gpus.names import NamedDevice
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.memberships import Memberships
from nvshare.scheduler.pods.description import Description, hinted
from nvshare.scheduler.pods.peer import Peer
from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.recovery.awaited import Awaited, Process
from nvshare.scheduler.registered_client import RegisteredClient
from nvshare.scheduler.some_terms import SomeTerms
from nvshare.scheduler.swapping import Swapping


class Registrar:
    """Keeps the connections and registers clients with the dispatcher."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        gpus: Inventory,
        claims: Claims,
        legacy_device: str | None,
        epoch: int,
        descriptions: Descriptions,
        unregistered: Deadlines[Connection],
        sent_away: Deadlines[Connection],
        awaited: Awaited,
        swapping: Swapping,
        memberships: Memberships,
        await_annotations: float | None,
        log: Log,
    ) -> None:
        self.epoch = epoch
        self._dispatcher = dispatcher
        self._gpus = gpus
        self._claims = claims
        self._unlisted = UnlistedDevices(dispatcher.is_used)
        self._legacy_device = legacy_device
        self._said_legacy_device = False
        self._descriptions = descriptions
        self._unregistered = unregistered
        self._sent_away = sent_away
        self._awaited = awaited
        self._swapping = swapping
        self._memberships = memberships
        self.awaited_claims = AwaitedClaims(memberships)
        self._unknown = UnknownClients(dispatcher, memberships, self.awaited_claims, await_annotations)
        self._log = log
        self.room = Room[Connection](0)
        self.strangers = Strangers()
        self.drops: Counter[Fault] = Counter()
        self._unwanted: set[int] = set()
        """Clients that are about to be gone, and not to come back."""

    def admits(self, peer: Peer) -> bool:
        """Makes a place for one more connection of this peer; False, with one log line, when it gets none."""
        try:
            loser = self.room.make_place(peer.pid, peer.uid)
        except NoPlaceError as error:
            self.dropped(Fault.CROWDED)
            self._log.warning("peer turned away", reason=str(error), pid=peer.pid, uid=peer.uid)
            return False
        if loser is not None:
            loser.drop("it has not registered, and another one needs its place", Fault.CROWDED)
        return True

    def accepted(self, connection: Connection) -> None:
        """A connection was accepted; its peer has to register in time."""
        self.room.add(connection, connection.peer.pid, connection.peer.uid)
        self._unregistered.begin(connection)

    def dropped(self, fault: Fault) -> None:
        """See ``connection.Owner``."""
        self.drops[fault] += 1

    def forget(self, connection: Connection) -> None:
        """See ``connection.Owner``."""
        self._unregistered.end(connection)
        self.room.remove(connection)

    def device(self, device_uuid: bytes) -> NamedDevice:
        """The device that a version 2 client names."""
        gpu = self._gpus.find(device_uuid)
        if gpu is not None:
            return NamedDevice(gpu.uuid, gpu.total_bytes, listed=True)
        return NamedDevice(names.gpu_name(device_uuid), 0, listed=False)

    def legacy_device(self) -> NamedDevice:
        """The device of version 1 clients, which name none: the first one; PeerError if there is none."""
        if self._legacy_device is not None:
            return replace(self.device(device_bytes(self._legacy_device)), listed=True)
        gpus = self._gpus.all()
        if not gpus:
            remedy = "start the scheduler with --legacy-device UUID"
            raise PeerError(f"version 1 clients name no GPU and NVML knows no GPU here; {remedy}", Fault.DEVICE)
        gpu = min(gpus, key=Gpu.place)
        if len(gpus) > 1 and not self._said_legacy_device:
            self._said_legacy_device = True
            self._log.warning(
                "version 1 clients name no GPU: all count on the first one; --legacy-device UUID says another",
                device=gpu.uuid,
                gpus=len(gpus),
            )
        return NamedDevice(gpu.uuid, gpu.total_bytes, listed=True)

    def register(self, registration: Registration, event: ClientRegistered) -> None:
        """Registers a client, which the event numbers, and says so to it; PeerError when it can't be registered."""
        connection, device = registration.connection, registration.device
        process = Process(device.name, connection.peer.pid, start_time(connection.peer.pid))
        self.strangers.check(process)
        holds = event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING)
        self._claim(device.name, holds=holds)
        client = RegisteredClient(
            registration.receiver,
            device.name,
            registration.protocol_version,
            registration.backend,
            process.pid,
            hinted(connection.peer, registration.hints),
            started=process.started,
        )
        if not device.listed and not self._dispatcher.knows(device.name):
            self._add_unlisted(device.name, connection.peer)
        self._dispatcher.make_known(device.name, device.total_bytes)
        standing = self._awaited.standing(process, event.grant if holds else None)
        doubted = standing.doubted or self.strangers.is_shared(device.name)
        event = replace(event, recorded_grant=standing.recorded_grant, doubted=doubted)
        self._swapping.comes(event.client, client)
        try:
            self._dispatcher.register(client, event, lambda: connection.send(registration.welcome))
        except IllegalEvent as error:
            self._swapping.refused(event.client)
            raise PeerError(error.state) from error
        self._swapping.came(client)
        self._memberships.came(event.client)
        self._unknown.came(event.client, registration)
        self._unregistered.end(connection)
        self.room.registered(connection)

        def described(description: Description) -> None:
            self._dispatcher.described(event.client, description)
            self._memberships.described(event.client)
            registration.described()
            self._unknown.described(event.client, description)
            self._log.info(
                "client registered",
                client=event.client,
                **description.fields(),
                device=device.name,
                protocol=registration.protocol_version,
                claimed=event.claimed.value,
            )
            # It may have left meanwhile. One of version 1 names no GPU: it may run on another one than where it counts.
            if event.client in self._dispatcher.clients and registration.protocol_version != legacy.VERSION:
                self.strangers.described(
                    event.client, process, description, lambda given: self._send_away(event.client, connection, given)
                )

        self._descriptions.ask(event.client, connection.peer, registration.hints, described)

    def _send_away(self, number: int, connection: Connection, given: frozenset[str]) -> None:
        """A client is on a device that its container was not ``given``: it holds and waits no longer.

        One that held may really run there. It is told to stop, and is heard until it has; meanwhile nobody waits for
        it. It will connect again, and be refused then.
        """
        client = self._dispatcher.clients[number]
        shown, held = client.description, self._dispatcher.client(number).state
        self.dropped(Fault.NOT_GIVEN)
        self._log.warning(
            "sent a client away: kubelet did not give this GPU to its container",
            client=number,
            **shown.fields(),
            device=client.device,
            given=sorted(given),
            state=held.value,
            remedy="the pod must not set NVIDIA_VISIBLE_DEVICES, and not be privileged",
        )
        self._unwanted.add(number)
        if held in (ShownState.IDLE, ShownState.WAITING):
            connection.close()
            return
        if held is ShownState.HOLDING:
            client.receiver.deliver(Revoke(number, client.recorded_grant))
        self._sent_away.begin(connection)
        connection.pass_to(SentAway(connection))

    def _claim(self, device: str, *, holds: bool) -> None:
        """PeerError where another scheduler has the GPU. What only clients name may be invented: it is not claimed."""
        if not self._gpus.shows(device):
            return
        try:
            self._claims.take(device, holds=holds)
        except ClaimedError as error:
            raise PeerError(str(error), Fault.DEVICE) from error
        except NotYetError as error:
            raise ComeAgainError(str(error), Fault.DEVICE) from error

    def _add_unlisted(self, device: str, peer: Peer) -> None:
        if self._gpus.all():
            raise PeerError(f"NVML shows no device {device} to this scheduler", Fault.DEVICE)
        try:
            for forgotten in self._unlisted.add(device, peer.pid, peer.uid):
                self._dispatcher.forget(forgotten)
        except TooManyDevicesError as error:
            raise PeerError(str(error), Fault.DEVICE) from error

    def awaited(self, device: str) -> list[int]:
        """The pids of the former scheduler's holders that a device waits for; 0 for one that can't be seen."""
        return [holder.pid for holder in self._awaited.on(device)]

    def told_memory(self, number: int, host_bytes: int) -> None:
        """A client whose memory swaps has said for the first time what it has, with so much host memory."""
        self._swapping.told(self._dispatcher.clients[number], host_bytes)

    def said_terms(self, number: int, terms: SomeTerms, container: str) -> None:
        """A client has said what its environment asks for, and what its container is called outside of any."""
        self._dispatcher.clients[number].sent_terms = True
        self._memberships.said(number, terms, container)

    def remove(self, number: int) -> None:
        """The connection of a client ended."""
        wanted = number not in self._unwanted
        self._unwanted.discard(number)
        client = self._dispatcher.remove(number, lambda holder: wanted and self._awaited.lost(holder))
        self._swapping.left(number, client)
        if not self._dispatcher.is_used(client.device):
            self._claims.unused(client.device, self._dispatcher.is_used)
        self._memberships.left(number)
        self._unknown.left(number)
        self.strangers.left(number)
        self._descriptions.forget(number, client.pid)
        self._log.info("client left", client=number, **client.description.fields())
