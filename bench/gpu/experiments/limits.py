"""Experiments with limits: a share of the time that is set while a program runs, and a memory limit as it is seen."""

from __future__ import annotations

from itertools import pairwise

from bench.gpu.experiments.mixes import ALONE_SECONDS, QUANTUM, done, prepare, run
from bench.gpu.running.place import MIB, Place
from bench.gpu.running.rows import Table

LIMITED = ("spin", "matmul")
"""A kernel that takes 1 ms by the GPU's clock, which tells the share of the time; one that runs at a higher clock rate
when the GPU rests in between, which does more than its share."""
SHARE = 0.3
WINDOW_SECONDS = 10.0
LIMIT_UNITS = 4


def limits(place: Place, table: Table) -> None:
    """A compute limit, then a memory limit."""
    for kind in LIMITED:
        compute(place, table, kind)
        place.stack.close()
    memory(place, table)


def compute(place: Place, table: Table, kind: str) -> None:
    """A program alone gets a limit while it is there: what it does in windows of ten seconds, of what it did before."""
    scheduler = place.scheduler(QUANTUM)
    scheduler.clients["NVSHARE_CONTAINER"] = "limited"
    [program] = prepare(place, scheduler, (kind,))
    before = run([program], ALONE_SECONDS)[0]
    scheduler.set_compute_limit("limited", SHARE)
    program.send("run", seconds=2.5 * WINDOW_SECONDS)
    answer = program.answer()
    begin = answer["marks"][0][0]
    marks = [done(answer, begin + (each + 0.25) * WINDOW_SECONDS) for each in range(3)]
    scheduler.set_compute_limit("limited", 1.0)
    rate = (before + run([program], ALONE_SECONDS)[0]) / 2
    shares = [(later - earlier) / WINDOW_SECONDS / rate for earlier, later in pairwise(marks)]
    table.row(
        "limits",
        f"a compute limit of {SHARE:.0%}, {kind}, two windows of {WINDOW_SECONDS:g} s",
        ", ".join(f"{share:.4f}" for share in shares),
        f"{SHARE:g} within 2 %",
        f"{rate:.0f} steps a second without",
        {"rate": rate, "shares": shares},
    )


def memory(place: Place, table: Table) -> None:
    """The size of the device as all tell it who are asked, and how much can be had."""
    scheduler = place.scheduler(QUANTUM)
    limit = LIMIT_UNITS * place.unit
    program = place.ready("limited", "limited.py", {**scheduler.clients, "NVSHARE_MEMORY_LIMIT": f"{limit // MIB}Mi"})
    view = program.ask("view")
    filled = program.ask("fill")
    wrong = {name: size for name, size in view["sizes"].items() if size != limit}
    table.row(
        "limits",
        f"a memory limit of {limit // MIB} MiB: {', '.join(view['sizes'])}",
        f"{f'wrong: {wrong}' if wrong else 'all tell the limit'}; {filled['taken'] // MIB} MiB were to be had",
        "the limit",
        f"free before: {view['free'] // MIB} MiB, by NVML {view['nvml_free'] // MIB}; then {filled['error']}",
        view | filled,
    )
