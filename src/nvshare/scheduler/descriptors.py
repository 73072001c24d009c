"""How many files this process may have open, and what they are for."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OWN = 80
"""Of the admin API, kubelet, files in /proc, segments of arenas, processes that are about to end.

And what goes from one client to another (``clients.sharing``)."""
_PROBES = 48
"""Of those who probe and scrape."""
MOST_CLIENTS = 16384
"""A status with so many clients fits ``nvshare.admin_channel.LARGEST_ANSWER``."""
FEW_CLIENTS = 64
"""An administrator should hear of it when there is room for fewer."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The descriptors that are left, by what they are for."""

    clients: int
    probes: int


def raise_limit() -> int:
    """Asks for as many descriptors as are allowed; the answer is how many these are."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The kernel takes no limit above fs.nr_open, which may have been lowered since this process got its own.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else os.sysconf("SC_OPEN_MAX")


def open_now() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1


def shared_out(limit: int, used: int, *, probes: bool) -> Shares:
    """With few, everybody gets less; one client is always served. ``probes``: whether anybody can probe."""
    left = max(limit - used, 0)
    for_probes = min(_PROBES, left // 4) if probes else 0
    own = min(_OWN, left // 4)
    return Shares(min(max(left - own - for_probes, 1), MOST_CLIENTS), for_probes)
