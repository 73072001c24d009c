"""What allocations and frees cost through the library, against the driver's own: allocation_cost.c, in one process."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bench.gpu.running.place import Place
from bench.gpu.running.program import ProgramError
from bench.gpu.running.rows import Table

SOURCE = Path(__file__).parents[1] / "allocation_cost.c"
LINE = re.compile(
    r"(?P<size>.+?)\s+(?P<what>allocation|free|pair)\s+(?P<through>\d+) ns, .*?(?P<own>\d+): (?P<ratio>.+)"
)


def allocations(place: Place, table: Table) -> None:
    """Compiles it, and a row for each line that it prints."""
    program = place.logs / "allocation_cost"
    subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE), "-ldl"], check=True)
    clients = place.scheduler(30).clients
    done = subprocess.run([str(program)], env=clients, capture_output=True, text=True, check=False, timeout=80)
    if done.returncode != 0:
        raise ProgramError(f"{program.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    for match in map(LINE.match, done.stdout.splitlines()):
        if match:
            table.row(
                "allocations",
                f"{match['what']}, {match['size']}",
                f"{match['through']} ns / the driver's own {match['own']} ns: {match['ratio']}",
                "<= 1.5" if match["size"] == "1 KiB" else "",
                "medians of 7 rounds in one process",
                {name: float(match[name]) for name in ("through", "own", "ratio")},
            )
