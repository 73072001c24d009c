"""What the operator chooses when the scheduler starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.events import Policy

ASSUMED_PINNED_BYTES: Final = 640 << 20
"""Device memory charged to a client beside its footprint until it is measured.

A fresh CUDA context of a PyTorch process took 619 MiB on an H200 (727 MiB with cuBLAS and cuDNN loaded).
"""


SHORTEST_QUANTUM: Final = 0.01
LONGEST_QUANTUM: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The scheduler's choices; policy and quantum are those of devices for which nothing else was set."""

    policy: Policy = Policy.AUTO
    quantum_seconds: float = 30.0
    grace_seconds: float = 10.0
    """How long after a Revoke a holder is reported as unresponsive, once a grant."""
    assumed_pinned_bytes: int = ASSUMED_PINNED_BYTES
