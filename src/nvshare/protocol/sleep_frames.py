"""The frames of protocol version 2 by which a process leaves its devices to a checkpoint; ``frames`` has all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nvshare.protocol.layout import lib


class SleepWhen(IntEnum):
    """When a process may leave its devices to the driver's checkpoint."""

    UNSAID = lib.NVS_SLEEP_UNSAID
    NEVER = lib.NVS_SLEEP_NEVER
    PRESSURE = lib.NVS_SLEEP_PRESSURE
    """Where others lack memory."""
    IDLE = lib.NVS_SLEEP_IDLE
    """And when it has been idle for a while."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Scheduler: close the door of your process, through which each of its calls of the driver goes.

    What its driver knows of its host memory it has taken back when it answers.
    """

    request: int


@dataclass(frozen=True, slots=True)
class Asleep:
    """Client: the door is closed, and no thread is in the driver; ``request`` 0: it was closed at REGISTER."""

    request: int


@dataclass(frozen=True, slots=True)
class NotAsleep:
    """Client: the door is open, because of ``text``; ``final``: it can never be closed."""

    request: int
    text: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class Wake:
    """Client: a call waits at the closed door."""


@dataclass(frozen=True, slots=True)
class Awake:
    """Scheduler: the driver has all back, open the door; ``lost``: it has lost the process, and each call fails."""

    lost: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """Scheduler, with the descriptor of an empty file, to one that is asleep: host memory is to be in the file."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Client: what its host memory had is in a file, and the memory is free."""


@dataclass(frozen=True, slots=True)
class NotStored:
    """Client: it is not, because of ``text``; memory has it as before."""

    text: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Client: host memory has it again, and no file or pack has any; ``lost``: it could not be read."""

    lost: bool = False


@dataclass(frozen=True, slots=True)
class Sum:
    """Scheduler, with the descriptor of a catalogue, to one that is asleep: sum up the blocks of your host memory."""


@dataclass(frozen=True, slots=True)
class Summed:
    """Client: the catalogue has ``count`` entries; none because of ``text``."""

    count: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Pack:
    """Scheduler, with the descriptor of a pack to be: write what your blocks have where the catalogue says."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Client: it is written; not because of ``text``."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Dedup:
    """Scheduler, with the descriptor of a pack: let go of each block that is equal to the catalogue's of the pack."""


@dataclass(frozen=True, slots=True)
class Deduped:
    """Client: ``away_bytes`` of its host memory are let go of, and the pack has them; nothing because of ``text``."""

    away_bytes: int = 0
    pack_bytes: int = 0
    pack: int = 0
    """The pack's inode, by which a later scheduler tells packs apart."""
    text: str = ""


SleepClientFrame = Asleep | NotAsleep | Wake | Stored | NotStored | Loaded | Summed | Packed | Deduped
SleepSchedulerFrame = Sleep | Awake | Store | Sum | Pack | Dedup
