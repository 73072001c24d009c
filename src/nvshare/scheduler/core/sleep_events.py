"""What happened to processes that can sleep; ``events`` has all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SleepOffered:
    """A client's process can close its door, and the scheduler can have it checkpointed, as far as is known."""

    client: int
    process: int
    """Whatever names it; its clients on other devices say the same."""
    context_bytes: int | None = None
    """What its context took before the client was one, if it was measured then."""


@dataclass(frozen=True, slots=True)
class SleepAsked:
    """The operator wants a process to sleep, as soon as its memory is out."""

    process: int


@dataclass(frozen=True, slots=True)
class FellAsleep:
    """A process is checkpointed: it has nothing on its devices, and its door is closed.

    It answers a Sleep, or says what was found of one that was asleep already when it registered.
    """

    process: int


@dataclass(frozen=True, slots=True)
class StayedAwake:
    """A process could not be put to sleep, and its door is open; answers a Sleep."""

    process: int
    reason: str
    final: bool = False
    """It never can."""


@dataclass(frozen=True, slots=True)
class WakeWanted:
    """A call of a process waits at its closed door, or the operator wants it awake."""

    process: int


@dataclass(frozen=True, slots=True)
class Woke:
    """A process has its contexts back, and its door is open; answers a Wake."""

    process: int


@dataclass(frozen=True, slots=True)
class ArenaStored:
    """What a sleeping client has in host memory is in a file, and the memory is free.

    It answers a StoreArena, or says what was so when it registered.
    """

    client: int


@dataclass(frozen=True, slots=True)
class ArenaNotStored:
    """It is in host memory as before; answers a StoreArena."""

    client: int
    reason: str


@dataclass(frozen=True, slots=True)
class ArenaShared:
    """Some of what a sleeping client has in host memory is in a pack, and the memory of that is free.

    It answers a ShareArena, or says what was so when it registered.
    """

    client: int
    away_bytes: int
    """So much, in whole granules."""
    pack: int
    """What names the pack."""
    pack_bytes: int
    """What all of it takes, for all clients that have something there."""


@dataclass(frozen=True, slots=True)
class ArenaNotShared:
    """It is in host memory as before; answers a ShareArena."""

    client: int
    reason: str


@dataclass(frozen=True, slots=True)
class ArenaLoaded:
    """It is in host memory again, all of which the client was given, and in no file or pack."""

    client: int


@dataclass(frozen=True, slots=True)
class OwnerFound:
    """It is known whose a client is."""

    client: int
    owner: str
    """The same for all clients whose equal memory may be kept once; empty: it is with nobody's."""


StoreEvent = ArenaStored | ArenaNotStored | ArenaShared | ArenaNotShared | ArenaLoaded
"""What happened to the host memory of a client that sleeps."""

SleepEvent = SleepAsked | FellAsleep | StayedAwake | WakeWanted | Woke
"""What happened to a whole process."""
