"""All holders of one device, and who may hold together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client, Part, Unit
from nvshare.scheduler.core.transitions import ClientState


class Group:
    """Some holders in order, with the sum of their movable memory. Every operation takes constant time."""

    __slots__ = ("_clients", "changes", "count", "movable_bytes", "odd", "paging_bytes", "parts", "unknown")

    def __init__(self) -> None:
        self._clients: OrderedDict[int, Client] = OrderedDict()
        self.count = 0
        self.movable_bytes = 0
        self.paging_bytes = 0
        """Of the movable memory, that of clients that do not swap."""
        self.unknown = 0
        """Of how many of them nobody knows what they need beside others, or they have to be alone."""
        self.odd = 0
        """How many of them have a turn that is no whole quantum."""
        self.parts: dict[Part, int] = {}
        """How many of them are no units by themselves, by the unit."""
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
        memory, part = client.memory, client.part
        movable_bytes = sign * memory.movable_bytes
        self.changes += 1
        self.movable_bytes += movable_bytes
        if not memory.swaps:
            self.paging_bytes += movable_bytes
        if client.stay.is_odd:
            self.odd += sign
        if not memory.is_known or (part is not None and part.is_wide):
            self.unknown += sign
        if part is not None:
            members = self.parts.pop(part, 0) + sign
            if members:
                self.parts[part] = members

    @property
    def is_wide(self) -> bool:
        """Whether one of them has to be alone on the device, with its gang."""
        return any(part.is_wide for part in self.parts)


def count_units(groups: Iterable[Group], units: Sequence[Unit] = ()) -> int:
    """How many units the clients of these groups are, and these."""
    parts = {unit.part for unit in units if unit.part is not None}
    count = sum(unit.part is None for unit in units)
    for group in groups:
        parts.update(group.parts)
        count += group.count - sum(group.parts.values())
    return count + len(parts)


class Holders:
    """Every holder is in one of five groups; the longest ones followed by the others are in the order of the grants."""

    def __init__(self, ledger: Ledger, residency: Residency) -> None:
        self.longest = Group()
        """The fewest of the longest holders without which the first waiter fits; empty while it waits for no holder."""
        self.others = Group()
        self.leaving = Group()
        self.late = Group()
        """Unresponsive, and the first waiter waits for them all the same."""
        self.unresponsive = Group()
        """Those that nobody waits for."""
        self.groups = self.longest, self.others, self.leaving, self.late, self.unresponsive
        self.rule = Policy.AUTO
        """The policy as it can be followed."""
        self.squeezed: tuple[Client, int] | None = None
        """Who lacks memory that only holders can leave, and how much more that is than the ledger says."""
        self._ledger = ledger
        self._residency = residency

    def follow(self, rule: Policy) -> None:
        """This is the policy from now on."""
        self.rule = rule

    def group(self, client: Client) -> Group:
        """The group of a holder."""
        match client.state:
            case ClientState.HOLDING:
                return self.longest if client in self.longest else self.others
            case ClientState.LEAVING:
                return self.leaving
            case _:
                return self.late if client in self.late else self.unresponsive

    def overdue(self) -> Iterator[Client]:
        """All unresponsive ones."""
        return (client for group in (self.unresponsive, self.late) for client in group)

    def give_up(self, clients: Sequence[Client]) -> None:
        """These of the unresponsive ones are waited for no more, all others are."""
        for client in list(self.overdue()):
            group = self.unresponsive if client in clients else self.late
            if client not in group:
                self.take_out(client)
                group.append(client)

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

    def arrange(self, first: Unit | None) -> None:
        """Finds anew which are the longest ones, for the first waiter."""
        stay = (self.others, self.unresponsive)
        while self.longest.count:
            client = self.longest.last()
            if first is not None and not self.fits(stay, client, first):
                break
            self.longest.remove(client)
            self.others.prepend(client)
        while first is not None and self.others.count and not self.fits(stay, first):
            client = self.others.first()
            self.others.remove(client)
            self.longest.append(client)

    def outgrown(self, slack_bytes: int) -> bool:
        """Whether those who stay may not hold together for sure, by more than the slack. One that does not leave in
        time stays as well where it asks for memory: it may not be able to stop before it has that."""
        staying: tuple[Group, ...] = (self.longest, self.others)
        squeezed = None if self.squeezed is None else self.squeezed[0]
        if squeezed is not None and squeezed in self.overdue() and squeezed.memory.growth is not None:
            staying += (self.unresponsive, self.late)
        if sum([group.count for group in staying]) <= 1 or self.rule is Policy.OFF:
            return False
        if self.rule is Policy.AUTO and not any(group.unknown for group in staying):
            movable, left_bytes = sum([group.movable_bytes for group in staying]), self._ledger.left_bytes
            if self.squeezed is not None and self.squeezed[0].holds:
                # Its threads wait for memory that it was promised.
                fit = movable + max(0, self.squeezed[1]) <= left_bytes
            else:
                # Assumed memory counts as not there.
                fit = not movable or left_bytes + self._ledger.assumed_bytes - movable >= -slack_bytes
            if fit:
                return False
        return count_units(staying) > 1

    def fits(self, groups: Iterable[Group], *units: Unit) -> bool:
        """Whether these holders and these units may hold together.

        Units that help one that can't stop do so beside others that can't: those may wait for such help as well, of
        who is kept out by the first.
        """
        if self.rule is Policy.OFF:
            return True
        count, unknown, movable, parts = len(units), 0, 0, False
        for group in groups:
            if group.count:
                count += group.count
                unknown += group.unknown
                movable += group.movable_bytes
                parts = parts or bool(group.parts)
        if count <= 1:
            return True
        if self.rule is Policy.AUTO and not unknown:
            for unit in units:
                needed = unit.needed_bytes
                if needed is None:
                    break
                movable += needed if self.squeezed is None else needed + self.squeeze_bytes(unit)
            else:
                if movable <= self._ledger.left_bytes:
                    return True
        if not parts and all(unit.part is None for unit in units):
            return False
        if units and all(unit.helps for unit in units):
            groups = [group for group in groups if group is not self.unresponsive and group is not self.late]
        return count_units(groups, units) <= 1

    def fits_beside_stuck(self, unit: Unit, *, asleep: bool) -> bool:
        """Whether a unit that waits could come in if the unresponsive ones never leave; ``asleep``: if others slept.

        It goes by what stays whoever holds, not by who is squeezed: that is found only for those that may come in.
        """
        stuck = self.unresponsive
        if not stuck.count or self.rule is Policy.OFF or count_units((stuck,), (unit,)) <= 1:
            return True
        needed = sum(client.memory.movable_bytes for client in unit.coming) if unit.helps else unit.needed_bytes
        if needed is None or (not unit.helps and (self.rule is Policy.EXCLUSIVE or stuck.unknown)):
            return False
        left_bytes = self._ledger.left_bytes - self._residency.stays_bytes((*stuck, *unit.coming))
        left_bytes += self._residency.sleepers.most_bytes(unit.coming[0]) if asleep else 0
        return stuck.movable_bytes + needed <= left_bytes

    def lacking_bytes(self, clients: Iterable[Client]) -> int:
        """What these lack beside all holders but those that are leaving; negative: so much would be left."""
        movable = self.longest.movable_bytes + self.others.movable_bytes + self.unresponsive.movable_bytes
        for client in clients:
            movable += 0 if client.holds else client.memory.movable_bytes
        return movable - self._ledger.left_bytes

    def squeeze(self) -> bool:
        """Finds anew who is squeezed; whether that is news."""
        before, short = self.squeezed, self._residency.short
        self.squeezed = None if short is None else (short.client, short.lacking_bytes - self.lacking_bytes(short.unit))
        return self.squeezed != before

    def in_need(self, first: Unit | None) -> Unit | None:
        """For whom holders have to leave: the first waiter, or who needs unmovable memory that only they can leave."""
        if first is not None or self.squeezed is None:
            return first
        client = self.squeezed[0]
        return client if client.memory.growth is not None and not client.holds else None

    def squeeze_bytes(self, unit: Unit) -> int:
        """What a unit lacks beside what the ledger says, because those that do not hold can't leave."""
        if self.squeezed is None or self.squeezed[0] not in unit.coming:
            return 0
        client, lacking_bytes = self.squeezed
        has_all = client.memory.is_in and client.memory.growth is None
        return 0 if has_all else max(0, lacking_bytes)

    def __iter__(self) -> Iterator[Client]:
        return (client for group in self.groups for client in group)

    def holding(self) -> list[Client]:
        """Those that were not asked to leave, in the order in which they are to."""
        return [*self.longest, *self.others]

    def staying(self) -> list[Client]:
        """Those that were, in the order in which they were asked."""
        return [*self.unresponsive, *self.late, *self.leaving]

    def have_room_for_all(self, clients: Sequence[Client], *, as_one: bool) -> bool:
        """Whether all of these could hold at the same time, if nobody else did, and others slept that may; ``as_one``:
        as they do until now."""
        if len(clients) == 1:
            return True
        left_bytes = self._ledger.left_bytes - self._residency.stays_bytes(clients)
        if self.squeezed is not None and self.squeezed[0] in clients and _waits_for_room(self.squeezed[0]):
            left_bytes -= max(0, self.squeezed[1])
        elif as_one and all(client.state is ClientState.HOLDING for client in clients):
            left_bytes += self._ledger.assumed_bytes + self._ledger.slack_bytes
        lacking_bytes = sum(client.memory.movable_bytes for client in clients) - left_bytes
        known = all(client.memory.is_known for client in clients)
        return known and (lacking_bytes <= 0 or lacking_bytes <= self._residency.sleepers.most_bytes(None))

    @property
    def has_parts(self) -> bool:
        """Whether some of those that were not asked to leave are no units by themselves."""
        return bool(self.longest.parts or self.others.parts)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.longest.count + self.others.count + self.leaving.count + self.late.count + self.unresponsive.count

    @property
    def odd(self) -> int:
        """How many of them have a turn that is no whole quantum."""
        return self.longest.odd + self.others.odd + self.leaving.odd + self.late.odd + self.unresponsive.odd

    @property
    def unknown(self) -> int:
        """Of how many of them nobody knows what they need beside others, or they have to be alone."""
        return sum(group.unknown for group in self.groups)

    @property
    def paging_bytes(self) -> int:
        """The movable memory of those that do not swap."""
        return sum(group.paging_bytes for group in self.groups)


def _waits_for_room(client: Client) -> bool:
    """Whether a client waits for memory by something else than its turn: its threads do, or a call of its program."""
    return client.holds or client.memory.growth is not None
