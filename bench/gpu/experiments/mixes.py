"""Experiments with programs that share a GPU: together, in turns, by measure, with weights, in bursts, as gangs."""

from __future__ import annotations

import bisect
import re
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.gpu.running.place import Place, Scheduler
from bench.gpu.running.program import Answer, Program
from bench.gpu.running.rows import Table

PAIRS = (
    ("matmul", "matmul"),
    ("add", "add"),
    ("bert", "bert"),
    ("mlp", "mlp"),
    ("mlp", "matmul"),
    ("matmul", "add"),
    ("small", "small"),
)
QUANTUM = 2.0
EDGE_SECONDS = 0.5
"""At the beginning and the end of a run, when not all are there."""
ALONE_SECONDS = 3.0
TOGETHER_SECONDS = 6.0
TURNS_SECONDS = 6 * QUANTUM + 2 * EDGE_SECONDS
AUTO_SECONDS = 60.0
BURSTS = ((0.1, 0.9), (0.005, 0.045))
"""Seconds of work and of rest."""
LEARNING_SECONDS = 40.0
"""So long under ``auto`` before bursts are measured."""
WEIGHTS_SECONDS = 40.0
ALONE_STEPS = 2000
GANG_SECONDS = 8 * QUANTUM
CUT = re.compile(r"its gang has stopped after (\d+) us, and (\d+) submissions that passed")
"""What the library says of each when it is asked to debug."""


def rates(answers: Sequence[Answer], edge: float = EDGE_SECONDS) -> list[float]:
    """Steps a second of programs that ran at the same time, in the time in which all did."""
    begin = max(each["marks"][0][0] for each in answers) + edge
    end = min(each["marks"][-1][0] for each in answers) - edge
    return [(done(each, end) - done(each, begin)) / (end - begin) for each in answers]


def done(answer: Answer, moment: float) -> float:
    """Steps that had completed by then, a line between two marks."""
    marks = answer["marks"]
    place = bisect.bisect([mark[0] for mark in marks], moment)
    if place == 0 or place == len(marks):
        return float(marks[max(0, place - 1)][1])
    (before, fewer), (after, more) = marks[place - 1], marks[place]
    return float(fewer + (more - fewer) * (moment - before) / max(1e-9, after - before))


def run(programs: Sequence[Program], seconds: float) -> list[float]:
    """Their rates while all run."""
    for program in programs:
        program.send("run", seconds=seconds)
    return rates([program.answer(seconds + 60) for program in programs])


def run_steps(programs: Sequence[Program], steps: Sequence[int]) -> list[float]:
    """The same of ranks, which wait for each other and so must do the same number of steps."""
    for program, count in zip(programs, steps, strict=True):
        program.send("run", steps=count)
    return rates([program.answer(120) for program in programs])


def prepare(place: Place, scheduler: Scheduler, kinds: Sequence[str]) -> list[Program]:
    """Programs that have their state."""
    programs = [
        place.start(f"{kind}{number}", "steady.py", scheduler.clients, kind_of(place, kind))
        for number, kind in enumerate(kinds)
    ]
    place.there(*programs)
    for program in programs:
        program.ask("prepare")
    return programs


def kind_of(place: Place, kind: str) -> str:
    """What stands for a kind where there is no GPU."""
    return "spin" if place.simulated else kind


def seconds_of(place: Place, seconds: float) -> float:
    """Less where nothing is measured but whether it runs."""
    return seconds / 4 if place.simulated else seconds


def pair(place: Place, table: Table, kinds: tuple[str, str]) -> None:
    """Two programs: alone, together, in turns, and by measure, in the same processes."""
    scheduler = place.scheduler(QUANTUM, "off")
    programs = prepare(place, scheduler, kinds)
    alone = [run([program], seconds_of(place, ALONE_SECONDS))[0] for program in programs]
    together = run(programs, seconds_of(place, TOGETHER_SECONDS))
    scheduler.set_policy("exclusive")
    turns = run(programs, seconds_of(place, TURNS_SECONDS))
    scheduler.set_policy("auto")
    auto = run(programs, seconds_of(place, AUTO_SECONDS))
    seen = scheduler.mix()
    scheduler.set_policy("off")
    after = [run([program], seconds_of(place, ALONE_SECONDS))[0] for program in programs]
    alone = [sum(both) / 2 for both in zip(alone, after, strict=True)]
    for program in programs:
        program.end()
    sums = [sum(rate / single for rate, single in zip(each, alone, strict=True)) for each in (together, turns, auto)]
    best = max(sums[:2])
    table.row(
        "pairs",
        f"{kinds[0]} + {kinds[1]}, auto for {seconds_of(place, AUTO_SECONDS):g} s from nothing known",
        f"{sums[2] / best:.3f} of the better",
        ">= 0.98",
        f"together {sums[0]:.3f}, turns {sums[1]:.3f}, auto {sums[2]:.3f}: {seen}",
        {"kinds": kinds, "alone": alone, "together": together, "turns": turns, "auto": auto},
    )


def pairs(place: Place, table: Table) -> None:
    """The pairs of the matrix, one after the other."""
    for kinds in PAIRS:
        pair(place, table, kinds)
        place.stack.close()


def weights(place: Place, table: Table) -> None:
    """Three equal programs with weights 1, 2 and 4, in turns; then with equal ones."""
    for weighed in ((1, 2, 4), (1, 1, 1)):
        scheduler = place.scheduler(0.2, "exclusive")
        programs = [
            place.start(
                f"weight{number}",
                "steady.py",
                {**scheduler.clients, "NVSHARE_WEIGHT": str(weight)},
                kind_of(place, "matmul"),
            )
            for number, weight in enumerate(weighed)
        ]
        place.there(*programs)
        for program in programs:
            program.ask("prepare")
        cycle = 0.2 * sum(weighed)
        # Whole cycles, so many that one turn more or less hardly counts.
        got = run(programs, seconds_of(place, round(WEIGHTS_SECONDS / cycle) * cycle) + 2 * EDGE_SECONDS)
        shares = [rate / sum(got) for rate in got]
        wanted = [weight / sum(weighed) for weight in weighed]
        worst = min(share / want for share, want in zip(shares, wanted, strict=True))
        served = [rate / weight for rate, weight in zip(got, weighed, strict=True)]
        jain = sum(served) ** 2 / (len(served) * sum(each * each for each in served))
        table.row(
            "weights",
            f"three programs, weights {', '.join(map(str, weighed))}, quantum 0.2 s",
            f"{worst:.3f} of the share at least, Jain {jain:.4f}",
            ">= 0.98, >= 0.99",
            "shares " + ", ".join(f"{share:.4f}" for share in shares),
            {"weights": weighed, "rates": got, "jain": jain},
        )
        place.stack.close()


def bursts(place: Place, table: Table) -> None:
    """Bursts of 100 ms a second, and small requests, beside a program that saturates the GPU."""
    for work, rest in BURSTS:
        bursts_of(place, table, work, rest)
        place.stack.close()


def bursts_of(place: Place, table: Table, work: float, rest: float) -> None:
    """Seconds of work, and of rest; under ``auto`` from when it is known what is better."""
    scheduler = place.scheduler(QUANTUM, "exclusive")
    burster, busy = prepare(place, scheduler, ("matmul", "matmul"))
    seconds = seconds_of(place, 20.0)
    single = burster.ask("bursts", seconds=seconds / 4, work=work, rest=rest, steps=0)
    rate = run([busy], seconds_of(place, ALONE_SECONDS))[0]
    for policy in ("exclusive", "auto"):
        scheduler.set_policy(policy)
        for length in (seconds,) if policy == "exclusive" else (seconds_of(place, LEARNING_SECONDS), seconds):
            busy.send("run", seconds=length)
            beside = burster.ask("bursts", seconds=length - 2, work=work, rest=rest, steps=single["steps"])
            found = f"; {scheduler.mix()}" if policy == "auto" else ""
            kept = rates([busy.answer()])[0]
        alone95, beside95 = (p95(each["took"]) for each in (single, beside))
        cycle = rest + statistics.mean(beside["took"])
        left = 1 - statistics.mean(single["took"]) / cycle
        table.row(
            "bursts",
            f"bursts of {1000 * statistics.mean(single['took']):.0f} ms, {1000 * rest:.0f} ms of rest, {policy}",
            f"p95 {beside95 / alone95:.2f} x alone; the other {kept / rate / left:.3f} of the rest",
            "<= 2; >= 0.85",
            f"{len(beside['took'])} bursts, p95 {1000 * alone95:.0f} and {1000 * beside95:.0f} ms, "
            f"{1 - statistics.mean(beside['took']) / cycle:.2f} of the time without a burst{found}",
            {"alone": single["took"], "beside": beside["took"], "rate": rate, "kept": kept},
        )


def p95(values: Sequence[float]) -> float:
    """What 95 of 100 are not above."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def gang(place: Place, scheduler: Scheduler, name: str) -> list[Program]:
    """A job of two ranks that has its state."""
    folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory()))
    ranks = [place.start(f"{name}-{rank}", "steady.py", scheduler.clients, "ddp", rank, folder) for rank in (0, 1)]
    place.there(*ranks)
    for rank in ranks:
        rank.send("prepare")
    for rank in ranks:
        rank.answer()
    return ranks


def gangs(place: Place, table: Table) -> None:
    """Two jobs of two ranks on two devices; then a hundred cuts, bit by bit."""
    scheduler = place.scheduler(QUANTUM, "auto")
    scheduler.clients["NVSHARE_DEBUG"] = "1"
    first, second = gang(place, scheduler, "first"), gang(place, scheduler, "second")
    alone = [run_steps(job, [ALONE_STEPS] * 2)[0] for job in (first, second)]
    steps = [int(rate * GANG_SECONDS / 2) for rate in alone]
    scheduler.set_policy("off")
    together = run_steps([*first, *second], [steps[0] // 4, steps[0] // 4, steps[1] // 4, steps[1] // 4])
    scheduler.set_policy("auto")
    both = run_steps([*first, *second], [steps[0], steps[0], steps[1], steps[1]])
    ratio, sliced = (each[0] / alone[0] + each[2] / alone[1] for each in (both, together))
    table.row(
        "gangs",
        "two DDP jobs of two ranks on two devices, auto, quantum 2 s",
        f"{ratio:.3f} of one alone; together {sliced:.3f}",
        ">= 0.95",
        f"{both[0]:.0f} and {both[2]:.0f} steps a second, {alone[0]:.0f} and {alone[1]:.0f} alone",
        {"alone": alone, "both": both, "together": together},
    )
    place.stack.close()
    cuts(place, table)


def cuts(place: Place, table: Table) -> None:
    """Short turns: how long a gang takes to leave, and whether it computes the same."""
    steps = 200 if place.simulated else 3500
    reference = place.scheduler(QUANTUM, "off")
    job = gang(place, reference, "reference")
    expected = digests_of(job, steps)
    place.stack.close()
    scheduler = place.scheduler(0.2, "auto")
    scheduler.clients["NVSHARE_DEBUG"] = "1"
    jobs = [gang(place, scheduler, name) for name in ("third", "fourth")]
    for rank in (*jobs[0], *jobs[1]):
        rank.send("run", steps=steps)
    for rank in (*jobs[0], *jobs[1]):
        rank.answer(400)
    found = [rank.ask("digest")["digest"] for rank in (*jobs[0], *jobs[1])]
    told = [CUT.findall(rank.said()) for rank in (jobs[0][0], jobs[1][0])]
    drains = [int(microseconds) / 1000 for each in told for microseconds, _ in each]
    if not drains:
        drains = [float("nan")]
    table.row(
        "cuts",
        f"two DDP jobs, {steps} steps each, quantum 0.2 s",
        f"{len(drains)} cuts, p95 {p95(drains):.1f} ms, median {statistics.median(drains):.1f}",
        "100; <= 20 ms + the running kernel",
        f"results {'equal' if set(found) == set(expected) else 'DIFFER'}, most {max(drains):.1f} ms",
        {"drains_ms": drains, "expected": expected, "found": found},
    )


def digests_of(job: Sequence[Program], steps: int) -> list[str]:
    """What the ranks of a job have after so many more steps."""
    for rank in job:
        rank.send("run", steps=steps)
    for rank in job:
        rank.answer(400)
    return [rank.ask("digest")["digest"] for rank in job]
