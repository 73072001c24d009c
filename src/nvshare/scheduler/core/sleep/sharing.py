"""Equal host memory of sleepers in packs: **the rules**. A pack has blocks of several clients of one owner once.

- *Who.* Clients whose processes sleep, and that nobody wants awake; the owner is a namespace, or a user outside of
  Kubernetes. Of fewer than three nothing is gained, since the room is kept for the largest to come back.
- *When.* No more host memory is unused than twice what the largest client has of it, since who shares takes longer to
  wake; or somebody lacks some to come back. And there is no disk for it.
  Who has slept longest is first, one at a time. Nobody is tried twice while it sleeps, unless a new pack came since, or
  there is room for a much larger one.
- *How much.* A new pack takes what nobody else needs. Where that is too little for who comes back it takes all that is
  left: with what others let go of then there may be enough. What may be made counts as used until the client has
  answered; a pack counts once, until the last client has its blocks back. What is away of a client is not used, and
  comes back as from a file (storing.py).
- *The last one.* It lacks as much as the pack has that ends with it. So where there is too little for both the pack
  does not count any more when the last one begins to come back: nobody is worse off than if nothing had been shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nvshare.scheduler.core.actions import ShareArena
from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.records.arenas import GRANULE_BYTES, whole
from nvshare.scheduler.core.records.away import Place
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.memory import Memory
from nvshare.scheduler.core.records.process import Process, Sleep
from nvshare.scheduler.core.sleep_events import ArenaNotShared, ArenaShared, OwnerFound
from nvshare.scheduler.core.snapshot import HostMemory

LEAST_BYTES: Final = 64 << 20
"""For less nobody is asked, and no pack is made."""
LEAST_SLEEPERS: Final = 3


@dataclass(slots=True, eq=False)
class _Pack:
    owner: str
    """Empty: the scheduler before this one made it, and nobody comes to it any more."""
    bytes: int
    order: int
    """How many were made before it, and it."""
    clients: set[int] = field(default_factory=set)
    ends: bool = False
    """Its last clients come back, and it does not count any more."""

    def end(self, *, ends: bool) -> None:
        """Whether it counts no more from now on."""
        self.ends = ends


class Sharing:
    """The packs of all clients."""

    def __init__(self, clients: Clients, processes: Mapping[int, Process], host: Host) -> None:
        """``clients``, ``processes``: all there are, by number."""
        self._clients, self._processes, self._host = clients, processes, host
        self._packs: dict[int, _Pack] = {}
        """By what names them."""
        self._owner_of: dict[int, str] = {}
        """Whose each client is; a client that is not in it, nobody knows whose."""
        self._made = 0
        self._goes: Client | None = None
        """Who is being asked."""
        self._tried: dict[int, tuple[int, int, int]] = {}
        """Of each client that was: its process's how manieth sleep that was, how many packs there had been, and how
        many bits the size of a new one had."""
        self._candidates: list[Client] | None = None
        """Who may be asked; None: that has to be found anew."""
        self._room_bytes = self._found_bits = 0
        """How large a new pack may be, and how many bits that had when those were found."""
        self.is_less_possible = False
        """Since the last plan those wait in vain that waited for what may be let go of."""

    def own(self, event: OwnerFound, client: Client, _device: Device, _now: float) -> bool:
        """It is known whose a client is."""
        self._owner_of[client.number] = event.owner
        self._candidates = None
        return bool(event.owner)

    def handle(self, event: ArenaShared | ArenaNotShared, client: Client) -> None:
        """What became of a client's host memory. IllegalEvent if it can't have."""
        away = client.memory.away
        if isinstance(event, ArenaNotShared):
            if away.goes_to is not Place.PACK:
                raise IllegalEvent(f"client {client.number} was not asked to share anything", event)
            self._answered(client)
            return
        if away.is_there or away.goes_to is Place.FILE or not _is_possible(event, client.memory):
            raise IllegalEvent(f"the host memory of client {client.number} can't be in that pack", event)
        was_asked = away.goes_to is Place.PACK
        self._answered(client)
        pack = self._packs.get(event.pack)
        if pack is None:
            self._made += was_asked
            owner = self._owner(client) if was_asked else ""
            pack = self._packs[event.pack] = _Pack(owner, event.pack_bytes, self._made)
        pack.end(ends=False)
        pack.clients.add(client.number)
        away.went(Place.PACK, event.away_bytes)
        self._count()

    def came_back(self, client: Client) -> None:
        """A client has all of its blocks again."""
        self._leave(client)

    def gone(self, client: Client) -> None:
        """A client is gone. What it may have had of a pack alone counts until nothing is left of the client."""
        away = client.memory.away
        self._tried.pop(client.number, None)
        self._owner_of.pop(client.number, None)
        self._candidates = None
        if away.goes_to is Place.PACK:
            away.stay(away.pack_bytes)
            self._wait_no_more(client)
        elif away.place is Place.PACK:
            away.stay(self._leave(client))

    def look_again(self) -> None:
        """Somebody fell asleep, is wanted awake or is gone, or host memory was let go of or came back."""
        self._candidates = None
        if self._host.sharable_bytes:
            self._host.share(self._sharable_bytes())

    def plan(self, *, lacks: bool) -> list[ShareArena]:
        """Who is to be asked; ``lacks``: somebody lacks host memory to come back."""
        host = self._host
        if self._goes is not None and self._goes.process is not None and self._goes.process.stands_still:
            self._wait_no_more(self._goes)
        self._room_bytes = max(0, host.unused_bytes if lacks else host.left_bytes)
        before_bytes = host.sharable_bytes
        actions: list[ShareArena] = []
        if self._goes is None:
            is_wanted = host.has_sleepers and not host.file_budget_bytes and (lacks or self._is_scarce())
            client = next(iter(self._may_be_asked()), None) if is_wanted else None
            if client is not None:
                actions.append(self._ask(client))
            host.share(0 if client is None else self._sharable_bytes())
        self.is_less_possible = host.sharable_bytes < before_bytes
        return actions

    def lets_end(self, process: Process, lacking_bytes: int) -> bool:
        """Whether there is so much more when the packs end that only a process has, which comes back; then they do."""
        last = [pack for pack in self._packs.values() if not pack.ends and pack.clients <= process.clients.keys()]
        asked = None if self._goes is None else self._owner(self._goes)
        if sum(pack.bytes for pack in last) < lacking_bytes or any(pack.owner == asked for pack in last):
            return False
        for pack in last:
            pack.end(ends=True)
        self._count()
        return True

    def helps(self, process: Process) -> bool:
        """Whether there may be more host memory when a process that is awake sleeps."""
        owners = {pack.owner for pack in self._packs.values()} - {""}
        return any(self._owner_of.get(number) in owners for number in process.clients)

    @property
    def packs_bytes(self) -> int:
        """What all packs take that count."""
        return sum(pack.bytes for pack in self._packs.values() if not pack.ends)

    def host_memory(self) -> HostMemory:
        """What can be seen of all host memory."""
        host, clients = self._host, [number for pack in self._packs.values() for number in pack.clients]
        away_bytes = sum(client.memory.away.bytes for client in self._clients.of(clients))
        files = host.file_budget_bytes, host.file_used_bytes
        return HostMemory(host.budget_bytes, host.used_bytes, *files, away_bytes, self.packs_bytes)

    def _owner(self, client: Client) -> str:
        """Whose a client is; empty: not known."""
        return self._owner_of.get(client.number, "")

    def _is_scarce(self) -> bool:
        largest_bytes = max((client.memory.arena_bytes for client, _ in self._clients.values()), default=0)
        return self._host.unused_bytes <= 2 * largest_bytes

    def _ask(self, client: Client) -> ShareArena:
        process, away = client.process, client.memory.away
        assert process is not None
        self._goes, self._candidates = client, None
        away.go(Place.PACK, self._new_bytes(client))
        self._tried[client.number] = process.sleeps, self._made, away.pack_bytes.bit_length()
        self._host.count(client.memory)
        self._count()
        return ShareArena(client.number, away.pack_bytes)

    def _answered(self, client: Client) -> None:
        if client.memory.away.goes_to is not None:
            client.memory.away.stay()
            self._wait_no_more(client)

    def _wait_no_more(self, client: Client) -> None:
        """For the answer of one that was asked, if it is the last one that was."""
        if self._goes is client:
            self._goes = None
            self._count()

    def _leave(self, client: Client) -> int:
        """Its pack has one client less; returns what the pack took that counted, if that was the last one."""
        name, pack = next((name, pack) for name, pack in self._packs.items() if client.number in pack.clients)
        pack.clients.remove(client.number)
        if pack.clients:
            return 0
        del self._packs[name]
        self._count()
        return 0 if pack.ends else pack.bytes

    def _count(self) -> None:
        """There are other packs, or another client is being asked."""
        packing_bytes = 0 if self._goes is None else self._goes.memory.away.pack_bytes
        self._host.pack(packs_bytes=self.packs_bytes, packing_bytes=packing_bytes)

    def _new_bytes(self, client: Client) -> int:
        """How large a new pack for a client may be; 0: there is no room for one."""
        most = min(self._room_bytes, client.memory.arena_bytes) // GRANULE_BYTES * GRANULE_BYTES
        return most if most >= LEAST_BYTES else 0

    def _sharable_bytes(self) -> int:
        """What those may let go of that are asked, or may be now."""
        clients = [*self._may_be_asked(), *filter(None, (self._goes,))]
        return sum(client.memory.arena_bytes for client in clients)

    def _may_be_asked(self) -> list[Client]:
        """Who may be asked now; who has slept longest is first."""
        bits = self._room_bytes.bit_length()
        if self._candidates is None or bits != self._found_bits:
            self._candidates, self._found_bits = self._found(), bits
        packs = self._packs.values()
        owners, ending = {pack.owner for pack in packs}, {pack.owner for pack in packs if pack.ends}
        asked = (client for client in self._candidates if self._owner(client) not in ending)
        return [client for client in asked if self._owner(client) in owners or self._new_bytes(client)]

    def _found(self) -> list[Client]:
        by_owner: dict[str, list[Client]] = defaultdict(list)
        for process in self._processes.values():
            for client in self._clients.of(process.clients) if process.state is Sleep.ASLEEP else ():
                if (owner := self._owner(client)) and client.memory.arena_bytes:
                    by_owner[owner].append(client)
        there = [client for clients in by_owner.values() if len(clients) >= LEAST_SLEEPERS for client in clients]
        found = [(client.process.slept_at, client) for client in there if client.process and self._is_untried(client)]
        return [client for _, client in sorted(found, key=lambda each: each[0])]

    def _is_untried(self, client: Client) -> bool:
        """Whether it may let go of something, as far as is known."""
        assert client.process is not None
        if not may_go(client.memory) or client.memory.arena_bytes < LEAST_BYTES:
            return False
        sleeps, made, bits = self._tried.get(client.number, (0, 0, 0))
        later = (pack for pack in self._packs.values() if pack.order > made and pack.owner == self._owner(client))
        return sleeps != client.process.sleeps or any(later) or self._new_bytes(client).bit_length() > bits


def may_go(memory: Memory) -> bool:
    """Whether host memory is all that it will be, and here; while some is elsewhere nothing is added."""
    is_whole = memory.reported and not memory.arena_asked_bytes and memory.arena_bytes >= memory.useful_bytes
    return is_whole and memory.away.goes_to is None and not memory.away.is_there


def _is_possible(event: ArenaShared, memory: Memory) -> bool:
    """Whether so much of a client's host memory can be in a pack."""
    is_there = memory.reported and 0 < event.away_bytes <= memory.arena_bytes and event.pack > 0
    return is_there and event.pack_bytes > 0 and whole(event.away_bytes) == event.away_bytes
