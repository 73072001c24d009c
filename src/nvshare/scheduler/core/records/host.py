"""The core's record of host memory: how much there is, and what all clients have of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvshare.scheduler.core.records.memory import Memory


@dataclass(slots=True, eq=False)
class Host:
    """The host memory of all devices' clients. Of each client counts what it had when ``count`` was called last."""

    budget_bytes: int
    file_budget_bytes: int = 0
    """What of the memory of clients that sleep may be in files instead."""
    clients_bytes: int = 0
    packs_bytes: int = 0
    """What packs take."""
    departed_bytes: int = 0
    """What clients had that are gone; it will be free."""
    awaited: dict[int, str] = field(default_factory=dict)
    """By record, the devices of recorded clients that are not back: nobody knows what they have of it."""
    file_used_bytes: int = 0
    """What is in files, or is to be."""
    storable_bytes: int = 0
    """Of what is used, what may go into files now."""
    packing_bytes: int = 0
    """Of what is used, what may be made for a new pack; when that is so some of it or as much is free."""
    sharable_bytes: int = 0
    """What those may let go of for packs who are asked, or may be now."""
    away_bytes: int = 0
    """The most that one process has in files or packs."""
    coming_bytes: int = 0
    """What one that comes back from there still lacks."""
    largest_bytes: int = 0
    """The most that a client might need lately."""
    has_sleepers: bool = False
    """Whether there are any that can sleep."""
    _counted: dict[Memory, tuple[int, int]] = field(default_factory=dict)
    """Of each client, what was counted of it: what it takes, and what of it is in a file."""
    _seen_bytes: tuple[int, int] = (0, 0)
    """What might be made when ``grew`` was last asked."""

    # What clients have.

    def count(self, memory: Memory) -> None:
        """What a client has of it, or of its files, may be something else now."""
        taken_bytes, file_bytes = self._counted.get(memory, (0, 0))
        self._counted[memory] = memory.taken_bytes, memory.file_bytes
        self.clients_bytes += memory.taken_bytes - taken_bytes
        self.file_used_bytes += memory.file_bytes - file_bytes

    def depart(self, memory: Memory) -> None:
        """A client is gone. What it has in files is not counted before it is back, and says so."""
        self.count(memory)
        taken_bytes, file_bytes = self._counted[memory]
        self._counted[memory] = taken_bytes, 0
        self.file_used_bytes -= file_bytes
        self.departed_bytes += taken_bytes

    def free(self, memory: Memory) -> None:
        """Nothing of a client that is gone is left."""
        taken_bytes, _ = self._counted.pop(memory)
        self.clients_bytes -= taken_bytes
        self.departed_bytes -= taken_bytes

    def expect(self, size: int) -> None:
        """A client might need so much."""
        self.largest_bytes = max(self.largest_bytes, size)

    def grew(self) -> bool:
        """Whether more may be made, for some or for all, than when this was last asked."""
        before, self._seen_bytes = self._seen_bytes, (self.unused_bytes, self.left_bytes)
        return any(now > then for now, then in zip(self._seen_bytes, before, strict=True))

    # What is said of it.

    def limit(self, budget_bytes: int) -> None:
        """So much there is."""
        self.budget_bytes = budget_bytes

    def await_client(self, record: int, device: str) -> None:
        """A recorded client of a device is not back."""
        self.awaited[record] = device

    def await_no_more(self, record: int) -> str:
        """It is back, or will not come; returns its device."""
        return self.awaited.pop(record)

    def may_sleep(self, *, any_may: bool) -> None:
        """Whether there are clients that can sleep."""
        self.has_sleepers = any_may

    def look(self, *, largest_bytes: int, away_bytes: int, coming_bytes: int) -> None:
        """What those have elsewhere that sleep, and what for more is to be kept."""
        self.largest_bytes, self.away_bytes, self.coming_bytes = largest_bytes, away_bytes, coming_bytes

    def come(self, coming_bytes: int) -> None:
        """Of those that come back so much is lacking."""
        self.coming_bytes = coming_bytes

    def store(self, storable_bytes: int) -> None:
        """So much may go into files."""
        self.storable_bytes = storable_bytes

    def pack(self, *, packs_bytes: int, packing_bytes: int) -> None:
        """So much packs take, and so much may be made for one."""
        self.packs_bytes, self.packing_bytes = packs_bytes, packing_bytes

    def share(self, sharable_bytes: int) -> None:
        """So much may be let go of for packs."""
        self.sharable_bytes = sharable_bytes

    # What is left.

    @property
    def used_bytes(self) -> int:
        """What clients have of it, or is being made for them, and what packs take."""
        return self.clients_bytes + self.packs_bytes

    @property
    def kept_bytes(self) -> int:
        """What is for one that falls asleep, or comes back from a file or a pack, and for nobody else."""
        sleeping_bytes = self.largest_bytes if self.file_budget_bytes and self.has_sleepers else 0
        return max(sleeping_bytes, self.away_bytes) + self.coming_bytes

    @property
    def unused_bytes(self) -> int:
        """What may be made now for one that falls asleep, or comes back from a file or a pack."""
        return self.budget_bytes - self.used_bytes

    @property
    def left_bytes(self) -> int:
        """What may be made now for all others."""
        return self.unused_bytes - self.kept_bytes

    @property
    def available_bytes(self) -> int:
        """What may be made, now or when the memory of those that are gone is free."""
        return self.left_bytes + self.departed_bytes

    @property
    def possible_bytes(self) -> int:
        """What may be made when what can go into files or packs has gone."""
        return self.available_bytes + self.storable_bytes + self.packing_bytes + self.sharable_bytes
