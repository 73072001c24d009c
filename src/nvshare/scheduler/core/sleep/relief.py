"""Who is put to sleep for others: **the rules**.

Somebody lacks room that there is when others sleep (``Device.needy``): a new context, one that comes back, or memory
that does not fit beside the contexts. Of several, it is the first by the order of turns; who does not wait for the
lock has its place there by when it came, or wanted to be awake. For it others sleep, one process of the device after
the other:

- first who is idle, least recently used first;
- then who waits for its turn and is behind the one that lacks room, the last in line first. When it is awake again it
  has the place in line that it had, and is not put to sleep before its turn for one that is in no line;
- where there is no such one, and nobody in line for whom holders leave anyway, a holder leaves when its turn is over
  (lock/way.py), on each of the devices that its process has. It is idle then, or waits behind.

Who lacks room is owed the floor of its class as those in line are (lock/turns.py), and who has a slice is before all
classes. So a higher class that is never idle keeps no lower one out for good, and sleeps for it no more often than the
floor has slices.

Where nobody can sleep for the first one now, the next one is helped. Who is in line and can't come in before others
sleep is not before that one: who asks for memory does not sleep, so each of the two would wait for the other.

Who is to sleep next is granted no lock, since it would have it before the one that lacks room, again and again. Who
slept for a gang does not come back before that had its turn: beside each of its members alone there would be room. So
nobody keeps another one out for good that could sleep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile

from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.process import Process, Sleep
from nvshare.scheduler.core.sleep.idleness import grants, idle_since, is_idle
from nvshare.scheduler.core.sleep.reasons import Reasons
from nvshare.scheduler.core.sleep.storing import Storing
from nvshare.scheduler.core.transitions import ClientState


class Relief:
    """The choice, on all devices."""

    def __init__(
        self,
        clients: Clients,
        reasons: Reasons,
        storing: Storing,
        moving: Mapping[int, Process],
    ) -> None:
        """``clients``: all there are, by number; ``moving``: the processes that are neither awake nor asleep."""
        self._clients, self._reasons, self._storing, self._moving = clients, reasons, storing, moving
        self._first: dict[str, Process | None] = {}
        """Who is to sleep next on each device for another one; None: nobody."""
        self._needy: dict[str, Client | None] = {}
        """For whom others sleep on each device; None: nobody lacks room."""
        self._ways: dict[str, tuple[Client, frozenset[int]]] = {}
        """The same, where some have to give back locks before they can sleep; and the numbers of all clients of these,
        on whichever devices."""

    def choose(
        self, device: Device, there: Collection[tuple[Client, Process]], now: float
    ) -> tuple[Process | None, list[Device]]:
        """Who of those on a device is to sleep next for others; and on which devices the lock has to look again.

        ``there``: its clients whose processes can sleep.
        """
        _, former = self._ways.pop(device.uuid, (None, ()))
        needy, first, makers = self._help(device, there, now)
        if needy is not None and makers:
            self._ways[device.uuid] = needy, makers
        lacks = needy is not None or self._storing.lacks or self._one_comes(device)
        lock = device.lock
        touched = [device] if lock.blocking.is_sleep_lacking is not lacks else []
        # Holders that only hold, because nobody waits, are told that they are to give way when they are idle.
        lock.blocking.lack_sleep(lacks=lacks)
        touched += self._have_give_way(device, None if needy is None else first)
        # What its clients on one device do decides what its contexts on another one are counted as.
        for process in [process for _, process in there if len(process.clients) > 1]:
            if process.will(sleep=not self._reasons.unwilling(process)):
                touched += self._clients.devices_of(process.clients)
        if lock.turns.lack(device.first_lacking(now)):
            touched.append(device)
        return first, touched + self._ask_for_way((*makers, *former))

    def concerned(self, devices: Iterable[Device]) -> Iterable[Device]:
        """These, and those for which holders of these are to make way."""
        found = dict.fromkeys(devices)
        for needy, makers in self._ways.values():
            if any(number in self._clients and self._clients[number][1] in found for number in makers):
                found[self._clients.device_of(needy)] = None
        return found

    def may_sleep(self, process: Process) -> bool:
        """Whether its clients do nothing, or wait behind who lacks room on one of its devices."""
        if is_idle(self._clients.of(process.clients)):
            return True
        needy = (self._needy.get(device.uuid) for device in self._clients.devices_of(process.clients))
        return any(self._is_behind(process, each) for each in needy if each is not None)

    def could_sleep(self, process: Process, *, soon: bool = False) -> bool:
        """Whether a process is about to sleep, or could if its clients gave back the locks of their devices; ``soon``:
        as of ``Reasons.unable``."""
        if self._stands_still(process):
            return False
        if any(each.state is ClientState.UNRESPONSIVE for each in self._clients.of(process.clients)):
            return False
        return process.leaves or self._may_be_chosen(process, soon=soon)

    def comes_later(self, process: Process) -> bool:
        """Whether one that is before it in line would lack room if it came back: it does so after that one's turn."""
        return any(self._keeps_out(*member) for member in self._clients.members(process.clients))

    def none_sleeps(self, device: Device) -> None:
        """No process of a device can sleep any more."""
        device.lock.blocking.may_sleep(any_may=False)
        device.lock.turns.lack({})
        _, makers = self._ways.pop(device.uuid, (None, ()))
        self._ask_for_way(makers)

    def forget(self, client: Client) -> list[Device]:
        """A client is gone; on which devices the lock has to look again."""
        self._needy = {uuid: needy for uuid, needy in self._needy.items() if needy is not client}
        ways = self._ways
        self._ways = {uuid: way for uuid, way in ways.items() if way[0] is not client}
        return self._ask_for_way(number for needy, makers in ways.values() if needy is client for number in makers)

    # The rest is its own.

    def _help(
        self, device: Device, there: Collection[tuple[Client, Process]], now: float
    ) -> tuple[Client | None, Process | None, frozenset[int]]:
        """The first on a device that lacks room and for which somebody sleeps, or may; which process is to sleep next
        for that, or else the clients, by number, of those that are to make way. None lacks room: who sleeps for host
        memory."""
        self._needy[device.uuid] = first = next(device.needy(now), None)
        if first is None and not self._storing.lacks:
            return None, None, frozenset()
        processes = [process for _, process in there]
        leaving = [process for process in processes if process.leaves and not self._stands_still(process)]
        able = [process for process in processes if self._may_be_chosen(process)]
        for needy in device.needy(now):
            self._needy[device.uuid] = needy
            if any(process is not needy.process for process in leaving):
                return needy, None, frozenset()
            behind = [each for each in able if each is not needy.process and self._is_behind(each, needy)]
            if behind:
                return needy, min(behind, key=self._order), frozenset()
            others = (process for process in processes if process is not needy.process and self._holds(process))
            makers = frozenset(number for each in filter(self.could_sleep, others) for number in each.clients)
            if makers:
                return needy, None, makers
        self._needy[device.uuid] = first
        helping = [each for each in able if is_idle(self._clients.of(each.clients)) and self._storing.helps(each)]
        return first, None if first or leaving else min(helping, key=self._order, default=None), frozenset()

    def _have_give_way(self, device: Device, process: Process | None) -> list[Device]:
        """This one alone, of those on a device, is to sleep next for another one; for which devices that is news."""
        former = self._first.get(device.uuid)
        touched = []
        if former is not process and former is not None and device.uuid in former.gives_way_on:
            former.give_way(device.uuid, gives=False)
            touched += self._clients.devices_of(former.clients)
        if process is not None and device.uuid not in process.gives_way_on:
            process.give_way(device.uuid, gives=True)
            touched += self._clients.devices_of(process.clients)
        self._first[device.uuid] = process
        return touched

    def _one_comes(self, device: Device) -> bool:
        """Whether one that has a client on a device comes back."""
        coming = (process for process in self._moving.values() if process.state is Sleep.COMING)
        return any(device in self._clients.devices_of(process.clients) for process in coming)

    def _keeps_out(self, client: Client, device: Device) -> bool:
        """Whether a gang that is before one that sleeps, and may come in before it, would lack room beside it. What
        others need alone that can't sleep, admission has counted."""
        lock, residency = device.lock, device.residency
        place = lock.turns.place(client)
        before = takewhile(lambda unit: lock.turns.place(unit.coming[0]) < place, lock.turns.in_turn_asleep())
        large = (unit for unit in before if unit.gang is not None and residency.lacks_beside(unit, client))
        return any(lock.may_come(unit, asleep=True) for unit in large)

    def _holds(self, process: Process) -> bool:
        """Whether one of its clients holds."""
        return any(client.holds for client in self._clients.of(process.clients))

    def _ask_for_way(self, makers: Iterable[int]) -> list[Device]:
        """Holders of the devices of these are asked for way, or are no more; returns those where that is news."""
        devices = dict.fromkeys(self._clients[number][1] for number in makers if number in self._clients)
        return [device for device in devices if device.lock.way.ask(*self._way_on(device))]

    def _way_on(self, device: Device) -> tuple[Client | None, frozenset[int]]:
        """For whom one of those holders of a device is to leave; for its own clients before those of other devices."""
        own = self._ways.get(device.uuid)
        for needy, makers in [own, *self._ways.values()] if own else self._ways.values():
            here = {number for number in makers if number in self._clients and self._clients[number][1] is device}
            if here:
                return needy, frozenset(here)
        return None, frozenset()

    def _may_be_chosen(self, process: Process, *, soon: bool = False) -> bool:
        is_awake = process.state is Sleep.AWAKE and not self._stands_still(process)
        return is_awake and not self._reasons.unable(process, soon=soon)

    def _stands_still(self, process: Process) -> bool:
        """Whether it does not do what it was told, or would not: a client of it is late already."""
        return process.stands_still or any(each.silent or each.keeps_room for each in self._clients.of(process.clients))

    def _is_behind(self, process: Process, needy: Client) -> bool:
        """Whether its clients do nothing, or wait behind another one, or can't come in themselves as it is now."""
        owed = process.sleeps > 0 and process.is_owed_a_turn(grants(self._clients.of(process.clients)))
        for client, device in self._clients.members(process.clients):
            turns = device.lock.turns
            waits = client.state is ClientState.WAITING
            is_before = waits and turns.place(client) < turns.place(needy)
            if client.holds or (is_before and not device.residency.never_fits(client)):
                return False
            # One that is in no line keeps nobody from a turn: who has just woken for its own has that first.
            if owed and waits and needy.unit not in turns and device.lock.may_come(client.unit):
                return False
        return True

    def _order(self, process: Process) -> tuple[bool, float, float]:
        """Who has a lower one is chosen first."""
        clients = self._clients.of(process.clients)
        if is_idle(clients):
            return False, idle_since(process, clients), 0.0
        places = [self._clients.device_of(each).lock.turns.place(each) for each in clients]
        rank, ticket = max(places)
        return True, -rank, -ticket
