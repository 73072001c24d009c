"""A version 2 client: REGISTER first, then what the core's state allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from nvshare.protocol import wire
from nvshare.scheduler import translate
from nvshare.scheduler.arrival import Arrival
from nvshare.scheduler.connection import Fault, PeerError
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.pods.description import Hints

if TYPE_CHECKING:
    from nvshare.scheduler.connection import Connection
    from nvshare.scheduler.core.actions import Grant, Revoke, TellWaiters
    from nvshare.scheduler.reception import Reception
    from nvshare.scheduler.switchboard import Switchboard


class WireConversation:
    """One version 2 connection."""

    __slots__ = ("_board", "_connection", "_number", "_reception")

    def __init__(self, connection: Connection, reception: Reception, board: Switchboard) -> None:
        self._connection = connection
        self._reception = reception
        self._board = board
        self._number = 0

    def receive(self, message: bytes) -> None:
        """See ``connection.Conversation``."""
        try:
            frame = wire.decode(message)
        except wire.VersionError as error:
            self._connection.send(wire.encode(wire.Refused(str(error))))
            raise PeerError(str(error), Fault.VERSION) from error
        except wire.WireError as error:
            raise PeerError(str(error)) from error
        match frame:
            case wire.Register():
                self._register(frame)
            case wire.ReqLock() | wire.LockReleased() | wire.Footprint():
                self._tell(frame)
            case wire.SchedOn() | wire.LockOk() | wire.DropLock() | wire.Waiters() | wire.Refused():
                raise PeerError(f"it sent {frame}, which only a scheduler sends")
            case _:
                assert_never(frame)

    def perform(self, action: Grant | Revoke | TellWaiters) -> None:
        """See ``switchboard.Client``."""
        self._connection.send(wire.encode(translate.frame_of(action)))

    def run_free(self, free: bool) -> None:
        """Nothing to do: a version 2 client asks for the lock under every policy."""

    def closed(self) -> None:
        """See ``connection.Conversation``."""
        if self._number:
            self._board.remove(self._number)

    def _register(self, frame: wire.Register) -> None:
        if self._number:
            raise PeerError("it sent REGISTER a second time")
        number = self._board.next_number()
        device = self._reception.device(frame.device_uuid, frame.total_bytes)
        arrival = Arrival(
            self._connection,
            self,
            Hints(frame.pid, frame.command, pod=frame.name_hint),
            device,
            protocol_version=wire.VERSION,
            backend=frame.backend.name.lower(),
            welcome=wire.encode(wire.SchedOn(number, self._reception.epoch)),
        )
        try:
            self._reception.admit(number, arrival, translate.registration(frame, number, device.name))
        except PeerError as error:
            self._connection.send(wire.encode(wire.Refused(str(error))))
            raise
        self._number = number

    def _tell(self, frame: wire.ReqLock | wire.LockReleased | wire.Footprint) -> None:
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        try:
            self._board.feed(translate.event_of(frame, self._number))
        except IllegalEvent as error:
            raise PeerError(str(error)) from error
