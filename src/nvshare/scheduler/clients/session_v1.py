"""A version 1 peer: an unmodified nvshare v0.1.1 client, or its nvsharectl.

Version 1 has no grant numbers, so they are kept here. Under policy ``off`` (SCHED_OFF) a version 1 client runs without
asking and says nothing; the core is told that it asked, so that it counts as a holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from nvshare.log import Log
from nvshare.protocol import legacy
from nvshare.protocol.legacy import LegacyType, Message
from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.clients.faults import Fault, PeerError
from nvshare.scheduler.clients.registrar import Registrar
from nvshare.scheduler.clients.registration import Registration
from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.core.actions import (
    Allot,
    ClientAction,
    ConfirmJoin,
    Evict,
    Grant,
    LeaveGang,
    RefuseGrowth,
    Revoke,
    TellLimit,
    TellWaiters,
    Watch,
)
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ClaimedState, ClientRegistered, Event, LockReleased, LockRequested
from nvshare.scheduler.core.settings import LONGEST_QUANTUM
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.description import Hints
from nvshare.scheduler.pods.peer import may_command
from nvshare.scheduler.registered_client import Delivery, FrameWithDescriptor

_NO_POD = "none"
"""What a version 1 client outside a pod calls its pod and namespace."""


class SessionV1:
    """One version 1 connection."""

    __slots__ = ("_asked", "_connection", "_dispatcher", "_grant", "_log", "_number", "_off", "_registrar", "_revoked")

    def __init__(self, connection: Connection, registrar: Registrar, dispatcher: Dispatcher, log: Log) -> None:
        self._connection = connection
        self._registrar = registrar
        self._dispatcher = dispatcher
        self._log = log
        self._number = 0
        self._grant: int | None = None
        self._asked = False
        self._off = False
        self._revoked = False
        """It was asked to give its grant back."""

    def receive(self, message: bytes) -> None:
        """See ``connection.Session``."""
        try:
            decoded = legacy.decode(message)
        except legacy.LegacyError as error:
            raise PeerError(str(error)) from error
        match decoded.type:
            case LegacyType.REGISTER:
                self._register(decoded)
            case LegacyType.REQ_LOCK:
                self._request()
            case LegacyType.LOCK_RELEASED:
                self._release()
            case LegacyType.SET_TQ | LegacyType.SCHED_ON | LegacyType.SCHED_OFF:
                self._command(decoded)
            case LegacyType.LOCK_OK | LegacyType.DROP_LOCK:
                raise PeerError(f"it sent {decoded.type.name}, which only a scheduler sends")
            case _:
                assert_never(decoded.type)

    def deliver(self, action: ClientAction) -> None:
        """See ``dispatcher.ActionReceiver``."""
        match action:
            case Grant(_, grant):
                self._grant = grant
                self._asked = False
                self._revoked = False
                if not self._off:
                    self._send(LegacyType.LOCK_OK)
            case Revoke():
                self._revoked = True
                self._send(LegacyType.DROP_LOCK)
            case TellWaiters():
                pass  # Version 1 has no such message; its clients look every 5 s whether they are idle.
            case TellLimit():
                pass  # Version 1 has no such message.
            case Allot() | Evict() | RefuseGrowth():
                raise AssertionError("a version 1 client's memory does not swap")
            case Watch():
                raise AssertionError("a version 1 client reports no progress")
            case ConfirmJoin() | LeaveGang():
                raise AssertionError("a version 1 client joins nothing")
            case _:
                assert_never(action)

    def send_arena(self, descriptor: int, segment_bytes: int, done: Callable[[Delivery], None]) -> None:
        """See ``dispatcher.ActionReceiver``."""
        raise AssertionError("a version 1 client's memory does not swap")

    def send_with(self, frame: FrameWithDescriptor, descriptor: int, done: Callable[[Delivery], None]) -> None:
        """See ``dispatcher.ActionReceiver``."""
        raise AssertionError("a version 1 client's memory does not swap")

    def send_gang(
        self, slot: int, slots: int, page_bytes: int, descriptor: int, done: Callable[[Delivery], None]
    ) -> None:
        """See ``dispatcher.ActionReceiver``."""
        raise AssertionError("a version 1 client joins nothing")

    def set_scheduling(self, on: bool) -> None:
        """See ``dispatcher.ActionReceiver``."""
        if on is (not self._off):
            return
        self._off = not on
        if on:
            # The client closes its gate when it reads this, without an answer.
            self._send(LegacyType.SCHED_ON)
            self._give_back()
        else:
            self._send(LegacyType.SCHED_OFF)
            self._ask()

    def kill(self) -> None:
        """See ``dispatcher.ActionReceiver``."""
        self._connection.kill()

    def closed(self) -> None:
        """See ``connection.Session``."""
        if self._number:
            self._registrar.remove(self._number)

    def _register(self, message: Message) -> None:
        if self._number:
            raise PeerError("it sent REGISTER a second time")
        namespace, pod = message.pod_namespace, message.pod_name
        hints = Hints(namespace="" if namespace == _NO_POD else namespace, pod="" if pod == _NO_POD else pod)
        device = self._registrar.legacy_device()
        number = self._dispatcher.next_number()
        self._off = self._dispatcher.is_off(device.name)
        answer = LegacyType.SCHED_OFF if self._off else LegacyType.SCHED_ON
        registration = Registration(
            self._connection,
            self,
            hints,
            device,
            protocol_version=legacy.VERSION,
            backend="",
            welcome=legacy.encode(Message(answer, client_id=number, data=f"{number:016x}")),
        )
        self._registrar.register(registration, ClientRegistered(number, device.name, None, ClaimedState.IDLE))
        self._number = number
        if self._off:
            self._ask()

    def _request(self) -> None:
        """Ignored where it crossed a SCHED_OFF and where it is said again, as the original scheduler does."""
        self._must_be_registered(LegacyType.REQ_LOCK)
        if not self._off:
            self._ask()

    def _release(self) -> None:
        """Ignored where it crossed a SCHED_OFF and where there is nothing to give back.

        The answer to a DROP_LOCK that was sent before the SCHED_OFF is expected, and the client runs on.
        """
        self._must_be_registered(LegacyType.LOCK_RELEASED)
        if not self._off:
            self._give_back()
        elif self._revoked:
            self._give_back()
            self._ask()

    def _ask(self) -> None:
        if self._grant is None and not self._asked:
            self._asked = True
            self._feed(LockRequested(self._number))

    def _give_back(self) -> None:
        grant, self._grant = self._grant, None
        if grant is not None:
            self._feed(LockReleased(self._number, grant))

    def _command(self, message: Message) -> None:
        peer = self._connection.peer
        if not may_command(peer):
            reason = f"it sent {message.type.name}, which is only honoured from root outside any pod"
            if peer.outside_pods is None:
                reason += "; it ended before that could be seen: use the nvsharectl of this version, or nvshare-ctl set"
            raise PeerError(reason, Fault.COMMAND)
        match message.type:
            case LegacyType.SCHED_OFF:
                self._dispatcher.switch_off()
            case LegacyType.SCHED_ON:
                self._dispatcher.switch_on()
            case _:
                try:
                    self._set_quantum(int(message.data, 0))
                except ValueError:
                    reason = f"it sent SET_TQ with {message.data!r}, which is no whole number"
                    raise PeerError(reason, Fault.COMMAND) from None
                except InvalidCommandError as error:
                    raise PeerError(f"it sent SET_TQ: {error}", Fault.COMMAND) from error

    def _set_quantum(self, seconds: int) -> None:
        if seconds > LONGEST_QUANTUM:
            self._log.info("a shorter quantum than was asked for", asked=seconds, longest=LONGEST_QUANTUM)
        self._dispatcher.set_quantum(min(seconds, LONGEST_QUANTUM), None)

    def _must_be_registered(self, kind: LegacyType) -> None:
        if not self._number:
            raise PeerError(f"it sent {kind.name} before REGISTER")

    def _feed(self, event: Event) -> None:
        try:
            self._dispatcher.tell(event)
        except IllegalEvent as error:
            raise PeerError(str(error)) from error

    def _send(self, kind: LegacyType) -> None:
        self._connection.send(legacy.encode(Message(kind, client_id=self._number)))
