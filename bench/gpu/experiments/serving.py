"""An inference server of two ranks beside a job on one of their devices: the ranks share memory by CUDA IPC."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.experiments import jobs
from bench.gpu.experiments.mixes import CUT, p95, seconds_of
from bench.gpu.running.place import Place, Scheduler, left_for
from bench.gpu.running.program import Program, ProgramError
from bench.gpu.running.rows import Table
from nvshare import paths

QUANTUM = 0.25
SECONDS = 3.0
"""Of each part, if nobody is beside it."""
CALIBRATION_STEPS = 200
JOB_UNITS = 4.0
MEASURED_SECONDS = 10.0
LEFT_UNITS = 5.0
"""Of the first device, for data: enough for the job or a rank, and not for both."""


@dataclass(frozen=True, slots=True)
class Site:
    """A server and a job that are to run beside each other."""

    ranks: list[Program]
    job: Program

    def begin(self, graph: bool) -> None:
        """The server's first tokens again."""
        for rank in self.ranks:
            rank.send("begin", graph=graph)
        for rank in self.ranks:
            rank.answer()

    def serve(self, steps: int) -> float:
        """Seconds of so many steps of the server alone."""
        for rank in self.ranks:
            rank.send("run", steps=steps)
        return max(_seconds(rank.answer()["marks"]) for rank in self.ranks)

    def digests(self) -> list[str]:
        """Of both ranks."""
        return [rank.ask("digest")["digest"] for rank in self.ranks]

    def end(self) -> None:
        """Closes what the ranks have opened, and ends all."""
        for rank in self.ranks:
            rank.send("close")
        for rank in self.ranks:
            rank.answer()
        for program in (*self.ranks, self.job):
            program.end()


@dataclass(frozen=True, slots=True)
class Alone:
    """What a server and a job do each by itself."""

    steps: Mapping[bool, int]
    """Of the server: one by one (False), as graphs (True)."""
    seconds: Mapping[bool, float]
    digests: Mapping[bool, str]
    job: jobs.Alone
    opened: list[object]
    """What is said of memory that is opened."""


def _seconds(marks: list[list[float]]) -> float:
    return float(marks[-1][0] - marks[0][0])


def start(place: Place, name: str, environment: Mapping[str, str]) -> list[Program]:
    """The ranks, not yet there."""
    folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory()))
    return [place.start(f"{name}-{rank}", "serve.py", environment, rank, folder, jobs.kind(place)) for rank in (0, 1)]


def prepared(place: Place, ranks: list[Program], environment: Mapping[str, str], size: int) -> Site:
    """Ranks and a job that have their state."""
    for rank in ranks:
        rank.send("prepare")
    job = place.ready("job", "job.py", environment, jobs.kind(place), 0)
    job.ask("hold", size=size)
    for rank in ranks:
        rank.answer()
    for rank in ranks:
        rank.ask("capture")
    return Site(ranks, job)


def alone(place: Place, site: Site) -> Alone:
    """The reference, which nobody disturbs."""
    steps, seconds, digests = {}, {}, {}
    wanted = seconds_of(place, SECONDS)
    for graph in (False, True):
        site.begin(graph)
        steps[graph] = max(1, round(CALIBRATION_STEPS * wanted / site.serve(CALIBRATION_STEPS)))
        site.begin(graph)
        seconds[graph] = site.serve(steps[graph])
        first, second = site.digests()
        if first != second:
            raise ProgramError(f"the ranks differ without anybody beside them: {first} and {second}")
        digests[graph] = first
    count = site.job.ask("calibrate", seconds=wanted)["steps"]
    site.job.ask("fill")
    took = jobs.taken([site.job.ask("run", steps=count)])
    single = jobs.Alone(count, took, site.job.ask("digest")["digest"])
    opened = [rank.ask("opened")["opened"] for rank in site.ranks]
    site.end()
    return Alone(steps, seconds, digests, single, opened)


def beside(table: Table, scheduler: Scheduler, site: Site, single: Alone, graph: bool, what: str) -> None:
    """Both at the same time: a row."""
    site.begin(graph)
    site.job.ask("fill")
    told, turns, moved = _cuts(site), _turns(scheduler, site), scheduler.moved()
    for rank in site.ranks:
        rank.send("run", steps=single.steps[graph])
    site.job.send("run", steps=single.job.steps)
    answers = [rank.answer() for rank in site.ranks]
    ran = site.job.answer()
    begun = min(ran["begun"] / 1e9, *(each["marks"][0][0] for each in answers))
    makespan = max(ran["ended"] / 1e9, *(each["marks"][-1][0] for each in answers)) - begun
    gang = gang_text(scheduler, site)
    cuts = _cuts(site)[len(told) :]
    moves = jobs.moved_text(scheduler, moved)
    found = [*site.digests(), site.job.ask("digest")["digest"]]
    expected = [single.digests[graph]] * 2 + [single.job.digest]
    serving = max(_seconds(each["marks"]) for each in answers)
    serial = single.seconds[graph] + single.job.seconds
    opened = [rank.ask("opened")["opened"] for rank in site.ranks]
    table.row(
        "serve",
        what,
        f"{makespan:.2f} s / {serial:.2f} s: {makespan / serial:.3f}",
        "equal results, one gang",
        f"server {'equal' if found[:2] == expected[:2] else 'DIFFERS'}, job "
        f"{'equal' if found[2] == expected[2] else 'DIFFERS'}; {gang}; "
        f"{_turns(scheduler, site) - turns} turns of rank 0, {len(cuts)} cuts{_times(cuts)}; "
        f"server {single.steps[graph] / serving:.0f} steps/s of {single.steps[graph] / single.seconds[graph]:.0f}, "
        f"job {single.job.steps / jobs.taken([ran]):.0f} of {single.job.steps / single.job.seconds:.0f}; {moves}; "
        f"pointers {'answer as without' if opened == single.opened else f'answer {opened}, not {single.opened}'}",
        {
            "makespan": makespan,
            "serial": serial,
            "cuts_ms": cuts,
            "expected": expected,
            "found": found,
            "gang": gang,
            "opened": opened,
        },
    )


def _times(cuts: list[float]) -> str:
    return f" (p95 {p95(cuts):.1f} ms, median {statistics.median(cuts):.1f})" if cuts else ""


def _cuts(site: Site) -> list[float]:
    """How long each took so far, in milliseconds, as the gang's leader says."""
    return [int(took) / 1000 for took, _ in CUT.findall(site.ranks[0].said())]


def _turns(scheduler: Scheduler, site: Site) -> int:
    return sum(
        client.grants
        for device in scheduler.status().devices
        for client in device.clients
        if client.pid == site.ranks[0].process.pid
    )


def gang_text(scheduler: Scheduler, site: Site) -> str:
    """Whether the ranks are one gang, and the job is not in it. Nobody named one, and there is no NCCL."""
    pids = [rank.process.pid for rank in site.ranks]
    clients = [client for device in scheduler.status().devices for client in device.clients]
    # A rank is also a client of the other one's device, whose memory it has opened, and submits nothing there.
    gangs = {(client.pid, client.gang.name) for client in clients if client.HasField("gang")}
    names = {name for _, name in gangs}
    if len(names) == 1 and {pid for pid, _ in gangs} == set(pids):
        return f"the ranks are {names.pop()}"
    return f"NO GANG of the ranks alone: {gangs}, ranks {pids}"


def measured(scheduler: Scheduler) -> None:
    """Waits until the scheduler has measured what its clients and others have beside what it counts itself."""
    end = time.monotonic() + MEASURED_SECONDS
    while time.monotonic() < end:
        first = next(device for device in scheduler.status().devices if device.index == "0")
        if first.foreign_bytes and all(each.pinned_measured or not each.footprint_bytes for each in first.clients):
            return
        time.sleep(0.1)
    raise ProgramError(f"within {MEASURED_SECONDS:g} s the scheduler has not measured the memory of the first device")


def serving(place: Place, table: Table) -> None:
    """Alone; then beside a job that fits, by measure and in turns; then beside one that does not fit."""
    size = int(JOB_UNITS * place.unit)
    # Without a GPU no driver has CUDA IPC, and memory that swaps has ours.
    plain = "swap" if place.simulated else "native"
    reference = place.scheduler(QUANTUM, "off").clients | {paths.MEMORY: "swap"} if place.simulated else {}
    fits, swaps = place.scheduler(QUANTUM), place.scheduler(QUANTUM)
    environments = {
        "alone": reference or place.environment,
        "fits": fits.clients | {paths.MEMORY: plain, paths.DEBUG: "1"},
        "swaps": swaps.clients | {paths.MEMORY: "swap", paths.DEBUG: "1"},
    }
    ranks = {name: start(place, name, environment) for name, environment in environments.items()}
    place.there(*(rank for both in ranks.values() for rank in both))

    def site(name: str) -> Site:
        return prepared(place, ranks[name], environments[name], size)

    single = alone(place, site("alone"))
    fitting = site("fits")
    beside(table, fits, fitting, single, False, f"server of two ranks and a job that fits, {plain} memory, auto")
    fits.set_policy("exclusive")
    beside(table, fits, fitting, single, True, f"the same in turns of {QUANTUM:g} s, the server replays graphs")
    fitting.end()
    place.hog(left_for(int(LEFT_UNITS * place.unit), 2))
    large = site("swaps")
    swaps.demand_swap()
    measured(swaps)
    beside(table, swaps, large, single, True, "server of two ranks and a job that does not fit, memory swaps, auto")
    large.end()
