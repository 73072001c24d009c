"""What stays on one device of containers with a memory request, while others borrow the rest of it.

- A request counts for all processes of its container on the device together, and for what they allocated: contexts are
  on the device anyway. So are memory that can't move and native memory: they are the first part of a request, and the
  rest of it, of what moves, is *wanted*. Managed memory is the driver's to page, and is never kept.
- *Granted* is as much of it as leaves every client of another container room to be wholly in, with what it was
  admitted, beside all that is granted and all that can't leave for want of host memory; one that sleeps with its
  context, when all others sleep that may. So nobody who was admitted before is kept out. What was granted comes first,
  then who asked first; of a later request there may be only a part left. It grows when others have less, and what
  others were admitted and don't use they lose where a request lacks it.
- Clients of other containers are admitted nothing of what is granted, whether it is used or not: neither memory that
  moves, nor such that does not, nor a context. What takes memory without asking (other programs, contexts that are
  larger than assumed, native memory) makes less of it where there is no other room.
- Of a container's memory on the device nothing leaves below what is granted, or below all if that is less: not for
  growths, waiters, or holders. Among its own processes it moves: what makes way for one of them is replaced by that.
  What was out when the request came, comes in with the next turn, and stays then.
- Gangs that hold as one on the device are not parted by a request that comes later, but may not outgrow what it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nvshare.scheduler.core.actions import ReportShort
from nvshare.scheduler.core.events import Backend
from nvshare.scheduler.core.memory.estates import Estates
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.arenas import Arena
from nvshare.scheduler.core.records.client import Client, Part
from nvshare.scheduler.core.records.containers import Container
from nvshare.scheduler.core.terms import Terms

MIB = 1 << 20
_NAMES = 300
"""Letters of names in a text, where there are several; one alone may have more."""


@dataclass(slots=True)
class _Side:
    """What clients of one container, or of all containers without a request, may have that moves."""

    stuck_bytes: int = 0
    """What can't leave for want of host memory."""
    lift_bytes: int = 0
    """How much more there is while one of them is wholly in."""
    gang_lift_bytes: int = 0
    """The same, while those of a gang are."""
    pledged_bytes: int = 0

    def add(self, arena: Arena, gang_takes_bytes: int, context_bytes: int) -> None:
        """Counts one more client; of all of its gang host memory takes so much. ``context_bytes`` come with it."""
        takes_bytes = arena.takes_bytes
        self.pledged_bytes += arena.useful_bytes
        self.stuck_bytes += arena.useful_bytes - takes_bytes
        self.lift_bytes = max(self.lift_bytes, takes_bytes + context_bytes)
        self.gang_lift_bytes = max(self.gang_lift_bytes, takes_bytes + context_bytes, gang_takes_bytes)


_Sides = dict[Container | None, _Side]


@dataclass(slots=True)
class _Request:
    """One container's request on the device."""

    clients: dict[int, Client] = field(default_factory=dict)
    wanted_bytes: int = 0
    """Of what moves."""
    granted_bytes: int = 0
    unmovable_bytes: int = 0
    """What its clients have allocated that is on the device anyway."""
    said_bytes: int = 0
    """The request for which it was said that it is not granted in full; 0: for none."""

    def enter(self, client: Client) -> None:
        """A client is in the container."""
        self.clients[client.number] = client

    def leave(self, client: Client) -> None:
        """A client is not in the container any more."""
        del self.clients[client.number]

    def count(self, terms: Terms) -> int:
        """Finds anew what it wants; returns what it had of it, what is on the device anyway included."""
        had_bytes = self.granted_bytes + self.unmovable_bytes
        self.unmovable_bytes = sum(map(_unmovable_bytes, self.clients.values()))
        self.wanted_bytes = max(0, terms.kept_bytes - self.unmovable_bytes)
        return had_bytes

    def grant(self, granted_bytes: int) -> None:
        """So much is granted of it."""
        self.granted_bytes = granted_bytes

    def say(self, requested_bytes: int) -> None:
        """It is said that so much is not granted in full."""
        self.said_bytes = requested_bytes


class Requests:
    """The containers with a request that have clients on one device. After something changed, call ``settle``."""

    def __init__(
        self,
        ledger: Ledger,
        estates: Estates,
        clients: Mapping[int, Client],
        willing_bytes: Callable[[Client | None], int],
    ) -> None:
        """``estates``: of clients that are gone; ``clients``: those whose memory swaps; all of the same device.

        ``willing_bytes``: see ``admission.Sleepers``.
        """
        self._ledger, self._estates, self._clients = ledger, estates, clients
        self._willing_bytes = willing_bytes
        self._requests: dict[Container, _Request] = {}
        """In the order in which they came."""
        self._of: dict[int, Container] = {}
        self.granted_bytes = 0
        """All together."""

    def __bool__(self) -> bool:
        return bool(self._requests)

    def update(self, client: Client) -> None:
        """A client is in another container than before, or its container's terms changed."""
        container, before = client.container, self._of.get(client.number)
        counts = client.memory.swaps or client.memory.backend is Backend.NATIVE
        asks = counts and container.terms.kept_bytes > 0
        if before is not None and (before is not container or not asks):
            self.remove(client)
        if asks:
            self._requests.setdefault(container, _Request()).enter(client)
            self._of[client.number] = container

    def remove(self, client: Client) -> None:
        """A client is gone, or in no container with a request."""
        container = self._of.pop(client.number, None)
        if container is not None:
            self._requests[container].leave(client)
            if not self._requests[container].clients:
                self.granted_bytes -= self._requests.pop(container).granted_bytes

    def settle(self, number: int = 0, context_bytes: int = 0) -> None:
        """Finds anew what is granted; a client made a context of so many bytes.

        What can't move takes of what is granted to its own container first.
        """
        if not self._requests:
            return
        own = self._of.get(number)
        goals: dict[Container, int] = {}
        for container, request in self._requests.items():
            had_bytes = request.count(container.terms) - (context_bytes if container is own else 0)
            goals[container] = max(0, min(request.wanted_bytes, had_bytes - request.unmovable_bytes))
        sides, base_bytes = self._sides(self._arenas(), self._contexts()), self._base_bytes()
        granted = _grant(goals, dict.fromkeys(goals, 0), sides, base_bytes)
        wanted = {container: request.wanted_bytes for container, request in self._requests.items()}
        granted = _grant(wanted, granted, sides, base_bytes, gangs=True)
        for container, request in self._requests.items():
            request.grant(granted[container])
        self.granted_bytes = sum(granted.values())

    @property
    def granted(self) -> list[int]:
        """What is granted to each container with a request."""
        return [request.granted_bytes for request in self._requests.values()]

    def others_bytes(self, numbers: Iterable[int]) -> int:
        """What is granted to containers of which none of these clients is a part."""
        own = {self._of.get(number) for number in numbers} if self._requests else set()
        return self.granted_bytes - sum(self._granted(container) for container in own)

    def stay_bytes(self, numbers: Iterable[int], stays: Mapping[int, int]) -> int:
        """What is on the device beside these clients: what is kept for containers, or what of their clients can't
        leave, by number, if that is more."""
        by_container: dict[Container | None, int] = dict.fromkeys(self._requests, 0)
        for number, stays_bytes in stays.items():
            container = self._of.get(number)
            by_container[container] = by_container.get(container, 0) + stays_bytes
        own = set(numbers)
        return sum(max(size, self._kept_beside(container, own)) for container, size in by_container.items())

    def _kept_beside(self, container: Container | None, numbers: set[int]) -> int:
        """What of a container is kept beside these clients: all that is granted, or as one of its own would find it."""
        request = None if container is None else self._requests.get(container)
        if request is None or numbers.isdisjoint(request.clients):
            return self._granted(container)
        # Of native memory nothing is movable.
        used = sum(client.memory.movable_bytes for client in request.clients.values())
        theirs = sum(client.memory.movable_bytes for client in request.clients.values() if client.number in numbers)
        return min(request.granted_bytes, used) - theirs

    def spare_bytes(self, client: Client, for_client: Client | None, *, charged: bool = False) -> int:
        """How much of what a client that swaps is allotted, or charged with, may leave for another one; None: for
        nobody of them."""
        container = self._of.get(client.number)
        if container is None:
            return client.memory.charge_bytes if charged else client.memory.allotted_bytes
        return self._over_bytes(container, for_client, charged=charged)

    def is_pressed(self, number: int) -> bool:
        """Whether another container's request lacks something."""
        own = self._of.get(number)
        return any(
            request.granted_bytes < request.wanted_bytes
            for container, request in self._requests.items()
            if container is not own
        )

    @property
    def unused_bytes(self) -> int:
        """What is requested beyond what clients were admitted; no more than the device has."""
        if not self._requests:
            return 0
        sides = self._sides(self._arenas(), {})
        unused = (request.wanted_bytes - sides[each].pledged_bytes for each, request in self._requests.items())
        return min(sum(max(0, more) for more in unused), self._ledger.total_bytes)

    def refusal(self, number: int, most_bytes: int) -> str:
        """Why a client's memory can't grow as it asked for, where in all it may be ``most_bytes``."""
        most, kept = f"this process may have {max(0, most_bytes) // MIB} MiB on the device", self.others_bytes([number])
        return f"{most}: {kept // MIB} MiB are reserved for {self._names(number)}" if kept else most

    def lacks(
        self, client: Client, arenas: Sequence[tuple[int, Arena]], contexts: Mapping[int, int], left_bytes: int
    ) -> str | None:
        """Why less would be granted with a client's growth; None: it would not be less.

        ``arenas``: of each client, by its number, with all that it will have; 0: of one that is gone. ``contexts``:
        what comes with those that sleep. ``left_bytes``: for all of them.
        """
        if not self.granted_bytes:
            return None
        goals = {container: request.granted_bytes for container, request in self._requests.items()}
        own = self._of.get(client.number)
        if own is not None:
            # Its own container has less for it.
            goals[own] = max(0, goals[own] - client.memory.more_unmovable_bytes)
        ample = [(number, Arena(arena.useful_bytes, arena.useful_bytes)) for number, arena in arenas]
        if lacking := self._lacking_bytes(goals, ample, contexts, left_bytes):
            return f"{lacking // MIB} MiB of what is reserved for {self._names(client.number)} would not be there"
        if self._lacking_bytes(goals, arenas, contexts, left_bytes):
            return "host memory to swap into is not left beside what is reserved for others (--host-memory)"
        return None

    def _lacking_bytes(
        self,
        goals: Mapping[Container, int],
        arenas: Iterable[tuple[int, Arena]],
        contexts: Mapping[int, int],
        base_bytes: int,
    ) -> int:
        sides = self._sides(((number, arena, 0) for number, arena in arenas), contexts)
        return sum(goals.values()) - sum(_grant(goals, dict.fromkeys(goals, 0), sides, base_bytes).values())

    def tell(self, device: str) -> list[ReportShort]:
        """Which requests can't be granted in full by what others have, if that was not said; once a request."""
        news: list[ReportShort] = []
        if not self._requests:
            return news
        # Who comes back may be of the same container.
        if any(not client.memory.reported for client in self._clients.values()):
            return news
        for container, request in self._requests.items():
            requested = container.terms.kept_bytes
            if request.granted_bytes == request.wanted_bytes or request.said_bytes == requested:
                continue
            others = [client for client in self._clients.values() if client.container is not container]
            sizes = (client.memory.movable_bytes - self._granted(client.container) for client in others)
            left = self._base_bytes() - self.granted_bytes + request.granted_bytes
            if self._ledger.total_bytes and left - max(0, max(sizes, default=0)) < request.wanted_bytes:
                request.say(requested)
                number = next(iter(request.clients))
                news.append(ReportShort(number, device, container.name, requested, self.kept_bytes(container)))
        return news

    def kept_bytes(self, container: Container) -> int:
        """What is granted of a container's request, with what is on the device anyway."""
        request = self._requests.get(container)
        if request is None:
            return 0
        return min(container.terms.kept_bytes, request.unmovable_bytes + request.granted_bytes)

    def _base_bytes(self) -> int:
        """What there is for memory that moves, when those that are gone have left, beside contexts to come."""
        ledger = self._ledger
        left_bytes = ledger.left_bytes + ledger.departed_bytes - ledger.shortage_bytes
        return left_bytes + self._ahead_bytes - self._headroom_bytes

    @property
    def _ahead_bytes(self) -> int:
        return sum(client.memory.ahead_bytes for client in self._clients.values())

    @property
    def _headroom_bytes(self) -> int:
        return self._ledger.headroom_bytes(-self._ahead_bytes)

    def _arenas(self) -> Iterator[tuple[int, Arena, int]]:
        """Of each client, by its number, and of those that are gone by 0; with what its gang's take together."""
        arenas: dict[int, Arena] = {}
        gangs: dict[Part | None, int] = {}
        for number, client in self._clients.items():
            memory = client.memory
            # Who comes back has not said yet what it has of it.
            arena_bytes = memory.arena_bytes if memory.reported else memory.useful_bytes
            arenas[number] = arena = Arena(arena_bytes, memory.useful_bytes)
            gangs[client.part] = gangs.get(client.part, 0) + arena.takes_bytes
        gangs[None] = 0
        for number, arena in arenas.items():
            yield number, arena, gangs[self._clients[number].part]
        for estate in self._estates:
            yield 0, Arena(estate.memory.host_bytes, estate.memory.pledged_bytes), 0

    def _contexts(self) -> Mapping[int, int]:
        """What comes with each client that sleeps, by number."""
        asleep = [each for each in self._clients.values() if each.memory.asleep and not each.memory.has_context]
        contexts = {each.number: each.memory.pinned_bytes for each in asleep}
        return returning(contexts, self._willing_bytes(None) + self._headroom_bytes) if asleep else contexts

    def _sides(self, arenas: Iterable[tuple[int, Arena, int]], contexts: Mapping[int, int]) -> _Sides:
        sides: _Sides = {None: _Side(), **{container: _Side() for container in self._requests}}
        for number, arena, gang_takes_bytes in arenas:
            sides[self._of.get(number)].add(arena, gang_takes_bytes, contexts.get(number, 0))
        return sides

    def _over_bytes(self, container: Container, for_client: Client | None, *, charged: bool) -> int:
        """What a container's clients are allotted, or charged with, beyond what is to stay beside ``for_client``.

        That one counts with all that it has and asks for: what makes way is replaced by it.
        """
        request = self._requests[container]
        granted, there, used = request.granted_bytes, 0, 0
        for client in request.clients.values():
            memory = client.memory
            size = memory.movable_bytes
            if client is for_client:
                if memory.growth is not None and client.stays_in:
                    size = max(size, memory.growth.footprint_bytes)
                granted -= memory.more_unmovable_bytes
                there += size
            else:
                there += memory.charge_bytes if charged else min(memory.allotted_bytes, size)
            used += size
        return max(0, there - max(0, min(granted, used)))

    def _granted(self, container: Container | None) -> int:
        request = None if container is None else self._requests.get(container)
        return 0 if request is None else request.granted_bytes

    def _names(self, number: int) -> str:
        own = self._of.get(number)
        others = (each for each, request in self._requests.items() if each is not own and request.granted_bytes)
        names = [container.name or "another program" for container in others]
        shown = names[:1]
        while len(shown) < len(names) and sum(map(len, shown)) + len(names[len(shown)]) <= _NAMES:
            shown.append(names[len(shown)])
        more = len(names) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")


def returning(contexts: Mapping[int, int], spare_bytes: int) -> dict[int, int]:
    """How much more of the device those that sleep need than what moves, by number, when all others sleep that may.

    ``contexts``: what each one's takes; ``spare_bytes``: what stays for contexts to come, and what the contexts take of
    those that may sleep and do not.
    """
    return {number: max(0, size - spare_bytes) for number, size in contexts.items()}


def _unmovable_bytes(client: Client) -> int:
    return client.memory.unmovable_bytes if client.memory.swaps else client.memory.footprint_bytes


def _grant(
    goals: Mapping[Container, int], had: Mapping[Container, int], sides: _Sides, base_bytes: int, *, gangs: bool = False
) -> dict[Container, int]:
    """Of each goal as much as leaves room for all clients of others, or gangs as a whole; nobody less than it had."""
    granted = dict(had)
    kept = {each: max(had[each], sides[each].stuck_bytes) for each in goals}
    # What there is at the most while one of a container's clients is in.
    most_in = {
        each: side.stuck_bytes + (side.gang_lift_bytes if gangs else side.lift_bytes) for each, side in sides.items()
    }
    # The same of the containers behind each, beyond what is kept of them.
    behind, later = {}, 0
    for each in reversed(list(goals)):
        behind[each], later = later, max(later, most_in[each] - kept[each])
    total = sides[None].stuck_bytes + sum(kept.values())
    before = max(0, most_in[None] - sides[None].stuck_bytes)
    for each, goal in goals.items():
        total -= kept[each]
        granted[each] = max(had[each], min(goal, base_bytes - total - max(before, behind[each])))
        kept[each] = max(granted[each], sides[each].stuck_bytes)
        total += kept[each]
        before = max(before, most_in[each] - kept[each])
    return granted
