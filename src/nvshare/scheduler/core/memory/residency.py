"""The memory of one device's clients, where it swaps: what each has, and who may be on the device with whom.

``moves.py`` plans by it who comes in and who leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvshare.scheduler.core.events import ResidencyReported
from nvshare.scheduler.core.memory.admission import Admission, Sleepers
from nvshare.scheduler.core.memory.estates import Estates
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.limits import Limits
from nvshare.scheduler.core.memory.present import Present
from nvshare.scheduler.core.memory.queue import Ends, Queue
from nvshare.scheduler.core.memory.requests import Requests
from nvshare.scheduler.core.memory.together import Short, cramped, lacking_bytes, stays_bytes
from nvshare.scheduler.core.memory.traffic import Traffic
from nvshare.scheduler.core.records.arenas import CHUNK_BYTES, SEGMENT_BYTES
from nvshare.scheduler.core.records.client import Client, Unit
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.memory import UNKNOWN_CONTEXTS
from nvshare.scheduler.core.transitions import ClientState


class Residency:
    """The residency of one device's clients."""

    def __init__(
        self, device: str, ledger: Ledger, host: Host, ends: Ends, sleepers: Sleepers, grace_seconds: float
    ) -> None:
        self.clients: dict[int, Client] = {}
        """Those whose memory swaps."""
        self.present = Present()
        """Those of them that have something on the device, or soon may."""
        self._growing: dict[int, Client] = {}
        """Whose growth is not answered, in the order of their requests."""
        self.short: Short | None = None
        """For whom holders are asked to leave when their quantum is over."""
        self.deadline: float | None = None
        """When there is something to plan if nothing happens before; None: never."""
        self.traffic = Traffic()
        self.estates = Estates(ledger, host)
        self.limits = Limits(self.estates)
        self.requests = Requests(ledger, self.estates, self.clients, sleepers.willing_bytes)
        self.device, self.ledger, self.host, self.grace_seconds = device, ledger, host, grace_seconds
        self.sleepers = sleepers
        self.checked = True
        """The device was measured since ``check``."""
        self.kept = False
        """What room there is, is for a growth."""
        self._cramped: frozenset[int] = frozenset()
        self.admission = Admission(
            ledger, host, self.estates, self.clients, grace_seconds, self.limits, self.requests, sleepers
        )
        self.queue = Queue(self.admission, ledger, ends)
        """Whose growth waits for others' ends."""

    def planned(self, short: Short | None, deadline: float | None, *, kept: bool) -> None:
        """What a plan found, which is so until something changes."""
        self.short, self.deadline, self.kept = short, deadline, kept

    def check(self, *, measured: bool) -> None:
        """Whether the device is measured as it is now; a process wakes only then."""
        self.checked = measured

    def look(self) -> None:
        """Finds who would not be wholly in though nobody held."""
        present = self.present.clients.values()
        self._cramped = cramped(self.clients.values(), present, self.ledger, self.host, self.requests)
        if self._growing or self.ledger.departed_bytes:
            self.traffic.held_up()

    def add(self, client: Client) -> None:
        """A client that swaps came."""
        self.clients[client.number] = client
        self.present.wake(client)

    def ask(self, client: Client, now: float) -> None:
        """A client wants to be admitted so much as its record says."""
        self.forget_growth(client)
        self.present.wake(client)
        refusal, lacks_sleep = self.admission.verdict(client, now)
        is_behind = refusal is None and client.memory.more_unmovable_bytes > 0 and self.queue.is_for_sleep
        if lacks_sleep or is_behind:
            self.queue.put_off(client)
        else:
            self._growing[client.number] = client

    def ask_again(self, client: Client) -> None:
        """What a client waited for others' ends, or sleep, with may be possible now."""
        self._growing[client.number] = client

    @property
    def growing(self) -> list[Client]:
        """Whose growth is not answered, in the order in which they have what room there is."""
        return sorted(self._growing.values(), key=lambda client: client.growth_order)

    def answer_growth(self, client: Client) -> None:
        """A client's growth is granted, refused, or waits for others' ends, or sleep."""
        del self._growing[client.number]

    def forget_growth(self, client: Client) -> None:
        """A client asks for nothing any more."""
        self.queue.remove(client.number)
        self._growing.pop(client.number, None)

    def remove(self, client: Client) -> None:
        """A client is gone; where memory swaps, what it had stays charged until its estate is freed."""
        if not self.clients:
            return
        self.clients.pop(client.number, None)
        self.present.remove(client.number)
        self._growing.pop(client.number, None)
        self.queue.remove(client.number)
        self.estates.add(client)
        self.deadline = None
        if not self.clients:
            self.short, self.kept, self._cramped = None, False, frozenset()

    def report(self, client: Client, event: ResidencyReported, now: float) -> None:
        """A client told its memory; what counts of it is the device's to find."""
        self.present.wake(client)
        memory = client.memory
        arena_bytes, is_first = memory.arena_bytes, not memory.reported
        prepares = event.usable_bytes != memory.usable_bytes
        waits = event.footprint_bytes > memory.allotted_bytes > event.resident_bytes - CHUNK_BYTES
        spared_bytes = memory.spared_bytes
        came, left = memory.report(event, now)
        if not is_first:
            spared = max(0, memory.spared_bytes - spared_bytes)
            self.traffic.told(client.number, came, left, now, spared=spared, waits=waits, prepares=prepares)
        if memory.arena_bytes != arena_bytes:
            self.host.count(memory)
        self.host.expect(memory.useful_bytes)
        if event.lacking_bytes:
            # Now so much has to leave that there is what it lacks.
            self.ledger.lack(self.room_bytes + event.lacking_bytes)

    def arena_grown(self, client: Client, segment_bytes: int) -> None:
        """A client was sent host memory."""
        self.present.wake(client)
        client.memory.arena_grown(segment_bytes)
        self.host.count(client.memory)

    @property
    def with_surplus(self) -> set[int]:
        """Those that have a segment of host memory to give back, which they do only when nothing of theirs runs."""
        memories = [(number, client.memory) for number, client in self.present.clients.items()]
        return {number for number, each in memories if each.arena_bytes - each.useful_bytes >= SEGMENT_BYTES}

    @property
    def room_bytes(self) -> int:
        """What no client that swaps may have resident, the reserve excepted; negative: so much is lacking."""
        charged = sum([client.memory.charge_bytes for client in self.present.clients.values()])
        return self.ledger.left_bytes - self.ledger.shortage_bytes - charged

    @property
    def is_free_to_wake(self) -> bool:
        """Whether there is what has to be free when one wakes whose context was admitted: others come after it."""
        return self._free_to_wake_bytes >= 0

    def is_overtaken(self, client: Client) -> bool:
        """Whether others took meanwhile what can't move and was there for one that comes back, and none of them could
        sleep."""
        charged = sum([each.memory.charge_bytes for each in self.present.clients.values()])
        most = self._free_to_wake_bytes + charged + self.ledger.departed_bytes
        return client.is_coming_back and most < 0 and not self.sleepers.able(client)

    @property
    def _free_to_wake_bytes(self) -> int:
        ahead_bytes = sum(client.memory.ahead_bytes for client in self.clients.values())
        return self.room_bytes + ahead_bytes + self.ledger.waking_bytes

    @property
    def is_awaiting(self) -> bool:
        """Whether recorded clients of the scheduler before are not back; meanwhile nobody is given anything."""
        return bool(self.host.awaited) and self.device in self.host.awaited.values()

    @property
    def holder_grows(self) -> bool:
        """Whether a holder waits for memory."""
        return any(client.state is ClientState.HOLDING for client in self._growing.values())

    @property
    def is_measurement_awaited(self) -> bool:
        """Whether a growth is in doubt until the device is measured anew, or a process wakes only then."""
        growths = (client.memory.growth for client in self._growing.values())
        return not self.checked or any(growth and growth.doubted for growth in growths)

    def lacks_for_contexts(self, now: float) -> bool:
        """Whether too little may be left to wake one: first contexts are being made that may take more than assumed."""
        made = (each.memory for each in self.clients.values() if each.memory.is_unmeasured(now))
        more_bytes = (UNKNOWN_CONTEXTS - 1) * sum(memory.context_bytes for memory in made)
        return more_bytes > 0 and self._free_to_wake_bytes < more_bytes

    def never_fits(self, client: Client) -> bool:
        """Whether a client would not be wholly in, with those that hold as one with it, though nobody else held; what
        stays then the last plan found."""
        return lacking_bytes(client.unit, self.ledger) > 0 or client.number in self._cramped

    def lacks_sleep(self, client: Client, now: float) -> bool:
        """Whether one that asks for memory, comes back or waits has room only when others sleep that don't."""
        if client.number in self._growing:
            return self.admission.verdict(client, now)[1]
        if client in self.queue.clients:
            return self.queue.lacks_sleep(client, now)
        if client.is_coming_back:
            # What there was for its context others' have grown into.
            return not self.is_free_to_wake and len(self.sleepers.able(client)) > 0
        return self.never_fits(client) and self.fits_asleep(client)

    def lacks_beside(self, unit: Unit, client: Client) -> bool:
        """Whether a unit would not be wholly in though nobody else held when one that sleeps has its context."""
        return lacking_bytes(unit, self.ledger) + client.memory.pinned_bytes > 0

    def fits_asleep(self, client: Client) -> bool:
        """Whether one that never fits might if others slept that don't."""
        stays_bytes = self.stays_bytes(client.unit.members) if client.number in self._cramped else 0
        return lacking_bytes(client.unit, self.ledger) <= self.sleepers.most_bytes(client) - stays_bytes

    @property
    def answer(self) -> tuple[Short | None, bool, frozenset[int], list[int]]:
        """What lock and gangs go by beside the room: where a plan changed it, somebody may come in."""
        return self.short, self.kept, self._cramped, self.requests.granted

    def has_room_for(self, client: Client, paging_bytes: int) -> bool:
        """Whether there is what a waiter needs that does not swap; ``paging_bytes`` as for ``plan``."""
        needed = self.needed_bytes(client)
        if not needed or (self.short is not None and self.short.client is client and not paging_bytes):
            return True
        return not self.kept and self.room_bytes - paging_bytes >= needed

    def needed_bytes(self, client: Client) -> int:
        """The room for a waiter that does not swap; who is larger than the device, or nobody knows how large, needs all
        that can be had."""
        left = max(0, self.ledger.left_bytes - self.requests.others_bytes([client.number]))
        return min(client.memory.movable_bytes, left) if client.memory.is_known else left

    def stays_bytes(self, unit: Sequence[Client]) -> int:
        """What is on the device beside all of these at once."""
        return stays_bytes(unit, self.present.clients.values(), self.host, self.requests)

    def late_at(self, client: Client) -> float | None:
        """When it is stuck or silent if it does nothing; None: it has done what it was told."""
        memory = client.memory
        is_told = memory.leaving_bytes > 0 or not memory.is_heard
        return memory.progress_at + self.grace_seconds if is_told else None

    def is_late(self, client: Client, now: float) -> bool:
        """Whether one that swaps has done nothing for the grace time."""
        return now >= client.memory.progress_at + self.grace_seconds

    def is_stuck(self, client: Client, now: float) -> bool:
        """Whether it does not leave as it was told."""
        return client.memory.leaving_bytes > 0 and self.is_late(client, now)

    def is_silent(self, client: Client, now: float) -> bool:
        """Whether it does not even say that it read what it was told: its process is stopped."""
        return not client.memory.is_heard and self.is_late(client, now)
