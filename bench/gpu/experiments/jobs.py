"""Experiments with jobs that keep the GPU busy: their makespan in turns against one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.gpu.running.place import CONTEXT_BYTES, Moved, Place, Scheduler, left_for
from bench.gpu.running.program import Answer, Program, ProgramError
from bench.gpu.running.rows import Table

OVERHEAD = 0.25
"""Of a unit: what a job has beside its working set."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What one job does by itself."""

    steps: int
    seconds: float
    digest: str


def kind(place: Place) -> str:
    """PyTorch, where there is a GPU."""
    return "driver" if place.simulated else "torch"


def taken(answers: list[Answer]) -> float:
    """From the first beginning to the last end."""
    return float(max(each["ended"] for each in answers) - min(each["begun"] for each in answers)) / 1e9


def alone(job: Program, size: int, seconds: float) -> Alone:
    """Measures a job that runs without nvshare; it keeps its context only."""
    job.ask("hold", size=size)
    steps = job.ask("calibrate", seconds=seconds)["steps"]
    job.ask("fill")
    ran = job.ask("run", steps=steps)
    digest = job.ask("digest")["digest"]
    job.ask("release")
    return Alone(steps, taken([ran]), digest)


def again(job: Program, size: int, steps: int) -> float:
    """Seconds of the same number of steps, measured with less of them."""
    job.ask("hold", size=size)
    ran = job.ask("run", steps=max(1, steps // 2))
    job.ask("release")
    return taken([ran]) * steps / max(1, steps // 2)


def together(jobs: list[Program], steps: int) -> tuple[float, list[str]]:
    """Makespan and digests of jobs that begin at the same moment."""
    for job in jobs:
        job.ask("fill")
    for job in jobs:
        job.send("run", steps=steps)
    makespan = taken([job.answer(300) for job in jobs])
    return makespan, [job.ask("digest")["digest"] for job in jobs]


def start_jobs(place: Place, scheduler: Scheduler, names: list[str], size: int) -> list[Program]:
    """Jobs that have allocated and written."""
    jobs = [place.start(name, "job.py", scheduler.clients, kind(place), 0) for name in names]
    place.there(*jobs)
    for job in jobs:
        job.ask("hold", size=size)
        scheduler.demand_swap()
    return jobs


def report(
    table: Table, experiment: str, what: str, goal: str, makespan: float, serial: list[float], seen: str, right: bool
) -> None:
    """A row of makespan over serial; ``serial`` has what the jobs would take, by measurements before and after."""
    middle = sum(serial) / len(serial)
    table.row(
        experiment,
        what,
        f"{makespan:.2f} s / {middle:.2f} s: {makespan / middle:.3f}",
        goal,
        f"{seen}; results {'equal' if right else 'DIFFER'}",
        {"makespan": makespan, "serial": serial, "right": right},
    )


def moved_text(scheduler: Scheduler, before: Moved) -> str:
    """What the scheduler counted since."""
    moved = scheduler.moved().since(before)
    return (
        f"{moved.out_bytes / 2**30:.1f} GiB out, {moved.in_bytes / 2**30:.1f} in, {moved.stalls} stalls of "
        f"{1000 * moved.stall_seconds / max(1, moved.stalls):.0f} ms, {moved.prefetched} prefetched"
    )


def natively(place: Place, table: Table, size: int) -> None:
    """How many of two jobs have their memory that are started side by side without nvshare."""
    jobs = [place.start(name, "job.py", place.environment, kind(place), 0) for name in ("third", "fourth")]
    place.there(*jobs)
    seen: list[str] = []
    for job in jobs:
        try:
            job.ask("hold", size=size)
        except ProgramError:
            refusals = [line for line in job.said().splitlines() if re.search("out.of.memory", line, re.IGNORECASE)]
            if not refusals:
                raise
            seen.append(refusals[-1].partition(". ")[0])
    what = f"the same two without nvshare, by the driver's time slicing: {size / 2**30:.4g} GiB each"
    measured = f"{len(jobs) - len(seen)} of {len(jobs)} got their memory"
    table.row("makespan", what, measured, "", "; ".join(seen), {"refused": len(seen)})


def pair(place: Place, table: Table, share: float, goal: str) -> None:
    """Two jobs, each of ``share`` of the memory that the hog and the contexts leave, quantum 5 s."""
    data = 16 * place.unit
    size = int(share * data - OVERHEAD * place.unit)
    place.hog(left_for(data, 2) + CONTEXT_BYTES)
    single = place.ready("alone", "job.py", place.environment, kind(place), 0)
    one = alone(single, size, 4 if place.simulated else 16)
    scheduler = place.scheduler(1 if place.simulated else 5)
    jobs = start_jobs(place, scheduler, ["first", "second"], size)
    before = scheduler.moved()
    makespan, digests = together(jobs, one.steps)
    seen = moved_text(scheduler, before)
    for job in jobs:
        job.end()
    serial = [2 * one.seconds, 2 * again(single, size, one.steps)]
    what = f"two jobs of {share:.0%} of {data / 2**30:.4g} GiB, quantum 5 s"
    report(table, "makespan", what, goal, makespan, serial, seen, set(digests) == {one.digest})
    single.end()
    natively(place, table, size)


def makespan(place: Place, table: Table) -> None:
    """150 % and 200 %."""
    for share, goal in ((0.75, "<= 1.05"), (1.0, "<= 1.10")):
        pair(place, table, share, goal)
        place.stack.close()


def many(place: Place, table: Table) -> None:
    """Four jobs, then eight, each of half of the memory, quantum 2 s, by both policies.

    All have their contexts from the beginning, so the memory is the same.
    """
    data = 8 * place.unit
    size = int(data / 2 - OVERHEAD * place.unit)
    place.hog(left_for(data, 8) + CONTEXT_BYTES)
    single = place.ready("alone", "job.py", place.environment, kind(place), 0)
    one = alone(single, size, 2 if place.simulated else 8)
    scheduler = place.scheduler(0.5 if place.simulated else 2, "exclusive")
    waiting = start_jobs(place, scheduler, [f"job{number}" for number in range(8)], size // 8)
    for job in waiting:
        job.ask("release")
    jobs: list[Program] = []
    results = []
    for steps in (one.steps, one.steps // 2):
        jobs, waiting = jobs + waiting[:4], waiting[4:]
        for job in jobs[-4:]:
            job.ask("hold", size=size)
        for policy in ("exclusive", "auto"):
            scheduler.set_policy(policy)
            before = scheduler.moved()
            ran, digests = together(jobs, steps)
            right = len(set(digests)) == 1 and (steps != one.steps or digests[0] == one.digest)
            results.append((len(jobs), policy, steps, ran, moved_text(scheduler, before), right))
    for job in jobs:
        job.end()
    after = again(single, size, one.steps)
    for count, policy, steps, ran, seen, right in results:
        serial = [count * each * steps / one.steps for each in (one.seconds, after)]
        what = f"{count} jobs of half of {data / 2**30:.4g} GiB ({50 * count} %), quantum 2 s, {policy}"
        report(table, "many", what, "<= 1.02", ran, serial, seen, right)


def matrix(place: Place, table: Table) -> None:
    """Four jobs of 12 GiB, two on each of two devices of 16 GiB, against ideal turns."""
    left = left_for(16 * place.unit, 2) if place.simulated else 16 * place.unit
    size = 12 * place.unit
    for device in (0, 1):
        place.hog(left, device)
    singles = [place.start(f"alone{device}", "job.py", place.environment, kind(place), device) for device in (0, 1)]
    place.there(*singles)
    ones = [alone(single, size, 4 if place.simulated else 20) for single in singles]
    for single in singles:
        single.end()
    scheduler = place.scheduler(1 if place.simulated else 5)
    jobs = [place.start(f"job{number}", "job.py", scheduler.clients, kind(place), number % 2) for number in range(4)]
    place.there(*jobs)
    for job in jobs:
        job.ask("hold", size=size)
        scheduler.demand_swap()
    before = scheduler.moved()
    for job in jobs:
        job.ask("fill")
    for number, job in enumerate(jobs):
        job.send("run", steps=ones[number % 2].steps)
    ran = taken([job.answer(300) for job in jobs])
    digests = [job.ask("digest")["digest"] for job in jobs]
    right = all(digest == ones[number % 2].digest for number, digest in enumerate(digests))
    what = f"four jobs of {size / 2**30:.4g} GiB on two devices with {left / 2**30:.4g} GiB, quantum 5 s"
    serial = [2 * max(one.seconds for one in ones)]
    report(table, "matrix", what, "<= 1.05 of ideal turns", ran, serial, moved_text(scheduler, before), right)
