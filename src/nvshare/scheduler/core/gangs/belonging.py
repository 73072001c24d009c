"""Which clients are one gang, by the keys that they say."""

from __future__ import annotations

from collections.abc import Mapping

from nvshare.scheduler.core.actions import ReportSize
from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import GangJoined, GangLeft
from nvshare.scheduler.core.gangs.ties import MOST_KEYS, Ties
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.transitions import ClientState


class Belonging:
    """The gangs of all devices, and who is in them. What is illegal raises IllegalEvent and changes nothing."""

    def __init__(self, clients: Clients) -> None:
        """``clients``: all that are registered, as they are at any time."""
        self._clients = clients
        self._ties = Ties()
        self._last_gang = 0
        self.touched: dict[str, Device] = {}
        """Devices where something changed because of a client elsewhere."""
        self.reports: list[ReportSize] = []
        """What there is to say of that."""

    def touch(self, devices: Mapping[str, Device]) -> None:
        """Something changed on these because of a client elsewhere."""
        self.touched |= devices

    def join(self, event: GangJoined, client: Client, now: float) -> None:
        """A client says a key."""
        if self._ties.count(event.client) >= MOST_KEYS and not self._ties.has(event.client, event.key):
            raise IllegalEvent(f"client {event.client} is tied by {MOST_KEYS} keys and can't be by more", event)
        self._ties.join(event)
        self._rebuild(client)
        size = self._ties.size_said(event.key)
        if size != event.processes:
            self.reports.append(ReportSize(event.client, event.name, event.processes, size))
        # Who says a key before its first grant comes back, maybe before the others do.
        waits = not size and (event.process or not client.grants)
        if waits and client.tied is not None and len(client.tied.members) == 1:
            client.tied.lose(now)

    def leave(self, event: GangLeft, client: Client) -> None:
        """A client does not say a key any more."""
        if not self._ties.has(event.client, event.key):
            raise IllegalEvent(f"client {event.client} is not tied by this key", event)
        self._ties.leave(event.client, event.key)
        self._rebuild(client)

    def gone(self, client: Client, now: float) -> None:
        """A client that says keys is about to be gone."""
        members = () if client.tied is None else client.tied.members
        self._ties.leave_all(client.number)
        self._rebuild(client)
        for other, _ in self._clients.members(members):
            if other.tied is not None and other.tied.may_lack:
                other.tied.lose(now)

    def are_there(self) -> bool:
        """Whether anybody says a key."""
        return self._ties.are_there()

    def lacks(self, key: str) -> bool:
        """Whether those who say a key wait for more processes that say it."""
        return self._ties.lacks(key)

    def plan_for(self, gang: Gang) -> None:
        """It may have to do something."""
        for client, device in self._clients.members(gang.members):
            device.plan_for(client)

    def rest(self, gang: Gang) -> None:
        """It has nothing to do before one of it asks for the lock, or somebody joins or leaves it, if all are idle."""
        members = self._clients.members(gang.members)
        if all(client.state is ClientState.IDLE for client, _ in members):
            for client, device in members:
                device.plan_no_more_for(client)

    def gangs_on(self, devices: list[Device]) -> list[Gang]:
        """All that have members on one of these devices and may have to do something together."""
        return [gang for gang in self.tied_on(devices) if not gang.is_lone]

    def tied_on(self, devices: list[Device]) -> list[Gang]:
        """These, and all that have one member that waits for others, or where something changed."""
        clients = [client for device in devices for client in self._clients.of(device.ganged)]
        return list(dict.fromkeys(client.tied for client in clients if client.tied is not None))

    def connected(self, device: Device) -> list[Device]:
        """A device, and all on which something may change when it does."""
        found = {device.uuid: device} | self.touched
        open_ends = list(found.values())
        while open_ends:
            for gang in self.gangs_on([open_ends.pop()]):
                for _, other in self._clients.members(gang.members):
                    if other.uuid not in found:
                        found[other.uuid] = other
                        open_ends.append(other)
        return list(found.values())

    def _rebuild(self, client: Client) -> None:
        """The gang of a client anew, and all that were, or are, in one with it."""
        affected = {client.number}
        affected.update(() if client.tied is None else client.tied.members, self._ties.together(client.number))
        found: set[Gang] = set()
        done: set[int] = set()
        for number in sorted(affected):
            if number in done:
                continue
            members = self._ties.together(number) if self._ties.count(number) else [number]
            done.update(members)
            gang = self._gang_for(members, found) if self._ties.count(number) else None
            for member, device in self._clients.members(members):
                member.tie(gang)
                device.plan_for(member)
                self.touched[device.uuid] = device
            if gang is not None:
                found.add(gang)
                self._describe(gang, members)

    def _describe(self, gang: Gang, members: list[int]) -> None:
        ties = self._ties
        gang.describe(
            tuple(members),
            name=ties.name(members),
            elsewhere=ties.elsewhere(members),
            may_lack=ties.may_lack(members),
            in_part=ties.are_uncounted(members),
            missing=ties.missing(members),
        )

    def _gang_for(self, members: list[int], taken: set[Gang]) -> Gang:
        for client, _ in self._clients.members(members):
            if client.tied is not None and client.tied not in taken:
                return client.tied
        self._last_gang += 1
        return Gang(self._last_gang)
