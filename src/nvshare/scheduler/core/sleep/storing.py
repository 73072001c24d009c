"""Host memory of sleepers in files: **the rules**. A disk is larger than host memory, and slower.

What comes back does so by these rules from packs as well (sharing.py).

- *What.* All host memory of a process that sleeps, and that nobody wants awake.
- *When.* As much host memory as the largest client may ask for is kept for one that falls asleep or comes back: nobody
  else gets it. While there is less than that, the process goes that has slept longest; one at a time, for a disk takes
  no more, and while none comes back, which somebody waits for.
- *Back.* Before anything else that waking takes a process gets as much host memory as it had. One at a time, so that no
  two wait for each other; where it stands still (still.py) the next one, beside what the first still needs.
- *Failing.* A process whose memory could not be stored is not tried again for a while; others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from nvshare.scheduler.core.actions import Action, GrowArena, StoreArena
from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.records.arenas import AT_ONCE_BYTES, CHUNK_BYTES, GRANULE_BYTES
from nvshare.scheduler.core.records.away import Place
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.memory import Memory
from nvshare.scheduler.core.records.process import Process, Sleep
from nvshare.scheduler.core.sleep.sharing import Sharing, may_go
from nvshare.scheduler.core.sleep_events import (
    ArenaLoaded,
    ArenaNotShared,
    ArenaNotStored,
    ArenaShared,
    ArenaStored,
    StoreEvent,
)

AGAIN_SECONDS: Final = 30.0
"""After so long those are tried again that could not store: a disk that was full may have room."""


class Storing:
    """The files of all processes that sleep."""

    def __init__(self, clients: Clients, processes: Mapping[int, Process], host: Host) -> None:
        """``clients``, ``processes``: all there are, by number."""
        self._clients, self._processes, self._host = clients, processes, host
        self.sharing = Sharing(clients, processes, host)
        self._coming: list[Process] = []
        """Whose host memory is being made again: one, and those that stood still before."""
        self._goes: Process | None = None
        """Whose goes into a file, and does not stand still."""
        self.deadline: float | None = None
        """When those are tried again that could not store; None: all could."""
        self._unable: set[int] = set()
        """The numbers of these."""
        self._loading: list[Process] = []
        """Whose is to come back, or comes."""

    def handle(self, event: StoreEvent, now: float) -> list[Device]:
        """What became of a client's host memory, on which devices that may change something: clients of any may wait
        for host memory. IllegalEvent if it can't have."""
        found = self._clients.get(event.client)
        if found is None:
            raise IllegalEvent(f"client {event.client} is unknown", event)
        self._handle(event, found[0], now)
        self.look_again()
        return self._clients.devices

    def _handle(self, event: StoreEvent, client: Client, now: float) -> None:
        memory, away = client.memory, client.memory.away
        match event:
            case ArenaStored():
                if away.is_there or away.goes_to is Place.PACK or not memory.reported or not memory.arena_bytes:
                    raise IllegalEvent(
                        f"the host memory of client {client.number} is no such that can be stored", event
                    )
                away.went(Place.FILE, memory.arena_bytes)
            case ArenaNotStored():
                if away.goes_to is not Place.FILE:
                    raise IllegalEvent(f"client {client.number} was not asked to store anything", event)
                away.stay()
                self.deadline = now + AGAIN_SECONDS
                if client.process is not None:
                    self._unable.add(client.process.number)
            case ArenaShared() | ArenaNotShared():
                self.sharing.handle(event, client)
            case ArenaLoaded():
                if not away.is_made:
                    raise IllegalEvent(f"client {client.number} has nothing to load, or no memory for that", event)
                if away.place is Place.PACK:
                    self.sharing.came_back(client)
                away.came_back()
            case _:
                assert_never(event)
        self._host.count(memory)

    def none_sleeps(self) -> None:
        """No process can sleep any more."""
        self.deadline = None
        self._host.may_sleep(any_may=False)

    def look_again(self) -> None:
        """A process fell asleep, is wanted awake or is gone, or host memory was stored or loaded."""
        host = self._host
        self.sharing.look_again()
        if not (host.file_budget_bytes or host.file_used_bytes or host.away_bytes or self.sharing.packs_bytes):
            return
        processes = self._processes.values()
        going = {process.number: sum(self._going(process)) for process in processes if not process.stands_still}
        self._loading = [process for process in processes if process.state is Sleep.LOADING and self._away(process)]
        self._goes = next((process for process in processes if going.get(process.number)), None)
        self._coming = [process for process in self._coming if process in self._loading]
        swapping = (client.memory for client, _ in self._clients.values() if client.memory.swaps)
        host.look(
            largest_bytes=max((max(m.useful_bytes, m.growing_bytes) for m in swapping), default=0),
            away_bytes=max((self._away_bytes(process) for process in processes), default=0),
            coming_bytes=sum(map(self._lacking, self._coming)),
        )
        # Of what can go as much is kept as the largest of them had.
        go = [*filter(None, going.values()), *map(self._bytes, self._may_go())]
        host.store(sum(go) - max(0, max(go, default=0) - host.kept_bytes))

    def plan(self, now: float) -> list[Action]:
        """Whose host memory goes, into a file or a pack."""
        return [*self._store(now), *self.sharing.plan(lacks=self.lacks)]

    def _store(self, now: float) -> list[Action]:
        host = self._host
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            self._unable.clear()
            self.look_again()
        lacks = not self._is_coming and host.storable_bytes > 0 and host.left_bytes < CHUNK_BYTES
        if self._goes is not None or not (lacks or self.lacks):
            return []
        first = next(iter(self._may_go()), None)
        if first is None:
            return []
        actions: list[Action] = []
        for number in first.clients:
            memory = self._clients[number][0].memory
            if memory.arena_bytes:
                memory.away.go(Place.FILE)
                host.count(memory)
                actions.append(StoreArena(number))
        self.look_again()
        return actions

    @property
    def lacks(self) -> bool:
        """Whether a process that is to wake lacks host memory, and nobody's is being made free for it."""
        free_bytes = self._host.unused_bytes
        return self._goes is None and any(self._lacking(process) > free_bytes for process in self._loading)

    def helps(self, process: Process) -> bool:
        """Whether there is more host memory when a process that is awake sleeps."""
        memories = self._memories(process)
        whole = all(memory.arena_bytes >= memory.footprint_bytes for memory in memories)
        left_bytes = self._host.file_budget_bytes - self._host.file_used_bytes
        has_room = self._bytes(process) <= left_bytes or self.sharing.helps(process)
        return self.lacks and whole and has_room and self._bytes(process) > 0

    def promised_bytes(self, moving: Mapping[int, Process], process: Process) -> int:
        """The host memory that others will get which were told to leave before a process: with a part of it each, none
        of them could sleep. ``moving``: those that were told anything, in that order."""
        promised = 0
        for each in moving.values():
            if each is process:
                break
            memories = self._memories(each) if each.leaves else ()
            promised += sum(max(0, memory.useful_bytes - memory.host_bytes) for memory in memories)
        return promised

    def is_back(self, process: Process, actions: list[Action]) -> bool:
        """Whether a process that is to wake has all its host memory; else what is to be done for that."""
        if any(memory.away.goes_to for memory in self._memories(process)):
            return False
        if not self._away(process):
            return True
        lacking = self._lacking(process)
        begun_bytes = sum(self._lacking(each) for each in self._coming if each is not process)
        free_bytes = self._host.unused_bytes - begun_bytes
        is_next = process not in self._coming and not self._is_coming
        if is_next and (lacking <= free_bytes or self.sharing.lets_end(process, lacking - free_bytes)):
            self._coming.append(process)
            free_bytes = self._host.unused_bytes - begun_bytes
            self.look_again()
        wait = ""
        if process not in self._coming:
            wait = (
                f"host memory to bring {lacking >> 20} MiB back into is not left (--host-memory); others have to sleep"
            )
        for number in process.clients:
            memory = self._clients[number][0].memory
            away = memory.away
            away.wait_for(wait)
            more = min(away.lacking_bytes, AT_ONCE_BYTES, free_bytes)
            if more < away.lacking_bytes:
                more = more // GRANULE_BYTES * GRANULE_BYTES
            if away.is_there and not wait and not away.asked_bytes and more > 0:
                away.ask(more)
                self._host.count(memory)
                free_bytes -= more
                actions.append(GrowArena(number, more))
        self._host.come(sum(map(self._lacking, self._coming)))
        return False

    @property
    def _is_coming(self) -> bool:
        """Whether the host memory of one that does not stand still is being made again."""
        return not all(process.stands_still for process in self._coming)

    def _may_go(self) -> list[Process]:
        """Whose host memory may go into files now, as far as there is room for it; who has slept longest is first."""
        left_bytes = self._host.file_budget_bytes - self._host.file_used_bytes
        found = []
        for process in sorted(self._processes.values(), key=lambda process: process.slept_at):
            if self._is_storable(process) and self._bytes(process) <= left_bytes:
                left_bytes -= self._bytes(process)
                found.append(process)
        return found

    def _is_storable(self, process: Process) -> bool:
        if process.state is not Sleep.ASLEEP or process.number in self._unable:
            return False
        return all(map(may_go, self._memories(process))) and self._bytes(process) > 0

    def _bytes(self, process: Process) -> int:
        return sum(memory.arena_bytes for memory in self._memories(process))

    def _going(self, process: Process) -> list[int]:
        return [memory.arena_bytes for memory in self._memories(process) if memory.away.goes_to is Place.FILE]

    def _lacking(self, process: Process) -> int:
        """How much host memory it takes to bring back what a process has elsewhere."""
        return sum(memory.away.lacking_bytes for memory in self._away(process))

    def _away_bytes(self, process: Process) -> int:
        return sum(memory.away.bytes for memory in self._away(process))

    def _away(self, process: Process) -> list[Memory]:
        """Of its clients, the memory of those of whose host memory some is elsewhere."""
        return [memory for memory in self._memories(process) if memory.away.is_there]

    def _memories(self, process: Process) -> Iterable[Memory]:
        return [client.memory for client in self._clients.of(process.clients)]
