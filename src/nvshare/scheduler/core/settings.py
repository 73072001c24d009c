"""What the operator chooses when the scheduler starts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from nvshare.scheduler.core.events import Policy

ASSUMED_PINNED_BYTES: Final = 640 << 20
"""Device memory charged to a client beside its footprint until it is measured.

A fresh CUDA context of a PyTorch process took 619 MiB on an H200 (727 MiB with cuBLAS and cuDNN loaded).
"""


SHORTEST_QUANTUM: Final = 0.01
LONGEST_QUANTUM: Final = 86400.0


class Unresponsive(Enum):
    """What becomes of a holder that does not give the lock back in time."""

    REPORT = "report"
    """It is shown and logged; whoever does not fit beside it waits."""
    KILL = "kill"
    """It is also killed as soon as somebody waits who can't be admitted otherwise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The scheduler's choices; policy and quantum are those of devices for which nothing else was set."""

    policy: Policy = Policy.AUTO
    quantum_seconds: float = 30.0
    longest_turn: float = 10.0
    """In quanta, or in the shortest turns that are worth a hand-over: no turn is longer, whatever the weights."""
    grace_seconds: float = 10.0
    """How long after a Revoke a holder counts as unresponsive, once a grant."""
    assumed_pinned_bytes: int = ASSUMED_PINNED_BYTES
    unresponsive: Unresponsive = Unresponsive.REPORT
    reserve_bytes: int | None = None
    """What stays free on each device where memory swaps, for what the driver takes unasked; None: a share of it."""
    host_bytes: int = 0
    """Host memory for all clients' arenas together."""
    file_bytes: int = 0
    """What of the arenas of clients that sleep may be in files; 0: nothing."""
    sleep_after_seconds: float | None = None
    """After so much idleness a process sleeps whose terms leave it open; None: not before others lack memory."""
    floor: float = 0.05
    """What lower priority classes together get of a device's time while a higher one always wants it. From 0 to 0.5."""
    burst_seconds: float = 0.0
    """The most of a device's time that a container saves for bursts while it is idle; 0: there are none."""
