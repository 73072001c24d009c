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
    """Client: host memory has it again, and the file is gone; ``lost``: it could not be read."""

    lost: bool = False


SleepClientFrame = Asleep | NotAsleep | Wake | Stored | NotStored | Loaded
SleepSchedulerFrame = Sleep | Awake | Store
