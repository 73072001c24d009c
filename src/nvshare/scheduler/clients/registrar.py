"""Where a connection becomes a client: which device it means, who it is, and that it registers in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.clients.deadlines import Deadlines
from nvshare.scheduler.clients.faults import Fault, PeerError
from nvshare.scheduler.clients.peer_log import PeerLog
from nvshare.scheduler.clients.registration import Registration
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ClaimedState, ClientRegistered
from nvshare.scheduler.dispatcher import Dispatcher, RegisteredClient, TooManyDevicesError
from nvshare.scheduler.gpus import names
from nvshare.scheduler.gpus.inventory import Inventory
from nvshare.scheduler.gpus.names import NamedDevice
from nvshare.scheduler.pods.description import Describe, Description, hinted
from nvshare.scheduler.recovery.awaited import Awaited, Process
from nvshare.scheduler.recovery.processes import start_time
from nvshare.scheduler.worker import Worker


class Registrar:
    """Keeps the connections and registers clients with the dispatcher."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        gpus: Inventory,
        legacy_device: str | None,
        epoch: int,
        worker: Worker,
        describe: Describe,
        unregistered: Deadlines[Connection],
        awaited: Awaited,
        log: PeerLog,
    ) -> None:
        self.epoch = epoch
        self._dispatcher = dispatcher
        self._gpus = gpus
        self._legacy_device = legacy_device
        self._worker = worker
        self._describe = describe
        self._unregistered = unregistered
        self._awaited = awaited
        self._log = log
        self.connections: set[Connection] = set()
        self.drops: Counter[Fault] = Counter()

    def accepted(self, connection: Connection) -> None:
        """A connection was accepted; its peer has to register in time."""
        self.connections.add(connection)
        self._unregistered.begin(connection)

    def dropped(self, fault: Fault) -> None:
        """See ``connection.Owner``."""
        self.drops[fault] += 1

    def forget(self, connection: Connection) -> None:
        """See ``connection.Owner``."""
        self._unregistered.end(connection)
        self.connections.discard(connection)

    def device(self, device_uuid: bytes, claimed_bytes: int) -> NamedDevice:
        """The device that a version 2 client names; its memory as NVML says, else as the client does."""
        gpu = self._gpus.find(device_uuid)
        if gpu is not None:
            return NamedDevice(gpu.uuid, gpu.total_bytes)
        return NamedDevice(names.gpu_name(device_uuid), claimed_bytes)

    def legacy_device(self) -> NamedDevice:
        """The device of version 1 clients, which name none; PeerError if it is not clear which one."""
        if self._legacy_device is not None:
            return self.device(names.device_bytes(self._legacy_device), 0)
        match self._gpus.all():
            case [gpu]:
                return NamedDevice(gpu.uuid, gpu.total_bytes)
            case []:
                reason = "NVML knows no GPU here"
            case several:
                reason = f"this node has {len(several)}"
        remedy = "start the scheduler with --legacy-device UUID"
        raise PeerError(f"version 1 clients name no GPU and {reason}; {remedy}", Fault.DEVICE)

    def register(self, registration: Registration, event: ClientRegistered) -> None:
        """Registers a client, which the event numbers, and says so to it; PeerError when it can't be registered."""
        connection, device = registration.connection, registration.device
        client = RegisteredClient(
            registration.receiver,
            device.name,
            registration.protocol_version,
            registration.backend,
            connection.peer.pid,
            hinted(connection.peer, registration.hints),
            started=start_time(connection.peer.pid),
        )
        try:
            self._dispatcher.make_known(device.name, device.total_bytes)
        except TooManyDevicesError as error:
            raise PeerError(str(error), Fault.DEVICE) from error
        holds = event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING)
        process = Process(device.name, client.pid, client.started)
        standing = self._awaited.standing(process, event.grant if holds else None)
        event = replace(event, recorded_grant=standing.recorded_grant, doubted=standing.doubted)
        # The welcome is the first message to a client; a grant may follow at once.
        connection.send(registration.welcome)
        try:
            self._dispatcher.register(client, event)
        except IllegalEvent as error:
            raise PeerError(str(error)) from error
        self._unregistered.end(connection)

        def described(description: Description) -> None:
            self._dispatcher.described(event.client, description)
            self._log.info(
                "client registered",
                client=event.client,
                pid=description.pid,
                command=description.command,
                device=device.name,
                protocol=registration.protocol_version,
                claimed=event.claimed.value,
            )

        self._worker.submit(lambda: self._describe(connection.peer, registration.hints), described)

    def awaited(self, device: str) -> list[int]:
        """The pids of the former scheduler's holders that a device waits for; 0 for one that can't be seen."""
        return [holder.pid for holder in self._awaited.on(device)]

    def remove(self, number: int) -> None:
        """The connection of a client ended."""
        shown = self._dispatcher.remove(number).description
        self._log.info("client left", client=number, pid=shown.pid, command=shown.command)
