"""Connects the pure core with the clients: events in, actions out to whom they name, the core's timer kept."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nvshare.scheduler.connection import Fault, PeerError
from nvshare.scheduler.core.actions import Grant, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ClientGone, DeviceSeen, Policy, PolicySet, QuantumSet

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from structlog.typing import FilteringBoundLogger

    from nvshare.scheduler.core.actions import Action
    from nvshare.scheduler.core.core import Core
    from nvshare.scheduler.core.events import ClientRegistered, Event
    from nvshare.scheduler.core.snapshot import DeviceSnapshot
    from nvshare.scheduler.log import PeerLog
    from nvshare.scheduler.pods.description import Description

MAX_DEVICES = 256
"""More than a node has, few enough that invented UUIDs fill no memory."""

SHORTEST_QUANTUM = 0.01
LONGEST_QUANTUM = 86400.0


class CommandError(Exception):
    """A command's value is not allowed; the message names it and what is allowed."""


class UnknownDeviceError(CommandError):
    """A command names a device that this scheduler does not know."""


class Client(Protocol):
    """A registered client's conversation, as the switchboard uses it."""

    def perform(self, action: Grant | Revoke | TellWaiters) -> None:
        """Tell the client what the core decided."""

    def run_free(self, free: bool) -> None:
        """The policy of the client's device became, or is about to cease to be, ``off``."""


@dataclass(slots=True)
class Member:
    """What is known of a registered client beside the core's state."""

    client: Client
    device: str
    protocol_version: int
    backend: str
    """managed, native, or empty when the protocol does not say."""
    pid: int
    """As the kernel says; 0 when it does not."""
    description: Description


class Switchboard:
    """The core, the clients by number, and everybody who wants to know that something changed."""

    def __init__(
        self,
        core: Core,
        policy: Policy,
        loop: asyncio.AbstractEventLoop,
        log: FilteringBoundLogger,
        peer_log: PeerLog,
        population_changed: Callable[[int], None],
    ) -> None:
        """``population_changed`` is called with the number of clients whenever it changed."""
        self._core = core
        self._loop = loop
        self._log = log
        self._peer_log = peer_log
        self._population_changed = population_changed
        self._numbers = itertools.count(1)
        self._members: dict[int, Member] = {}
        self._policy = policy
        self._policies: dict[str, Policy] = {}
        self._restored_policies: dict[str | None, Policy] = {}
        self._unsized: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._watchers: set[asyncio.Event] = set()

    @property
    def members(self) -> Mapping[int, Member]:
        """Every registered client by number."""
        return self._members

    @property
    def devices(self) -> Iterable[str]:
        """Every device seen so far."""
        return self._policies.keys()

    @property
    def watchers(self) -> set[asyncio.Event]:
        """Events that are set after every change; who watches adds its own."""
        return self._watchers

    def snapshot(self) -> tuple[DeviceSnapshot, ...]:
        """The core's picture of now."""
        return self._core.snapshot(self._loop.time())

    def runs_free(self, device: str) -> bool:
        """Whether the policy of a device is ``off``."""
        return self._policies.get(device, self._policy) is Policy.OFF

    def next_number(self) -> int:
        """A number for a client to be."""
        return next(self._numbers)

    def make_room(self, device: str, total_bytes: int) -> None:
        """Makes a device known, with so much memory (0: unknown) if it is not; PeerError when there are too many."""
        if device in self._policies:
            if total_bytes and device in self._unsized:
                self._unsized.discard(device)
                self.feed(DeviceSeen(device, total_bytes))
            return
        if len(self._policies) >= MAX_DEVICES:
            raise PeerError(f"this scheduler knows {MAX_DEVICES} devices already", Fault.DEVICE)
        self._policies[device] = self._policy
        if not total_bytes:
            self._unsized.add(device)
        self.feed(DeviceSeen(device, total_bytes))

    def register(self, number: int, member: Member, registration: ClientRegistered) -> None:
        """Adds a client of a known device; IllegalEvent when the core refuses it."""
        self._members[number] = member
        try:
            self.feed(registration)
        except IllegalEvent:
            del self._members[number]
            raise
        self._population_changed(len(self._members))

    def remove(self, number: int) -> None:
        """A client's connection ended."""
        shown = self._members.pop(number).description
        self.feed(ClientGone(number))
        self._peer_log.info("client left", client=number, pid=shown.pid, command=shown.command)
        self._population_changed(len(self._members))

    def described(self, number: int, description: Description) -> None:
        """It is known now who a client is; it may be gone."""
        member = self._members.get(number)
        if member is not None:
            member.description = description
            self.announce()

    def feed(self, event: Event) -> None:
        """Tells the core what happened and does what it answers; IllegalEvent when the state does not allow it."""
        self._perform(self._core.handle(event, self._loop.time()))
        self._arm()
        self.announce()

    def set_quantum(self, seconds: float, device: str | None) -> None:
        """Sets a device's quantum, or everyone's; CommandError when that is not allowed."""
        check_quantum(seconds)
        self._check_device(device)
        self.feed(QuantumSet(seconds, device))
        self._log.info("quantum set", seconds=seconds, device=device or "all")

    def set_policy(self, policy: Policy, device: str | None) -> None:
        """Sets a device's policy, or everyone's; CommandError when that is not allowed. It ends a ``switch_off``."""
        self._check_device(device)
        self._restored_policies.clear()
        self._apply(policy, device)

    def switch_off(self) -> None:
        """Policy ``off`` for all, to be taken back by ``switch_on``."""
        if self._restored_policies:
            return
        self._restored_policies[None] = self._policy
        self._restored_policies.update(self._policies)
        self._apply(Policy.OFF, None)

    def switch_on(self) -> None:
        """Back to the policies before ``switch_off``."""
        former, self._restored_policies = self._restored_policies, {}
        for device, policy in former.items():
            self._apply(policy, device)

    def announce(self) -> None:
        """Tells whoever watches that something is to be seen."""
        for watcher in self._watchers:
            watcher.set()

    def stop(self) -> None:
        """No timer fires any more, and whoever watches wakes up."""
        if self._timer is not None:
            self._timer.cancel()
        self.announce()

    def _apply(self, policy: Policy, device: str | None) -> None:
        members = [member for member in self._members.values() if device in (None, member.device)]
        if policy is not Policy.OFF:
            for member in members:
                member.client.run_free(False)
        self.feed(PolicySet(policy, device))
        if device is None:
            self._policy = policy
            self._policies = dict.fromkeys(self._policies, policy)
        else:
            self._policies[device] = policy
        if policy is Policy.OFF:
            for member in members:
                member.client.run_free(True)
        self._log.info("policy set", policy=policy.value, device=device or "all")

    def _check_device(self, device: str | None) -> None:
        if device is not None and device not in self._policies:
            known = ", ".join(self._policies) or "none yet"
            raise UnknownDeviceError(f"device {device!r} is unknown; known devices: {known}")

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case ReportUnresponsive(client, grant, overdue_seconds):
                    shown = self._members[client].description
                    self._log.warning(
                        "holder does not give the lock back",
                        client=client,
                        pid=shown.pid,
                        command=shown.command,
                        grant=grant,
                        overdue_seconds=round(overdue_seconds, 3),
                    )
                case _:
                    self._members[action.client].client.perform(action)

    def _arm(self) -> None:
        deadline = self._core.deadline()
        if deadline is None:
            return
        # A timer that fires too early only looks again: cheaper than a new one for every event.
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
            self._perform(self._core.handle_timer(now))
            self.announce()
        self._arm()


def check_quantum(seconds: float) -> None:
    """CommandError unless a quantum of so many seconds is allowed."""
    if not SHORTEST_QUANTUM <= seconds <= LONGEST_QUANTUM:
        allowed = f"from {SHORTEST_QUANTUM:g} to {LONGEST_QUANTUM:g}"
        raise CommandError(f"quantum {seconds:g} s is not allowed; {allowed} s is")
