"""The scheduler's memory while very many clients come and go.

Usage: ``python -m bench.growth [CONNECTIONS]``. A real scheduler process. Ends with status 1 if the second half of the
connections made it grow by more than 4 MB.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.scheduler.passers_by import come_and_go, resident_bytes
from tests.scheduler.wire_client import Scheduler

_STEPS = 10
_MOST_BYTES = 4e6


def main() -> None:
    """Prints the memory after each tenth."""
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="nvshare-") as folder, Scheduler(Path(folder) / "run") as scheduler:
        sizes = []
        for step in range(_STEPS):
            come_and_go(scheduler, connections // _STEPS)
            sizes.append(resident_bytes(scheduler))
            print(f"{(step + 1) * (connections // _STEPS)} connections: {sizes[-1] / 1e6:.1f} MB", flush=True)
    if sizes[-1] - sizes[_STEPS // 2 - 1] > _MOST_BYTES:
        sys.exit("it grows")


if __name__ == "__main__":
    main()
