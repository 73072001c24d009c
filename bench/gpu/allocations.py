"""How long allocations and frees take through the library, against the driver's own."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path

from place import Place
from program import PROGRAMS, ProgramError
from rows import Table

ROUNDS = 5
SIZES = (("1 KiB", 1 << 10, 10_000, 10_000), ("1 MiB", 1 << 20, 10_000, 5_000), ("1 GiB", 1 << 30, 400, 4))
"""Name, bytes, how many, how many at a time."""


def measure(program: Path, environment: Mapping[str, str], *arguments: int) -> tuple[float, float]:
    """Nanoseconds of an allocation and of a free."""
    command = [str(program), *(str(each) for each in arguments)]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise ProgramError(f"{program.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    allocating, freeing = done.stdout.split()
    return float(allocating), float(freeing)


def allocations(place: Place, table: Table) -> None:
    """A process of each kind in alternation."""
    program = place.logs / "allocations"
    subprocess.run(["cc", "-O2", "-o", str(program), str(PROGRAMS / "allocations.c"), "-ldl"], check=True)
    scheduler = place.scheduler(30)
    for name, size, count, held in SIZES:
        plain, shared = [], []
        for _ in range(ROUNDS):
            plain.append(measure(program, place.environment, size, count, held))
            shared.append(measure(program, scheduler.clients, size, count, held))
        for what, index in (("allocation", 0), ("free", 1)):
            own = statistics.median(each[index] for each in plain)
            through = statistics.median(each[index] for each in shared)
            table.row(
                "allocations",
                f"{count} of {name}, {held} at a time: one {what}",
                f"{through:.0f} ns / the driver's own {own:.0f} ns: {through / own:.2f}",
                "<= 1.5" if size == SIZES[0][1] else "",
                f"medians of {ROUNDS} processes each",
                {"plain": [each[index] for each in plain], "shared": [each[index] for each in shared]},
            )
