"""Connects the pure core with the clients: takes events to it, its actions to the clients, and keeps its timer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nvshare.log import Log
from nvshare.scheduler.core.actions import Action, Grant, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Event,
    HolderDied,
    LockReleased,
    Policy,
    PolicySet,
    QuantumSet,
)
from nvshare.scheduler.core.settings import LONGEST_QUANTUM, SHORTEST_QUANTUM
from nvshare.scheduler.core.snapshot import DeviceSnapshot, Line
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.record import Holder, HolderRecord

MAX_DEVICES = 256
"""More than a node has, and few enough that clients which invent UUIDs do not fill the memory."""

_NOTICES = 4
"""Different notices of a client that are kept: a program has few, and one that is wrong fills no memory."""


class InvalidCommandError(Exception):
    """A command's value is not allowed; the message names it and what is allowed."""


class UnknownDeviceError(InvalidCommandError):
    """A command names a device that this scheduler does not know."""


class TooManyDevicesError(Exception):
    """One more device would be more than this scheduler knows; the message says how many."""


class ActionReceiver(Protocol):
    """What brings the core's actions to one client."""

    def deliver(self, action: Grant | Revoke | TellWaiters) -> None:
        """Tell the client what the core decided."""

    def set_scheduling(self, on: bool) -> None:
        """Scheduling is about to begin (``on``), or has ended: policy ``off``."""


Observe = Callable[[Event | None, Sequence[Action], float], None]
"""Is told what happened (None: the core's timer), what the core answered and when. A client that is gone is still
among the clients then."""


@dataclass(slots=True)
class RegisteredClient:
    """What is known of a registered client beside the core's state."""

    receiver: ActionReceiver
    device: str
    protocol_version: int
    backend: str
    """managed, native, or empty when the protocol does not say."""
    pid: int
    """As the kernel says; 0 when it does not."""
    description: Description
    drain: str = ""
    """How its drain goes, where it does not simply end; empty: nothing was reported."""
    notices: tuple[str, ...] = ()
    """What it had to say to whoever looks at it; the newest comes last."""
    started: int = 0
    """When its process started, as ``recovery.processes.start_time`` says."""
    recorded_grant: int = 0
    """The grant for which it is in the record of holders; 0: it is not."""


class Dispatcher:
    """Holds the core, the clients by number, and the watchers: those who want to know that something changed."""

    def __init__(
        self,
        core: Core,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        record: HolderRecord,
        choices: Choices,
        clients_changed: Callable[[int], None],
        observe: Observe | None = None,
    ) -> None:
        """``record`` is told who holds before that one is; ``choices`` what the operator sets.

        ``clients_changed`` is called with the number of clients whenever it changed.
        """
        self._core = core
        self._loop = loop
        self._log = log
        self._record = record
        self._choices = choices
        self._clients_changed = clients_changed
        self._observe = observe
        self._numbers = itertools.count(1)
        self._clients: dict[int, RegisteredClient] = {}
        self._switched_off = choices.policies_before_off
        """The policies before ``switch_off``, until ``switch_on``; None: of later devices."""
        self._timer: asyncio.TimerHandle | None = None
        self._watchers: set[asyncio.Event] = set()

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

    def line(self, number: int) -> Line | None:
        """Where a registered client waits now; None: it does not."""
        return self._core.line(number, self._loop.time())

    def snapshot(self) -> tuple[DeviceSnapshot, ...]:
        """Every device and its clients now."""
        return self._core.snapshot(self._loop.time())

    def is_off(self, device: str) -> bool:
        """Whether the policy of a device is ``off``."""
        return self._core.policy(device) is Policy.OFF

    def next_number(self) -> int:
        """The number of the client that registers next."""
        return next(self._numbers)

    def make_known(self, device: str, total_bytes: int) -> None:
        """Makes a device known, or its memory (0: unknown) if only that was not; may raise TooManyDevicesError."""
        known_bytes = self._core.total_bytes(device)
        if known_bytes is None and len(self._core.devices()) >= MAX_DEVICES:
            raise TooManyDevicesError(f"this scheduler knows {MAX_DEVICES} devices already")
        if known_bytes is None or (known_bytes == 0 and total_bytes):
            self.feed(DeviceSeen(device, total_bytes))
        if known_bytes is None:
            if device in self._choices.policies:
                self.feed(PolicySet(self._choices.policies[device], device))
            if device in self._choices.quanta:
                self.feed(QuantumSet(self._choices.quanta[device], device))

    def register(self, client: RegisteredClient, event: ClientRegistered) -> None:
        """Adds a client of a known device; IllegalEvent when the core refuses it."""
        self._clients[event.client] = client
        try:
            self.feed(event)
        except IllegalEvent:
            del self._clients[event.client]
            raise
        if event.recorded_grant is not None:
            if event.claimed in (ClaimedState.HOLDING, ClaimedState.DRAINING) and event.grant == event.recorded_grant:
                client.recorded_grant = event.grant
            else:
                self._record.released(event.recorded_grant)
        self._clients_changed(len(self._clients))

    def remove(self, number: int) -> RegisteredClient:
        """A client's connection ended; returns what was known of it."""
        client = self._clients[number]
        self._record.released(client.recorded_grant)
        self.feed(ClientGone(number))
        del self._clients[number]
        self._clients_changed(len(self._clients))
        return client

    def holder_died(self, grant: int) -> None:
        """A holder that is recorded, and was not back yet, runs no more."""
        self._record.released(grant)
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
        now = self._loop.time()
        actions = self._core.handle(event, now)
        self._log.debug("happened", what=event)
        if self._observe is not None:
            self._observe(event, actions, now)
        if isinstance(event, LockReleased):
            self._released(self._clients[event.client], event.grant)
        self._carry_out(actions)
        self._arm()
        self.announce()

    def set_quantum(self, seconds: float, device: str | None) -> None:
        """Sets a device's quantum, or everyone's; InvalidCommandError when that is not allowed."""
        check_quantum(seconds)
        self._check_device(device)
        self.feed(QuantumSet(seconds, device))
        self._choices.quantum_set(seconds, device)
        self._choices.save()
        self._log.info("quantum set", seconds=seconds, device=device or "all")

    def set_policy(self, policy: Policy, device: str | None) -> None:
        """Sets a device's policy, or everyone's, and ends a ``switch_off``; InvalidCommandError if not allowed."""
        self._check_device(device)
        self._switched_off.clear()
        self._apply(policy, device)
        self._choices.save()

    def switch_off(self) -> None:
        """Sets the policy of all to ``off``, until ``switch_on``."""
        if self._switched_off:
            return
        self._switched_off.update(self._core.policies())
        self._apply(Policy.OFF, None)
        self._choices.save()

    def switch_on(self) -> None:
        """Sets the policies as they were before ``switch_off``; nothing if that was not called."""
        former = dict(self._switched_off)
        self._switched_off.clear()
        for device, policy in former.items():
            if device is None or device in self._core.devices():
                self._apply(policy, device)
            else:
                self._choices.policy_set(policy, device)
        self._choices.save()

    def announce(self) -> None:
        """Wakes the watchers: something changed."""
        for watcher in self._watchers:
            watcher.set()

    def stop(self) -> None:
        """Stops the timer and wakes the watchers."""
        if self._timer is not None:
            self._timer.cancel()
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
        self._choices.policy_set(policy, device)
        self._log.info("policy set", policy=policy.value, device=device or "all")

    def _check_device(self, device: str | None) -> None:
        if device is not None and device not in self._core.devices():
            known = ", ".join(self._core.devices()) or "none yet"
            raise UnknownDeviceError(f"device {device!r} is unknown; known devices: {known}")

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            self._log.debug("to do", what=action)
            match action:
                case ReportUnresponsive(number, grant, overdue_seconds):
                    shown = self._clients[number].description
                    self._log.warning(
                        "holder does not give the lock back",
                        client=number,
                        pid=shown.pid,
                        command=shown.command,
                        grant=grant,
                        overdue_seconds=round(overdue_seconds, 3),
                    )
                case Grant(number, grant):
                    client = self._clients[number]
                    self._held(client, grant)
                    client.receiver.deliver(action)
                case _:
                    self._clients[action.client].receiver.deliver(action)

    def _held(self, client: RegisteredClient, grant: int) -> None:
        shown = client.description
        self._record.granted(Holder(client.device, grant, client.pid, client.started, shown.command))
        client.recorded_grant = grant

    def _released(self, client: RegisteredClient, grant: int) -> None:
        if grant == client.recorded_grant:
            self._record.released(grant)
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
        deadline = self._core.deadline()
        now = self._loop.time()
        if deadline is not None and now >= deadline:
            actions = self._core.handle_timer(now)
            if self._observe is not None:
                self._observe(None, actions, now)
            self._carry_out(actions)
            self.announce()
        self._arm()


def check_quantum(seconds: float) -> None:
    """InvalidCommandError unless a quantum of ``seconds`` is allowed."""
    if not SHORTEST_QUANTUM <= seconds <= LONGEST_QUANTUM:
        allowed = f"from {SHORTEST_QUANTUM:g} to {LONGEST_QUANTUM:g}"
        raise InvalidCommandError(f"quantum {seconds:g} s is not allowed; {allowed} s is")
