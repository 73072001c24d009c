"""Who is put to sleep for others: **the rules**.

Somebody lacks room that there is when others sleep (``Device.needy``): a new context, one that comes back, or memory
that does not fit beside the contexts. Of several, it is the first by the order of turns; who does not wait for the
lock has its place there by when it came, or wanted to be awake. For it others sleep, one process of the device after
the other:

- first who is idle, least recently used first;
- then who waits for its turn and is behind the one that lacks room, the last in line first. When it is awake again it
  has the place in line that it had;
- where there is no such one, and nobody in line for whom holders leave anyway, a holder leaves when its turn is over
  (lock/way.py). It is idle then, or waits behind.

Who lacks room is owed the floor of its class as those in line are (lock/turns.py), and who has a slice is before all
classes. So a higher class that is never idle keeps no lower one out for good, and sleeps for it no more often than the
floor has slices.

Where nobody can sleep for the first one now, the next one is helped. Who is in line and can't come in before others
sleep is not before that one: who asks for memory does not sleep, so each of the two would wait for the other.

Who is to sleep next is granted no lock, since it would have it before the one that lacks room, again and again. So
nobody keeps another one out for good that could sleep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.process import Process, Sleep
from nvshare.scheduler.core.sleep.idleness import idle_since, is_idle
from nvshare.scheduler.core.sleep.reasons import Reasons
from nvshare.scheduler.core.sleep.storing import Storing
from nvshare.scheduler.core.transitions import ClientState


class Relief:
    """The choice, on all devices."""

    def __init__(self, clients: Mapping[int, tuple[Client, Device]], reasons: Reasons, storing: Storing) -> None:
        """``clients``: all there are, by number."""
        self._clients, self._reasons, self._storing = clients, reasons, storing
        self._needy: dict[str, Client | None] = {}
        """For whom others sleep on each device; None: nobody lacks room."""

    def choose(
        self, device: Device, there: Collection[tuple[Client, Process]], now: float
    ) -> tuple[Process | None, list[Device]]:
        """Who of those on a device is to sleep next for others; and on which devices the lock has to look again.

        ``there``: its clients whose processes can sleep.
        """
        processes = {process.number: process for _, process in there}.values()
        needy, first, makers = self._help(device, there, now)
        lacks = needy is not None or self._storing.lacks or any(each.state is Sleep.COMING for each in processes)
        lock = device.lock
        touched = [device] if lock.blocking.is_sleep_lacking is not lacks else []
        # Holders that only hold, because nobody waits, are told that they are to give way when they are idle.
        lock.blocking.lack_sleep(lacks=lacks)
        for process in processes:
            if (device.uuid in process.gives_way_on) is not (process is first and needy is not None):
                process.give_way(device.uuid, gives=process is first and needy is not None)
                touched += [self._clients[number][1] for number in process.clients]
        is_news = lock.way.ask(needy if makers else None, makers)
        if lock.turns.lack(device.first_lacking(now)) or is_news:
            touched.append(device)
        return first, touched

    def may_sleep(self, process: Process) -> bool:
        """Whether its clients do nothing, or wait behind who lacks room on one of its devices."""
        needy = [self._needy.get(self._clients[number][1].uuid) for number in process.clients]
        return is_idle(self._clients_of(process)) or any(each and self._is_behind(process, each) for each in needy)

    def could_sleep(self, client: Client) -> bool:
        """Whether a client's process is about to sleep, or could if this client gave back the lock of its device."""
        process = client.process
        if process is None or client.state is ClientState.UNRESPONSIVE or self._stands_still(process):
            return False
        if process.leaves:
            return True
        holds = any(each.holds for each in self._clients_of(process) if each is not client)
        return process.state is Sleep.AWAKE and not holds and not self._reasons.unable(process)

    def none_sleeps(self, device: Device) -> None:
        """No process of a device can sleep any more."""
        lock = device.lock
        lock.blocking.may_sleep(any_may=False)
        lock.way.ask(None, frozenset())
        lock.turns.lack({})

    def forget(self, client: Client) -> None:
        """A client is gone."""
        self._needy = {uuid: needy for uuid, needy in self._needy.items() if needy is not client}

    # The rest is its own.

    def _help(
        self, device: Device, there: Collection[tuple[Client, Process]], now: float
    ) -> tuple[Client | None, Process | None, frozenset[int]]:
        """The first on a device that lacks room and for which somebody sleeps, or may; which process is to sleep next
        for that, or else which holders, by number, are to make way. None lacks room: who sleeps for host memory."""
        processes = {process.number: process for _, process in there}.values()
        leaving = [process for process in processes if process.leaves and not self._stands_still(process)]
        able = [process for process in processes if self._may_be_chosen(process)]
        first: Client | None = None
        for needy in device.needy(now):
            first = first or needy
            self._needy[device.uuid] = needy
            if any(process is not needy.process for process in leaving):
                return needy, None, frozenset()
            behind = [each for each in able if each is not needy.process and self._is_behind(each, needy)]
            if behind:
                return needy, min(behind, key=self._order), frozenset()
            holding = [client for client, _ in there if client.holds and client is not needy]
            makers = frozenset(client.number for client in holding if self.could_sleep(client))
            if makers:
                return needy, None, makers
        self._needy[device.uuid] = first
        helping = [each for each in able if is_idle(self._clients_of(each)) and self._storing.helps(each)]
        return first, None if first or leaving else min(helping, key=self._order, default=None), frozenset()

    def _may_be_chosen(self, process: Process) -> bool:
        return process.state is Sleep.AWAKE and not self._stands_still(process) and not self._reasons.unable(process)

    def _stands_still(self, process: Process) -> bool:
        """Whether it does not do what it was told, or would not: a client of it is late already."""
        return process.stands_still or any(each.silent or each.keeps_room for each in self._clients_of(process))

    def _is_behind(self, process: Process, needy: Client) -> bool:
        """Whether its clients do nothing, or wait behind another one, or can't come in themselves as it is now."""
        for number in process.clients:
            client, device = self._clients[number]
            turns = device.lock.turns
            is_before = client.state is ClientState.WAITING and turns.place(client) < turns.place(needy)
            if client.holds or (is_before and not device.residency.never_fits(client)):
                return False
        return True

    def _order(self, process: Process) -> tuple[bool, float, float]:
        """Who has a lower one is chosen first."""
        clients = self._clients_of(process)
        if is_idle(clients):
            return False, idle_since(process, clients), 0.0
        places = [self._clients[each.number][1].lock.turns.place(each) for each in clients]
        rank, ticket = max(places)
        return True, -rank, -ticket

    def _clients_of(self, process: Process) -> list[Client]:
        return [self._clients[number][0] for number in process.clients]
