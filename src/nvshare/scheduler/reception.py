"""Where a connection becomes a client: which device it means, who it is, and that it came in time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nvshare.scheduler.arrival import Device
from nvshare.scheduler.connection import Fault, PeerError
from nvshare.scheduler.conversation import WireConversation
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.gpus import names
from nvshare.scheduler.legacy_conversation import LegacyConversation
from nvshare.scheduler.pods.description import hinted
from nvshare.scheduler.switchboard import Member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvshare.scheduler.arrival import Arrival
    from nvshare.scheduler.connection import Connection, Conversation
    from nvshare.scheduler.core.events import ClientRegistered
    from nvshare.scheduler.gpus.queries import Gpu
    from nvshare.scheduler.log import PeerLog
    from nvshare.scheduler.patience import Patience
    from nvshare.scheduler.pods.description import Describe, Description
    from nvshare.scheduler.switchboard import Switchboard
    from nvshare.scheduler.worker import Worker


class Reception:
    """Greets connections and admits clients to the switchboard."""

    def __init__(
        self,
        board: Switchboard,
        gpus: Mapping[bytes, Gpu],
        legacy_device: str | None,
        epoch: int,
        worker: Worker,
        describe: Describe,
        unregistered: Patience[Connection],
        log: PeerLog,
    ) -> None:
        self.epoch = epoch
        self._board = board
        self._gpus = gpus
        self._legacy_device = legacy_device
        self._worker = worker
        self._describe = describe
        self._unregistered = unregistered
        self._log = log
        self.connections: set[Connection] = set()
        self.drops: Counter[Fault] = Counter()

    def arrived(self, connection: Connection) -> None:
        """A connection was accepted; it has to register within the time that everybody has."""
        self.connections.add(connection)
        self._unregistered.begin(connection)

    def greet(self, connection: Connection, version: int) -> Conversation:
        """See ``connection.Greeter``."""
        conversation = LegacyConversation if version == 1 else WireConversation
        return conversation(connection, self, self._board)

    def dropped(self, fault: Fault) -> None:
        """See ``connection.Greeter``."""
        self.drops[fault] += 1

    def forget(self, connection: Connection) -> None:
        """See ``connection.Greeter``."""
        self._unregistered.end(connection)
        self.connections.discard(connection)

    def device(self, device_uuid: bytes, claimed_bytes: int) -> Device:
        """The device that a version 2 client names; its memory as NVML says, else as the client does."""
        gpu = self._gpus.get(device_uuid)
        if gpu is not None:
            return Device(gpu.uuid, gpu.total_bytes)
        return Device(names.gpu_name(device_uuid), claimed_bytes)

    def legacy_device(self) -> Device:
        """The device of version 1 clients, which name none; PeerError if that is not clear."""
        if self._legacy_device is not None:
            return self.device(names.device_bytes(self._legacy_device), 0)
        match list(self._gpus.values()):
            case [gpu]:
                return Device(gpu.uuid, gpu.total_bytes)
            case []:
                reason = "NVML knows no GPU here"
            case several:
                reason = f"this node has {len(several)}"
        remedy = "start the scheduler with --legacy-device UUID"
        raise PeerError(f"version 1 clients name no GPU and {reason}; {remedy}", Fault.DEVICE)

    def admit(self, number: int, arrival: Arrival, registration: ClientRegistered) -> None:
        """Registers client ``number`` and says so to it; PeerError when it can't be."""
        peer = arrival.connection.peer
        member = Member(
            arrival.client,
            arrival.device.name,
            arrival.protocol_version,
            arrival.backend,
            peer.pid,
            hinted(peer, arrival.hints),
        )
        self._board.make_room(arrival.device.name, arrival.device.total_bytes)
        # The welcome is the first thing that a client hears; a grant may follow at once.
        arrival.connection.send(arrival.welcome)
        try:
            self._board.register(number, member, registration)
        except IllegalEvent as error:
            raise PeerError(str(error)) from error
        self._unregistered.end(arrival.connection)

        def described(description: Description) -> None:
            self._board.described(number, description)
            self._log.info(
                "client registered",
                client=number,
                pid=description.pid,
                command=description.command,
                device=arrival.device.name,
                protocol=arrival.protocol_version,
                claimed=registration.claimed.value,
            )

        self._worker.submit(lambda: self._describe(peer, arrival.hints), described)
