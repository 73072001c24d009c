"""Connects the pure core with the clients: takes events to it, its actions to the clients, and keeps its timer."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from nvshare.log import Log
from nvshare.scheduler import reports
from nvshare.scheduler.commands import UnknownDeviceError, check_quantum
from nvshare.scheduler.core.actions import (
    Action,
    FormGang,
    Grant,
    Kill,
    LeaveGang,
    MemoryAction,
    ReportMissing,
    ReportShort,
    ReportSize,
    ReportUnresponsive,
    Sleep,
    Wake,
)
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceForgotten,
    DeviceSeen,
    Event,
    HolderDied,
    HolderRecorded,
    LockReleased,
    Policy,
    PolicySet,
    QuantumSet,
)
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, HostMemory
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.record import Record, Recorded
from nvshare.scheduler.registered_client import RegisteredClient

_NOTICES = 4
"""Different notices of a client that are kept: a program has few, and one that is wrong fills no memory."""

Observe = Callable[[Event | None, Sequence[Action], float], None]
"""Is told what happened, and when; or (None) what the core answers to all that happened before. A client that is gone
is still among the clients then."""

SeeToGangs = Callable[[FormGang | LeaveGang | Grant | ClientGone, Mapping[int, RegisteredClient]], None]
"""Makes the gangs' pages and has them sent to the clients, by number, before anything that the core says after that.

A grant is told of before the client hears of it."""


class Dispatcher:
    """Holds the core, the clients by number, and the watchers: those who want to know that something changed."""

    def __init__(
        self,
        core: Core,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        record: Record,
        choices: Choices,
        clients_changed: Callable[[int], None],
        see_to_memory: Callable[[MemoryAction], None],
        see_to_gangs: SeeToGangs,
        see_to_sleep: Callable[[Sleep | Wake], None],
        others_speak: Callable[[], bool] = lambda: False,
    ) -> None:
        """``record`` is told who holds before that one is; ``choices`` what the operator sets.

        ``clients_changed`` is called with their number whenever it changed; ``see_to_memory`` and ``see_to_sleep``
        begin what they are asked for; ``others_speak``: whether more than one had something to say in this pass.
        """
        self._core = core
        self._loop = loop
        self._log = log
        self._record = record
        self.choices = choices
        self._clients_changed = clients_changed
        self._see_to_memory = see_to_memory
        self.observers: list[Observe] = []
        self.leaving: list[Callable[[int, ClientSnapshot], None]] = []
        """Are told of a client that is about to be gone, with all that it did."""
        self._see_to_gangs = see_to_gangs
        self._see_to_sleep = see_to_sleep
        self._others_speak = others_speak
        self._numbers = itertools.count(1)
        self._clients: dict[int, RegisteredClient] = {}
        self._switched_off = choices.policies_before_off
        """The policies before ``switch_off``, until ``switch_on``; None: of later devices."""
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        """Will do what is to be done about all that was told; None: nothing was."""
        self._told_at = 0.0
        self._watchers: set[asyncio.Event] = set()
        self._clients_of: Counter[str] = Counter()
        """How many clients each device has."""

    @property
    def clients(self) -> Mapping[int, RegisteredClient]:
        """Every registered client by number."""
        return self._clients

    @property
    def devices(self) -> tuple[str, ...]:
        """Every device seen so far."""
        return self._core.devices()

    @property
    def watchers(self) -> set[asyncio.Event]:
        """Events that are set after every change; a watcher adds its own."""
        return self._watchers

    def client(self, number: int) -> ClientSnapshot:
        """A registered client now."""
        self._do_soon()
        return self._core.client(number, self._loop.time())

    def snapshot(self) -> tuple[DeviceSnapshot, ...]:
        """Every device and its clients now."""
        self._do_soon()
        return self._core.snapshot(self._loop.time())

    def host_memory(self) -> HostMemory:
        """The host memory of all clients' arenas now."""
        return self._core.host_memory()

    def is_off(self, device: str) -> bool:
        """Whether the policy of a device is ``off``."""
        return self._core.policy(device) is Policy.OFF

    def next_number(self) -> int:
        """The number of the client that registers next."""
        return next(self._numbers)

    def make_known(self, device: str, total_bytes: int) -> None:
        """Makes a device known, or its memory as NVML says it (0: it does not) if only that was not."""
        measured = self._core.is_measured(device)
        if measured is None or (not measured and total_bytes):
            self.feed(DeviceSeen(device, total_bytes))
        if measured is None:
            if device in self.choices.policies:
                self.feed(PolicySet(self.choices.policies[device], device))
            if device in self.choices.quanta:
                self.feed(QuantumSet(self.choices.quanta[device], device))

    def knows(self, device: str) -> bool:
        """Whether a device was made known."""
        return self._core.is_measured(device) is not None

    def is_used(self, device: str) -> bool:
        """Whether a device has clients."""
        return self._clients_of[device] > 0

    def forget(self, device: str) -> None:
        """A device that is not used is not known any more; what the operator chose for it counts if it comes back."""
        self.feed(DeviceForgotten(device))

    def register(self, client: RegisteredClient, event: ClientRegistered, welcome: Callable[[], None]) -> None:
        """Adds a client of a known device; IllegalEvent when the core refuses it.

        ``welcome`` tells the client that it is registered: before anything else, and only when it is.
        """
        self._happened(event)
        self._clients[event.client] = client
        self._clients_of[client.device] += 1
        if event.recorded_grant is not None:
            if event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING) and event.grant == event.recorded_grant:
                client.recorded_grant = event.grant
            else:
                self._record.erase(event.recorded_grant)
        welcome()
        self._plan()
        self._clients_changed(len(self._clients))

    def remove(self, number: int, lost: Callable[[Recorded], bool]) -> RegisteredClient:
        """A client's connection ended; returns what was known of it.

        ``lost`` is asked about a holder: whether it may come back, so that its device waits until ``holder_died``.
        """
        client = self._clients[number]
        self._clients_of[client.device] -= 1
        if not self._clients_of[client.device]:
            del self._clients_of[client.device]
        if client.recorded_grant and lost(client.holder(client.recorded_grant)):
            self.feed(HolderRecorded(client.device, client.recorded_grant))
        else:
            self._record.erase(client.recorded_grant)
        for tell in self.leaving:
            tell(number, self._core.client_apart(number, self._loop.time()))
        gone = ClientGone(number)
        self.feed(gone)
        self._see_to_gangs(gone, self._clients)
        del self._clients[number]
        self._clients_changed(len(self._clients))
        return client

    def holder_died(self, grant: int) -> None:
        """A holder that is recorded, and was not back yet, runs no more."""
        self._record.erase(grant)
        self.feed(HolderDied(grant))

    def described(self, number: int, description: Description) -> None:
        """It is now known who a client is; the client may be gone."""
        client = self._clients.get(number)
        if client is not None:
            client.description = description
            self.announce()

    def drain_reported(self, number: int, drain: str) -> None:
        """A client's drain does not simply end; ``drain``: how it goes, empty when that is over."""
        client = self._clients[number]
        if client.drain != drain:
            client.drain = drain
            self.announce()

    def noticed(self, number: int, text: str) -> None:
        """A client has something to say to whoever looks at it."""
        client = self._clients[number]
        if text and text not in client.notices:
            client.notices = (*client.notices, text)[-_NOTICES:]
            self.announce()

    def feed(self, event: Event) -> None:
        """Tells the core what happened and does what it answers; IllegalEvent when the state does not allow it."""
        self._happened(event)
        self._plan()

    def tell(self, event: Event) -> None:
        """The same, but where others speak as well it does what it answers when all were heard: they are planned for
        once then."""
        try:
            self._happened(event)
        except IllegalEvent:
            # It may be the answer to what the plan of the others will be.
            if self._soon is None:
                raise
            self._plan()
            self._happened(event)
        if isinstance(event, LockReleased):
            self._released(self._clients[event.client], event.grant)
        if not self._others_speak():
            self._plan()
        elif self._soon is None:
            self._soon = self._loop.call_soon(self._do_soon)

    def set_quantum(self, seconds: float, device: str | None) -> None:
        """Sets a device's quantum, or everyone's; InvalidCommandError when that is not allowed."""
        check_quantum(seconds)
        self._check_device(device)
        self.feed(QuantumSet(seconds, device))
        self.choices.quantum_set(seconds, device)
        self.choices.save()
        self._log.info("quantum set", seconds=seconds, device=device or "all")

    def set_policy(self, policy: Policy, device: str | None) -> None:
        """Sets a device's policy, or everyone's; InvalidCommandError if not allowed.

        For that device, or for all, this is newer than a ``switch_off``: ``switch_on`` leaves it as it is.
        """
        self._check_device(device)
        if device is None:
            self._switched_off.clear()
        elif self._switched_off:
            self._switched_off[device] = policy
        self._apply(policy, device)
        self.choices.save()

    def switch_off(self) -> None:
        """Sets the policy of all to ``off``, until ``switch_on``."""
        if not self._switched_off:
            self._switched_off.update(self._core.policies())
        self._apply(Policy.OFF, None)
        self.choices.save()

    def switch_on(self) -> None:
        """Sets the policies as they were before ``switch_off``; nothing if that was not called."""
        former = dict(self._switched_off)
        self._switched_off.clear()
        for device, policy in former.items():
            if device is None or device in self._core.devices():
                self._apply(policy, device)
            else:
                self.choices.policy_set(policy, device)
        self.choices.save()

    def announce(self) -> None:
        """Wakes the watchers: something changed."""
        for watcher in self._watchers:
            watcher.set()

    def stop(self) -> None:
        """Stops the timer and wakes the watchers."""
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()
        self.announce()

    def _apply(self, policy: Policy, device: str | None) -> None:
        receivers = [client.receiver for client in self._clients.values() if device in (None, client.device)]
        if policy is not Policy.OFF:
            for receiver in receivers:
                receiver.set_scheduling(on=True)
        self.feed(PolicySet(policy, device))
        if policy is Policy.OFF:
            for receiver in receivers:
                receiver.set_scheduling(on=False)
        self.choices.policy_set(policy, device)
        self._log.info("policy set", policy=policy.value, device=device or "all")

    def _check_device(self, device: str | None) -> None:
        if device is not None and not self.knows(device):
            known = ", ".join(self._core.devices()) or "none yet"
            raise UnknownDeviceError(f"device {device!r} is unknown; known devices: {known}")

    def _happened(self, event: Event) -> None:
        self._told_at = self._loop.time()
        self._core.record(event, self._told_at)
        reports.trace("happened", event, self._log)
        for observe in self.observers:
            observe(event, (), self._told_at)

    def _do_soon(self) -> None:
        if self._soon is not None:
            self._plan()

    def _plan(self) -> None:
        self._soon = None
        self._follow(self._core.plan(self._told_at), self._told_at)

    def _follow(self, actions: list[Action], now: float) -> None:
        for observe in self.observers if actions else ():
            observe(None, actions, now)
        self._carry_out(actions)
        self._arm()
        self.announce()

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            reports.trace("to do", action, self._log)
            if isinstance(action, MemoryAction):
                self._see_to_memory(action)
                continue
            match action:
                case ReportUnresponsive() | ReportShort() | ReportMissing() | ReportSize():
                    reports.write(action, self._clients, self._log)
                case Kill(number, grant):
                    reports.kill(self._clients[number], number, grant, self._log)
                case FormGang():
                    self._see_to_gangs(action, self._clients)
                case Sleep() | Wake():
                    self._see_to_sleep(action)
                case Grant(number, grant):
                    client = self._clients[number]
                    self._held(client, grant)
                    self._see_to_gangs(action, self._clients)
                    client.receiver.deliver(action)
                case LeaveGang(number):
                    self._see_to_gangs(action, self._clients)
                    self._clients[number].receiver.deliver(action)
                case _:
                    self._clients[action.client].receiver.deliver(action)

    def _held(self, client: RegisteredClient, grant: int) -> None:
        self._record.add(client.holder(grant))
        client.recorded_grant = grant

    def _released(self, client: RegisteredClient, grant: int) -> None:
        if grant == client.recorded_grant:
            self._record.erase(grant)
            client.recorded_grant = 0

    def _arm(self) -> None:
        deadline = self._core.deadline()
        if deadline is None:
            return
        # A timer that fires too early only looks again. That is cheaper than a new timer for every event.
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        deadline, now = self._core.deadline(), self._loop.time()
        if deadline is not None and now >= deadline:
            self._follow(self._core.handle_timer(now), now)
        else:
            self._arm()
