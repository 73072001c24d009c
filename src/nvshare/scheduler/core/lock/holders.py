"""All holders of one device, and who may hold together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.leaving import needed_bytes
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.transitions import ClientState


class Group:
    """Some holders in order, with the sum of their movable memory. Every operation takes constant time."""

    __slots__ = ("_clients", "changes", "count", "gangs", "movable_bytes", "odd", "paging_bytes", "unknown")

    def __init__(self) -> None:
        self._clients: OrderedDict[int, Client] = OrderedDict()
        self.count = 0
        self.movable_bytes = 0
        self.paging_bytes = 0
        """Of the movable memory, that of clients that do not swap."""
        self.unknown = 0
        """How many of them do not report their footprint."""
        self.odd = 0
        """How many of them have a turn that is no whole quantum."""
        self.gangs: dict[Gang, int] = {}
        """How many of them hold as one with a gang, by gang."""
        self.changes = 0
        """Counts up whenever a client comes, goes or changes its footprint."""

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients.values())

    def __reversed__(self) -> Iterator[Client]:
        return reversed(self._clients.values())

    def __contains__(self, client: Client) -> bool:
        return client.number in self._clients

    def first(self) -> Client:
        """The first client; the group is not empty."""
        return next(iter(self._clients.values()))

    def last(self) -> Client:
        """The last client; the group is not empty."""
        return next(reversed(self._clients.values()))

    def append(self, client: Client) -> None:
        """Adds a client behind the others."""
        self._clients[client.number] = client
        self.count += 1
        self.add_bytes(client, 1)

    def prepend(self, client: Client) -> None:
        """Adds a client before the others."""
        self.append(client)
        self._clients.move_to_end(client.number, last=False)

    def remove(self, client: Client) -> None:
        """Takes a client out; it must be in."""
        del self._clients[client.number]
        self.count -= 1
        self.add_bytes(client, -1)

    def add_bytes(self, client: Client, sign: int) -> None:
        """Counts (1), or no more (-1), what the sums are of, of a client of the group: before and after a change."""
        self.changes += 1
        self.odd += sign * client.stay.is_odd
        if client.gang is not None:
            members = self.gangs.pop(client.gang, 0) + sign
            if members:
                self.gangs[client.gang] = members
        memory = client.memory
        if memory.is_known:
            self.movable_bytes += sign * memory.movable_bytes
            if not memory.swaps:
                self.paging_bytes += sign * memory.movable_bytes
        else:
            self.unknown += sign


class Holders:
    """Every holder is in one of four groups; the longest ones followed by the others are in the order of the grants."""

    def __init__(self, ledger: Ledger, residency: Residency) -> None:
        self.longest = Group()
        """The fewest of the longest holders without which the first waiter fits; empty while it waits for no holder."""
        self.others = Group()
        self.leaving = Group()
        self.unresponsive = Group()
        self.groups = self.longest, self.others, self.leaving, self.unresponsive
        self.rule = Policy.AUTO
        """The policy as it can be followed."""
        self.squeezed: tuple[Client, int] | None = None
        """Who lacks memory that only holders can leave, and how much more that is than the ledger says."""
        self._ledger = ledger
        self._residency = residency

    def group(self, client: Client) -> Group:
        """The group of a holder."""
        match client.state:
            case ClientState.HOLDING:
                return self.longest if client in self.longest else self.others
            case ClientState.LEAVING:
                return self.leaving
            case _:
                return self.unresponsive

    def gone(self, client: Client) -> None:
        """A client is no more, whether it holds or not."""
        if client.holds:
            self.take_out(client)
        if self.squeezed is not None and self.squeezed[0] is client:
            self.squeezed = None

    def take_out(self, client: Client) -> None:
        """A holder is none any more, or comes into another group."""
        self.group(client).remove(client)

    def leaves(self, client: Client) -> None:
        """A holder that is in no group was asked to leave; one that was before its connection was lost goes ahead."""
        later = [each for each in self.leaving if each.revoked_at > client.revoked_at] if client.spent_grace else ()
        self.leaving.append(client)
        for each in later:
            self.leaving.remove(each)
            self.leaving.append(each)

    def sort(self, key: Callable[[Client], tuple[float, int, float, int]]) -> None:
        """Brings those that were not asked to leave into another order; no longest ones are left if it is another."""
        clients = [*self.longest, *self.others]
        ordered = sorted(clients, key=key)
        if ordered == clients:
            return
        for client in clients:
            (self.longest if client in self.longest else self.others).remove(client)
        for client in ordered:
            self.others.append(client)

    def arrange(self, first: Client | None) -> None:
        """Finds anew which are the longest ones, for the first waiter."""
        stay = (self.others, self.unresponsive)
        while self.longest.count:
            client = self.longest.last()
            if first is not None and not self.fits(stay, (client, first)):
                break
            self.longest.remove(client)
            self.others.prepend(client)
        while first is not None and self.others.count and not self.fits(stay, (first,)):
            client = self.others.first()
            self.others.remove(client)
            self.longest.append(client)

    def outgrown(self, slack_bytes: int) -> bool:
        """Whether those who stay may not hold together for sure, by more than the slack."""
        count, is_wide = self.longest.count + self.others.count, False
        if self.longest.gangs or self.others.gangs:
            count, is_wide = self._units((self.longest, self.others), ())
        if self.rule is Policy.OFF or count <= 1:
            return False
        if is_wide or self.rule is Policy.EXCLUSIVE or self.longest.unknown or self.others.unknown:
            return True
        movable = self.longest.movable_bytes + self.others.movable_bytes
        if self.squeezed is not None and self.squeezed[0].holds:
            # Its threads wait for memory that it was promised.
            return movable + max(0, self.squeezed[1]) > self._ledger.left_bytes
        # Assumed memory counts as not there.
        return movable > 0 and self._ledger.left_bytes + self._ledger.assumed_bytes - movable < -slack_bytes

    def fits(self, holders: tuple[Group, ...], others: tuple[Client, ...]) -> bool:
        """Whether these holders and the others may hold together."""
        policy = self.rule
        if policy is Policy.OFF:
            return True
        count, unknown, movable, has_gangs = len(others), 0, 0, False
        for group in holders:
            count += group.count
            unknown += group.unknown
            movable += group.movable_bytes
            if group.gangs:
                has_gangs = True
        for client in others:
            if client.gang is not None:
                has_gangs = True
        if has_gangs:
            others = tuple(mate for client in others for mate in client.unit)
            count, is_wide = self._units(holders, others)
            if count > 1 and is_wide:
                return False
        if count <= 1:
            return True
        if policy is Policy.EXCLUSIVE or unknown:
            return False
        for client in others:
            if not client.memory.is_known:
                return False
            movable += client.memory.movable_bytes
            if self.squeezed is not None:
                movable += self.squeeze_bytes(client)
        return movable <= self._ledger.left_bytes

    def fits_beside_stuck(self, client: Client) -> bool:
        """Whether a waiter, with those beside it, could come in if the unresponsive ones never leave.

        It goes by what stays whoever holds, not by who is squeezed: that is found only for those that may come in.
        """
        stuck = self.unresponsive
        if not stuck.count or self.rule is Policy.OFF:
            return True
        count, is_wide = self._units((stuck,), client.unit)
        if count <= 1:
            return True
        members = (*stuck, *client.unit)
        needed = needed_bytes(members)
        if self.rule is Policy.EXCLUSIVE or is_wide or needed is None:
            return False
        return needed <= self._ledger.left_bytes - self._residency.stays_bytes(members)

    def lacking_bytes(self, unit: Iterable[Client]) -> int:
        """What a client, with those beside it, lacks beside all holders but those that are leaving.

        Negative: so much would be left.
        """
        movable = self.longest.movable_bytes + self.others.movable_bytes + self.unresponsive.movable_bytes
        for client in unit:
            movable += 0 if client.holds else client.memory.movable_bytes
        return movable - self._ledger.left_bytes

    def squeeze(self) -> bool:
        """Finds anew who is squeezed; whether that is news."""
        before, short = self.squeezed, self._residency.short
        self.squeezed = None if short is None else (short.client, short.lacking_bytes - self.lacking_bytes(short.unit))
        return self.squeezed != before

    def squeeze_bytes(self, client: Client) -> int:
        """What a client lacks beside what the ledger says, because those that do not hold can't leave."""
        if self.squeezed is None or self.squeezed[0] is not client:
            return 0
        has_all = client.memory.is_in and client.memory.growth is None
        return 0 if has_all else max(0, self.squeezed[1])

    def __iter__(self) -> Iterator[Client]:
        return (client for group in self.groups for client in group)

    def holding(self) -> list[Client]:
        """Those that were not asked to leave, in the order in which they are to."""
        return [*self.longest, *self.others]

    def staying(self) -> list[Client]:
        """Those that were, in the order in which they were asked."""
        return [*self.unresponsive, *self.leaving]

    def have_room_for_all(self, clients: Sequence[Client], *, as_one: bool) -> bool:
        """Whether all of these could hold at the same time, if nobody else did; ``as_one``: as they do until now."""
        if len(clients) == 1:
            return True
        left_bytes = self._ledger.left_bytes - self._residency.stays_bytes(clients)
        if self.squeezed is not None and self.squeezed[0] in clients and _waits_for_room(self.squeezed[0]):
            left_bytes -= max(0, self.squeezed[1])
        elif as_one and all(client.state is ClientState.HOLDING for client in clients):
            left_bytes += self._ledger.assumed_bytes + self._ledger.slack_bytes
        needed = needed_bytes(clients)
        return needed is not None and needed <= left_bytes

    @property
    def has_gangs(self) -> bool:
        """Whether some of those that were not asked to leave hold as one with others."""
        return bool(self.longest.gangs or self.others.gangs)

    @property
    def crowded(self) -> bool:
        """Whether a gang on several devices, which must be alone on each, and others stay."""
        count, is_wide = self._units((self.longest, self.others), ()) if self.has_gangs else (0, False)
        return is_wide and count > 1

    @property
    def has_wide(self) -> bool:
        """Whether a gang on several devices holds."""
        return any(gang.wide for group in self.groups for gang in group.gangs)

    @staticmethod
    def _units(holders: tuple[Group, ...], others: tuple[Client, ...]) -> tuple[int, bool]:
        """How many units these are; whether one of them is a gang on several devices, which has each alone."""
        gangs: set[Gang] = {client.gang for client in others if client.gang is not None}
        units = sum(client.gang is None for client in others)
        for group in holders:
            units += group.count - sum(group.gangs.values())
            gangs.update(group.gangs)
        return units + len(gangs), any(gang.wide for gang in gangs)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.longest.count + self.others.count + self.leaving.count + self.unresponsive.count

    @property
    def odd(self) -> int:
        """How many of them have a turn that is no whole quantum."""
        return self.longest.odd + self.others.odd + self.leaving.odd + self.unresponsive.odd

    @property
    def unknown(self) -> int:
        """How many of them do not report their footprint."""
        return sum(group.unknown for group in self.groups)

    @property
    def paging_bytes(self) -> int:
        """The movable memory of those that do not swap."""
        return sum(group.paging_bytes for group in self.groups)


def _waits_for_room(client: Client) -> bool:
    """Whether a client waits for memory by something else than its turn: its threads do, or a call of its program."""
    return client.holds or client.memory.growth is not None
