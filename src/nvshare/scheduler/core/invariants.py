"""What holds after every plan, whatever happened before.

1. Whoever waits has somebody who still has to do something, or a moment at which the core acts by itself; or only the
   user or the machine can end what it waits for, and a snapshot says what that is. Who has room when others sleep does
   not wait for their ends.
2. A plan promises no memory that is not there: of a device, of the host, or of a container's limit. What it promises is
   counted at its worst: each client may go by anything that it was told and has not answered.
3. A plan that says no moment of a device rests there: as long as nothing happens there is nothing more to do.
4. A sum that is kept is what it is when it is added up anew.

A scheduler that is run with ``NVSHARE_DEBUG=1`` looks after every plan, and so do the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.process import Sleep
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState
from nvshare.scheduler.core.transitions import ClientState

_Promised = dict[object, int]


class CheckedCore(Core):
    """A core that looks whether the invariants hold; ``broken`` is called with what does not."""

    def __init__(self, settings: Settings, broken: Callable[[str], None]) -> None:
        super().__init__(settings)
        self._broken = broken

    def plan(self, now: float) -> list[Action]:
        """As of a core. Where a plan does not rest, what it leaves over is done in the same step."""
        before = self._promised()
        actions = super().plan(now)
        for what, size in self._promised().items():
            if size > max(0, before.get(what, 0)):
                self._broken(f"{size} bytes more are promised than there are: {what}")
        for what, kept, found in self._sums():
            if kept != found:
                self._broken(f"{what} {kept} bytes by the sum that is kept, and {found} when added up")
        if self._changed or self._is_owed():
            return actions
        # A moment that only the second plan names was lost.
        rests = self.deadline() is None
        self._mark(*(device for device in self._devices.values() if device.deadline is None))
        again = super().plan(now)
        if again:
            self._broken(f"a plan does not rest: {again} is to be done after {actions}")
        for client in self._waiting_for_nothing(now) if rests else ():
            self._broken(f"a client waits for ever: {client}")
        return actions + again

    def _promised(self) -> _Promised:
        """By how much more is promised than there is, of each thing that there is; negative: so much is left.

        It is added up here from what each client was told, whatever sums the rules keep.
        """
        found: _Promised = {"host memory": self._sleeping.storing.sharing.packs_bytes - self._host.budget_bytes}
        for uuid, device in self._devices.items():
            ledger, estates = device.ledger, list(device.residency.estates)
            if device.residency.clients:
                left = sum(estate.device_bytes for estate in estates) + ledger.shortage_bytes
                found[uuid] = left - ledger.total_bytes + ledger.foreign_bytes
            found["host memory"] += sum(estate.memory.taken_bytes for estate in estates)
        for client, device in self._clients.values():
            memory, limit_bytes = client.memory, client.container.terms.memory_limit_bytes
            if device.uuid in found:
                # Whoever asks for a context is charged with that only so that nobody else gets it.
                found[device.uuid] += memory.fixed_bytes + memory.charge_bytes - memory.ahead_bytes
            found["host memory"] += memory.taken_bytes
            if limit_bytes is not None:
                what = device.uuid, client.container.name or client.number
                found[what] = found.get(what, -limit_bytes) + memory.claimed_bytes
        return found

    def _sums(self) -> Iterator[tuple[str, int, int]]:
        """What each sum is of, the sum as it is kept, and as it is found anew."""
        gone = [estate.memory for device in self._devices.values() for estate in device.residency.estates]
        memories = [client.memory for client, _ in self._clients.values()]
        yield "clients have of host memory", self._host.clients_bytes, sum(each.taken_bytes for each in memories + gone)
        yield "packs have", self._host.packs_bytes, self._sleeping.storing.sharing.packs_bytes
        yield "files have", self._host.file_used_bytes, sum(each.file_bytes for each in memories)
        for uuid, device in self._devices.items():
            fixed = sum(client.memory.fixed_bytes for client, on in self._clients.values() if on is device)
            departed = sum(estate.device_bytes for estate in device.residency.estates)
            ledger = device.ledger
            yield f"on {uuid} clients leave", ledger.left_bytes, ledger.all_bytes - fixed - departed
            for group in device.lock.holders.groups:
                movable = sum(client.memory.movable_bytes for client in group)
                yield f"on {uuid} holders have", group.movable_bytes, movable

    def _is_owed(self) -> bool:
        """Whether something will happen: a client or the shell has to answer, or it will be known what one left that is
        gone."""
        devices = [device.residency for device in self._devices.values()]
        estates = any(True for residency in devices for _ in residency.estates)
        return (
            estates
            or not all(residency.checked for residency in devices)
            or bool(self._host.awaited)
            or any(_owes(client) for client, _ in self._clients.values())
        )

    def _waiting_for_nothing(self, now: float) -> Iterator[ClientSnapshot]:
        devices = self.snapshot(now)
        for_sleep = {client.number for device in self._devices.values() for client in device.needy(now)}
        on = {client.client: device for device in devices for client in device.clients}
        for client in (client for device in devices for client in device.clients if waits(client)):
            number, process = client.client, self._clients[client.client][0].process
            # A process on several devices wakes on all of them.
            comes = process is not None and (process.state is Sleep.COMING or process.kept_out)
            mates = process.clients if process is not None and comes else (number,)
            shown = [(self.client(each, now), on[each], each in for_sleep) for each in mates]
            if not any(reasons(each, place, devices, for_sleep=sleeps) for each, place, sleeps in shown):
                yield client


def _owes(client: Client) -> bool:
    """Whether a client has something to do that it was told, so that something will happen."""
    if client.state is ClientState.LEAVING or client.told or client.killed:
        return True
    if client.process is not None and client.process.state in (Sleep.FALLING, Sleep.WAKING):
        return True
    memory = client.memory
    if not memory.swaps:
        return False
    away = memory.away
    if memory.asleep:
        return away.goes_to is not None or away.asked_bytes > 0 or away.is_made
    registers = memory.arena_asked_bytes > 0 or memory.usable_bytes < memory.arena_bytes
    # Who registers asks for its first context at once.
    is_new = memory.ahead_bytes > 0 and memory.growth is None
    return not memory.is_heard or registers or memory.is_moving or is_new


def waits(client: ClientSnapshot) -> bool:
    """Whether a client waits for the lock, for a growth, for its process to wake, or as a holder for its own memory."""
    swap = client.swap
    if client.state in (ShownState.WAITING, ShownState.WAKING) or (swap is not None and swap.wanted_bytes > 0):
        return True
    return client.state is ShownState.HOLDING and swap is not None and swap.out_bytes > 0


def reasons(
    client: ClientSnapshot, device: DeviceSnapshot, devices: tuple[DeviceSnapshot, ...], *, for_sleep: bool = False
) -> list[str]:
    """Of what a client that waits is shown to wait for, that which only the user or the machine can end.

    ``for_sleep``: it has room when others sleep.
    """
    line, wait = client.line, client.wait
    found: list[str] = []
    if any(each.recovering for each in devices):
        found.append("a holder of the scheduler before is awaited")
    if line is not None and line.too_large:
        found.append("it is larger than the device")
    if line is not None and line.limit_seconds > 0:
        found.append("its container's compute limit is used up")
    if wait is not None and wait.too_large:
        found.append("one of its gang is larger than the device")
    if wait is not None and wait.expected > wait.come:
        found.append("its gang is not complete")
    where = [device] if client.gang is None else list(devices)
    all_clients = [each for place in devices for each in place.clients if each.client != client.client]
    others = [each for each in all_clients if not each.container or each.container != client.container]
    if client.swap is not None and client.swap.wait and not for_sleep and any(map(_may_end, others)):
        found.append(client.swap.wait)
    # One that does not come in itself, too: its process is stopped.
    for other in (each for place in where for each in place.clients):
        if other.state is ShownState.UNRESPONSIVE:
            found.append(f"{other.client} does not give the lock back")
        if other.swap is not None and other.swap.still_seconds > 0:
            found.append(f"{other.client} has not moved for {other.swap.still_seconds} s")
    return found


def _may_end(client: ClientSnapshot) -> bool:
    """Whether it has memory, and does not wait for others' ends itself."""
    has = client.pinned_bytes + (client.footprint_bytes or 0) > 0
    return has and (client.swap is None or not client.swap.wait)
