"""A version 2 client: REGISTER first, then what the core's state allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, assert_never

from nvshare.protocol import whole_texts, wire
from nvshare.scheduler.clients import asked_reason, sharing, translate
from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.clients.faults import ComeAgainError, Fault, PeerError
from nvshare.scheduler.clients.outbox import Parcel
from nvshare.scheduler.clients.registrar import Registrar
from nvshare.scheduler.clients.registration import Registration
from nvshare.scheduler.clients.sharing import Sharing
from nvshare.scheduler.core.actions import ClientAction, Grant, TellLimit
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import Event, ProgressOffered
from nvshare.scheduler.core.sleep_events import OwnerFound
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.description import Hints
from nvshare.scheduler.registered_client import Delivery, FrameWithDescriptor
from nvshare.scheduler.sleeping.process import UnaskedError
from nvshare.scheduler.sleeping.sleeping import Frame as SleepFrame
from nvshare.scheduler.sleeping.sleeping import Sleeping

_TERMS_LEVEL: Final = 3
_LIMIT_LEVEL: Final = 4
_SLEEP_LEVEL: Final = 6
_NAMED: Final = 8
"""Joins and leaves by name that wait until it is known who the client is; a program has one name."""
_DRAINS = {wire.Drain.STEPPING: "stepping", wire.Drain.PUT_OFF: "put off"}


class SessionV2:
    """One version 2 connection."""

    __slots__ = (
        "_asks",
        "_awaits_limit",
        "_connection",
        "_dispatcher",
        "_growth",
        "_known",
        "_level",
        "_limit",
        "_named",
        "_number",
        "_overdue",
        "_registrar",
        "_said_terms",
        "_says_terms",
        "_scope",
        "_sharing",
        "_sleeping",
        "_swaps",
        "_told_memory",
    )

    def __init__(
        self,
        connection: Connection,
        registrar: Registrar,
        dispatcher: Dispatcher,
        sharing: Sharing,
        sleeping: Sleeping,
    ) -> None:
        self._connection = connection
        self._sharing = sharing
        self._sleeping = sleeping
        self._registrar = registrar
        self._dispatcher = dispatcher
        self._number = 0
        self._level = 0
        self._swaps = False
        self._told_memory = False
        self._said_terms = False
        self._limit: TellLimit | None = None
        """The last one, which a client is told that says terms: no other knows such a frame."""
        self._says_terms = False
        """It is one that does."""
        self._awaits_limit = False
        """It allocates nothing before it is told a limit, be it that there is none."""
        self._known = False
        """It is known what its container may have."""
        self._overdue = ""
        """Why memory is refused until then; empty: it only waits."""
        self._growth: wire.Grow | None = None
        """What it asked for before that."""
        self._asks = False
        """It wants the lock, but is not in line yet."""
        self._scope: str | None = None
        """Within which a gang's name means the same; None: not known yet."""
        self._named: list[wire.Join | wire.Leave] = []
        """What it said of gangs by name before that was known."""

    def receive(self, message: bytes) -> None:
        """See ``connection.Session``."""
        try:
            frame = wire.decode(message)
        except wire.VersionError as error:
            self._connection.send(whole_texts.encode(wire.Refused(str(error)), 0))
            raise PeerError(str(error), Fault.VERSION) from error
        except wire.WireError as error:
            raise PeerError(str(error)) from error
        match frame:
            case wire.Register():
                self._register(frame)
            case wire.ReqLock() | wire.LockReleased() | wire.Footprint():
                self._tell(frame)
            case wire.DrainReport() | wire.Notice() | wire.AskReason():
                self._talk(frame)
            case wire.Grow() | wire.Resident():
                self._tell_memory(frame)
            case wire.Terms():
                self._say_terms(frame)
            case wire.Progress():
                self._tell_progress(frame)
            case wire.Join() | wire.Leave() | wire.Idle():
                self._tie(frame)
            case wire.Share() | wire.Unshare() | wire.OpenShared() | wire.Shared() | wire.NotShared():
                self._share(frame)
            case wire.Asleep() | wire.NotAsleep() | wire.Wake():
                self._tell_sleep(frame)
            case wire.Stored() | wire.NotStored() | wire.Loaded() | wire.Summed() | wire.Packed() | wire.Deduped():
                self._tell_sleep(frame)
            case _:
                not_a_clients: wire.SchedulerFrame = frame
                raise PeerError(f"it sent {not_a_clients}, which only a scheduler sends")

    def deliver(self, action: ClientAction) -> None:
        """See ``dispatcher.ActionReceiver``."""
        if isinstance(action, TellLimit):
            self._limit = action
            if not self._may_tell_limit:
                return
        if isinstance(action, Grant):
            self._asks = False
        self._say(translate.frame_of(action))

    def send_arena(self, descriptor: int, segment_bytes: int, done: Callable[[Delivery], None]) -> None:
        """See ``dispatcher.ActionReceiver``."""
        self._connection.send(wire.encode(wire.Arena(segment_bytes)), Parcel(descriptor, done))

    def send_with(self, frame: FrameWithDescriptor, descriptor: int, done: Callable[[Delivery], None]) -> None:
        """See ``dispatcher.ActionReceiver``."""
        self._connection.send(wire.encode(frame), Parcel(descriptor, done))

    def send_gang(
        self, slot: int, slots: int, page_bytes: int, descriptor: int, done: Callable[[Delivery], None]
    ) -> None:
        """See ``dispatcher.ActionReceiver``."""
        self._connection.send(wire.encode(wire.Gang(slot, slots, page_bytes)), Parcel(descriptor, done))

    def _say(self, frame: wire.SchedulerFrame) -> None:
        self._connection.send(whole_texts.encode(frame, self._level))

    def set_scheduling(self, on: bool) -> None:
        """Nothing to do: a version 2 client asks for the lock under every policy."""

    def kill(self) -> None:
        """See ``dispatcher.ActionReceiver``."""
        self._connection.kill()

    def closed(self) -> None:
        """See ``connection.Session``."""
        if self._number:
            self._sharing.left(self._number)
            self._registrar.remove(self._number)
            self._sleeping.left(self._number)

    def _register(self, frame: wire.Register) -> None:
        if self._number:
            raise PeerError("it sent REGISTER a second time")
        _check_numbers(frame)
        number = self._dispatcher.next_number()
        self._level = frame.level
        self._says_terms = frame.level >= _TERMS_LEVEL
        self._awaits_limit = frame.level >= _LIMIT_LEVEL
        # Who waits is in line when it has said with whom.
        asks = self._says_terms and frame.state is wire.State.WAITING
        if asks:
            frame = replace(frame, state=wire.State.IDLE)
        device = self._registrar.device(frame.device_uuid)
        registration = Registration(
            self._connection,
            self,
            Hints(frame.pid, frame.command, pod=frame.name_hint),
            device,
            protocol_version=wire.VERSION,
            backend=translate.backend(frame).value,
            welcome=wire.encode(wire.SchedOn(number, self._registrar.epoch)),
            described=self._described,
            known=self._is_known,
            overdue=self._is_overdue,
        )
        try:
            self._registrar.register(registration, translate.registered(frame, number, device.name))
        except PeerError as error:
            if not isinstance(error, ComeAgainError):
                refusal = wire.Refused(str(error), final=error.fault is Fault.NOT_GIVEN)
                self._connection.send(whole_texts.encode(refusal, frame.level))
            raise
        self._number = number
        self._swaps = frame.swaps
        self._asks = asks
        self._get_ready()

    def _say_terms(self, frame: wire.Terms) -> None:
        if not self._number or self._said_terms:
            raise PeerError(f"it sent {frame} " + ("a second time" if self._number else "before REGISTER"))
        try:
            terms = translate.terms_of(frame)
        except ValueError as error:
            raise PeerError(f"it sent {frame}: {error}") from error
        self._registrar.said_terms(self._number, terms, frame.container)
        # Only now is its container the one that it names.
        self._said_terms = True
        self._tell_limit()
        # Who knows this frame knows of progress, too.
        self._dispatcher.tell(ProgressOffered(self._number))
        if self._level >= _SLEEP_LEVEL:
            self._sleeping.offered(self._number, self._connection.peer.uid, self._say)
        self._get_ready()

    def _tell_sleep(self, frame: SleepFrame) -> None:
        if not self._said_terms:
            raise PeerError(f"it sent {frame} before TERMS")
        try:
            self._sleeping.heard(self._number, frame)
        except UnaskedError as error:
            raise PeerError(f"it sent {frame}: {error}") from error

    def _tell_memory(self, frame: wire.Grow | wire.Resident) -> None:
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        if not self._swaps:
            raise PeerError(f"it sent {frame}, but its memory does not swap")
        _check_numbers(frame)
        if isinstance(frame, wire.Grow) and not self._known:
            self._hold(frame)
            return
        self._feed(frame)
        if isinstance(frame, wire.Resident) and not self._told_memory:
            self._told_memory = True
            self._registrar.told_memory(self._number, frame.arena_bytes)

    @property
    def _may_tell_limit(self) -> bool:
        return self._said_terms and (self._known or not self._awaits_limit)

    def _tell_limit(self) -> None:
        """Tells the limit that was found before it could be told; who awaits one is told that there is none, too."""
        if self._may_tell_limit and (self._limit is not None or self._awaits_limit):
            self.deliver(self._limit or TellLimit(self._number, 0, 0))

    def _hold(self, growth: wire.Grow) -> None:
        """A newer one makes an older one void."""
        if self._overdue:
            self._say(wire.RefuseGrowth(growth.request, self._overdue))
        else:
            self._growth = growth

    def _is_known(self) -> None:
        self._known, self._overdue = True, ""
        if self._awaits_limit:
            self._tell_limit()
        growth, self._growth = self._growth, None
        if growth is None:
            return
        try:
            self._feed(growth)
        except PeerError as error:
            self._connection.drop(str(error), error.fault)

    def _is_overdue(self, wait: str) -> None:
        self._overdue = wait
        growth, self._growth = self._growth, None
        if growth is not None:
            self._hold(growth)
        if self._awaits_limit:
            self._say(wire.RefuseGrowth(0, wait))

    def _share(self, frame: sharing.Frame) -> None:
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        self._sharing.heard(self._number, self._connection, frame)

    def _tell(self, frame: wire.ReqLock | wire.LockReleased | wire.Footprint) -> None:
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        if self._swaps and isinstance(frame, wire.Footprint):
            raise PeerError(f"it sent {frame}, but its memory swaps")
        if isinstance(frame, wire.Footprint):
            _check_numbers(frame)
        if isinstance(frame, wire.ReqLock) and not self._is_ready:
            if self._asks:
                raise PeerError(f"it sent {frame} a second time")
            self._asks = True
            return
        self._feed(frame)
        if isinstance(frame, wire.LockReleased):
            self._dispatcher.drain_reported(self._number, "")

    @property
    def _is_ready(self) -> bool:
        """Whether it has said, and it is known, with whom it needs the lock."""
        return not self._named and (self._said_terms or not self._says_terms)

    def _get_ready(self) -> None:
        if self._asks and self._is_ready:
            self._asks = False
            self._feed(wire.ReqLock())

    def _tell_progress(self, frame: wire.Progress) -> None:
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        _check_numbers(frame)
        self._feed(frame)

    def _feed(self, frame: translate.Told) -> None:
        self._happened(translate.event_of(frame, self._number))

    def _happened(self, event: Event) -> None:
        try:
            self._dispatcher.tell(event)
        except IllegalEvent as error:
            raise PeerError(str(error)) from error

    def _tie(self, frame: wire.Join | wire.Leave | wire.Idle) -> None:
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        if isinstance(frame, wire.Join) and (fault := translate.wrong_size(frame)):
            raise PeerError(f"it sent {frame}: {fault}")
        if isinstance(frame, wire.Idle) or frame.tie is not wire.Tie.NAME or self._scope is not None:
            # Where the kernel does not say which process it is, each client counts as one.
            process = self._dispatcher.clients[self._number].pid or -self._number
            self._happened(translate.gang_event_of(frame, self._number, process, self._scope or ""))
            return
        self._named.append(frame)
        if len(self._named) > _NAMED:
            raise PeerError(f"it joins more than {_NAMED} gangs by name")

    def _described(self) -> None:
        client = self._dispatcher.clients.get(self._number)
        if client is None:
            return  # It has left meanwhile.
        if self._swaps:
            self._dispatcher.tell(OwnerFound(self._number, client.owner))
        shown = client.description
        self._scope = f"{shown.uid}:{shown.identity.source.value}:{shown.identity.namespace}"
        named, self._named = self._named, []
        try:
            for frame in named:
                self._tie(frame)
            self._get_ready()
        except PeerError as error:
            self._connection.drop(str(error), error.fault)

    def _talk(self, frame: wire.DrainReport | wire.Notice | wire.AskReason) -> None:
        """What changes nothing but what people are shown."""
        if not self._number:
            raise PeerError(f"it sent {frame} before REGISTER")
        match frame:
            case wire.DrainReport(_, drain):
                self._dispatcher.drain_reported(self._number, _DRAINS[drain])
            case wire.Notice(text):
                self._dispatcher.noticed(self._number, text)
            case wire.AskReason(memory):
                self._say(wire.Reason(self._reason(memory), memory))
            case _:
                assert_never(frame)

    def _reason(self, memory: int) -> str:
        if memory:
            return asked_reason.for_memory(self._number, self._dispatcher)
        longest = whole_texts.longest(self._level)
        return asked_reason.for_lock(self._number, self._dispatcher, self._registrar.awaited, longest)


def _check_numbers(frame: wire.Register | wire.Footprint | wire.Grow | wire.Resident | wire.Progress) -> None:
    if fault := translate.nonsense(frame):
        raise PeerError(f"it sent {frame}: {fault}")
