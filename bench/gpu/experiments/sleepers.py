"""Experiments with programs that sleep: what they keep on the card, how long waking takes, how many there can be."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.gpu.experiments.frameworks import SAME_RESULTS, saved_references
from bench.gpu.experiments.jobs import kind
from bench.gpu.running.place import RESERVE_BYTES, Place, Scheduler, left_for
from bench.gpu.running.program import Program
from bench.gpu.running.rows import Table

REST_SECONDS = 0.2
ROUNDS = 5
SIZES = (0.25, 4, 20)
"""GiB; the first is what a program has that has nothing."""
MANY = 40
SLEEPS = 200
RUSH, RUSH_CONTEXTS = 4, 3
FILE_PROGRAMS = 3
ALIKE = 4
UNASKED_BYTES = 64 << 20
"""What each has room for in host memory beside its data, or a sixteenth of that."""
CROWD, CROWD_CONTEXTS, CROWD_SECONDS = 5, 3, 8.0
"""Programs, about how many contexts fit, and how long one of them computes when it is alone."""
MEETING_RANKS, MEETING_IDLE, MEETINGS = 2, 3, 1000
MEETING_BYTES = 1 << 30
"""Of each rank, also on a simulated device: less than that too much does not keep holders apart."""
MEETING_IDLE_BYTES = 8 << 20
"""Of each that is idle: nearly all that leaves when it sleeps is its context."""
ENDLESS_STEPS = 10**9
FLOOR_REQUESTS, FLOOR_PAUSE_SECONDS = 4, 3.0
"""The pause is longer than a slice: nothing of that is left for the next request."""
FLOOR_WAIT_SECONDS = 120.0
"""How long the lower one waits for each at most: six times what it takes to be owed a slice by ``--floor 0.05``."""

USED = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(0)).used)"


def card_bytes(place: Place) -> int:
    """What all processes together have on the first device."""
    asked = subprocess.run(
        [sys.executable, "-c", USED], env=dict(place.environment), capture_output=True, text=True, check=True
    )
    return int(asked.stdout)


def request(job: Program) -> float:
    """Seconds of one small piece of work, as its program sees them; its result is the same each time."""
    ran = job.ask("run", steps=1)
    return float(ran["ended"] - ran["begun"]) / 1e9


def card(place: Place, table: Table) -> None:
    """What a program that sleeps has on the card."""
    scheduler = place.scheduler(2)
    before = card_bytes(place)
    job = place.ready("job", "job.py", scheduler.clients, kind(place), 0)
    job.ask("hold", size=place.unit)
    awake = card_bytes(place) - before
    scheduler.put_to_sleep(job.process.pid)
    asleep = card_bytes(place) - before
    job.ask("run", steps=20)
    table.row(
        "card",
        f"a program with {place.unit / 2**30:.4g} GiB",
        f"{asleep / 2**20:.0f} MiB asleep",
        "<= 10 MiB",
        f"{awake / 2**20:.0f} MiB awake",
        {"asleep": asleep, "awake": awake},
    )


def wake(place: Place, table: Table) -> None:
    """From a call to the end of its kernel, of a program that sleeps; and when only its data was out."""
    scheduler = place.scheduler(2)
    job = place.ready("job", "job.py", scheduler.clients, kind(place), 0)
    pid = job.process.pid
    for gib in SIZES:
        size = int(gib * place.unit)
        job.ask("hold", size=size)
        request(job)
        digest = job.ask("digest")["digest"]
        warm, asleep, out = [], [], []
        for _ in range(ROUNDS):
            scheduler.put_to_sleep(pid)
            asleep.append(request(job))
            warm.append(request(job))
            scheduler.put_to_sleep(pid)
            scheduler.wake(pid)
            out.append(request(job))
        right = job.ask("digest")["digest"] == digest
        job.ask("release")
        middle = {name: statistics.median(each) for name, each in (("asleep", asleep), ("out", out), ("warm", warm))}
        table.row(
            "wake",
            f"{size / 2**30:.4g} GiB, to the end of the first kernel",
            f"asleep {middle['asleep']:.3f} s, only its data out {middle['out']:.3f} s",
            "<= 0.35 s and its data; 20 GB: <= 0.75 and 0.40 s" if place.unit >= 1 << 30 else "",
            f"in {middle['warm']:.4f} s; most {max(asleep):.3f} s, {ROUNDS} rounds; "
            f"contents {'equal' if right else 'DIFFER'}",
            {"asleep": asleep, "out": out, "warm": warm, "right": right},
        )


def files(place: Place, table: Table) -> None:
    """More than host memory takes: three programs of which one is in a file, each asked in turn."""
    size = 4 * place.unit
    folder = place.logs / "files"
    folder.mkdir()
    scheduler = place.scheduler(2, host_memory=str(size * 5 // 2), sleep_after=REST_SECONDS, swap_dir=folder)
    jobs = [place.ready(f"job{i}", "job.py", scheduler.clients, kind(place), 0) for i in range(FILE_PROGRAMS)]
    digests, seconds = [], []
    for job in jobs:
        job.ask("hold", size=size)
        request(job)
        digests.append(job.ask("digest")["digest"])
    by_pid = {job.process.pid: job for job in jobs}
    for _ in range(FILE_PROGRAMS * ROUNDS):
        seconds.append(request(by_pid[scheduler.stored()]))
    right = [job.ask("digest")["digest"] for job in jobs] == digests
    written, read = (size / 2**30 / statistics.median(each) for each in scheduler.file_seconds())
    table.row(
        "files",
        f"{size / 2**30:.4g} GiB in a file, to the end of the first kernel",
        f"{statistics.median(seconds):.3f} s",
        "",
        f"most {max(seconds):.3f} s of {len(seconds)}; written {written:.2f} GiB/s, read {read:.2f} GiB/s; "
        f"contents {'equal' if right else 'DIFFER'}",
        {"seconds": seconds, "written": written, "read": read, "right": right},
    )


def many(place: Place, table: Table) -> None:
    """More programs than the card has room for contexts, each asked twice in random order."""
    count, size = (16, place.unit // 2) if place.simulated else (MANY, place.unit // 4)
    place.hog(left_for(4 * place.unit, 6))
    scheduler = place.scheduler(2, sleep_after=REST_SECONDS)
    jobs: list[Program] = []
    for number in range(count):
        job = place.ready(f"job{number}", "job.py", scheduler.clients, kind(place), 0)
        job.ask("hold", size=size)
        request(job)
        jobs.append(job)
    digests = [job.ask("digest")["digest"] for job in jobs]
    slept = _wait_until_all_sleep(scheduler, jobs)
    order = list(range(count)) * 2
    random.Random(1).shuffle(order)
    seconds = [request(jobs[number]) for number in order]
    right = sum(job.ask("digest")["digest"] == digest for job, digest in zip(jobs, digests, strict=True))
    table.row(
        "many",
        f"{count} programs, of which about 6 contexts fit",
        f"{right} of {count} right; asleep at a time {slept}",
        "all",
        f"a request: median {statistics.median(seconds):.3f} s, most {max(seconds):.3f} s",
        {"right": right, "asleep": slept, "seconds": seconds},
    )


def rush(place: Place, table: Table) -> None:
    """Programs that start at the same moment, with room for fewer contexts, and all compute."""
    place.hog(left_for(place.unit, RUSH_CONTEXTS))
    scheduler = place.scheduler(2)
    begun = time.monotonic()
    jobs = [place.start(f"job{number}", "job.py", scheduler.clients, kind(place), 0) for number in range(RUSH)]
    place.there(*jobs)
    there = time.monotonic() - begun
    for job in jobs:
        job.ask("hold", size=place.unit // 4)
        request(job)
    right = len({job.ask("digest")["digest"] for job in jobs})
    table.row(
        "rush",
        f"{RUSH} programs that start at once, of which about {RUSH_CONTEXTS} contexts fit",
        f"{RUSH} there in {there:.1f} s",
        "all",
        f"slept {sum(_sleeps(scheduler, job) for job in jobs)} times; {right} results",
        {"seconds": there},
    )


def alike(place: Place, table: Table) -> None:
    """Programs with the same data, which is in host memory once while they sleep."""
    size = 4 * place.unit
    scheduler = place.scheduler(
        2, host_memory=str((size + UNASKED_BYTES) * (ALIKE + 1) + size // 2), sleep_after=REST_SECONDS
    )
    jobs = [place.ready(f"job{i}", "job.py", scheduler.clients, kind(place), 0) for i in range(ALIKE)]
    for job in jobs:
        job.ask("hold", size=size)
        job.ask("fill")
        request(job)
    digests = [job.ask("digest")["digest"] for job in jobs]
    _wait_until_all_sleep(scheduler, jobs)
    end = time.monotonic() + 60
    while scheduler.status().shared_blocks_bytes < 0.9 * (ALIKE - 1) * size and time.monotonic() < end:
        time.sleep(0.05)
    status = scheduler.status()
    seconds = [request(job) for job in jobs]
    right = [job.ask("digest")["digest"] for job in jobs]
    table.row(
        "alike",
        f"{ALIKE} programs that sleep, with the same {size / 2**30:.4g} GiB each",
        f"{status.host_memory_used_bytes / 2**30:.4g} GiB of host memory, {status.packs_bytes / 2**30:.4g} of it once",
        "",
        f"to the end of the first kernel: median {statistics.median(seconds):.3f} s, most {max(seconds):.3f} s; "
        f"contents {'equal' if len({*right}) == 1 and len({*digests}) == 1 else 'DIFFER'}",
        {"used": status.host_memory_used_bytes, "packs": status.packs_bytes, "seconds": seconds, "digests": right},
    )


def crowd(place: Place, table: Table) -> None:
    """Programs that are never idle, with room for fewer contexts: each computes as much as one that was alone."""
    place.hog(left_for(place.unit, CROWD_CONTEXTS))
    scheduler = place.scheduler(2)
    jobs: list[Program] = []
    for number in range(CROWD):
        job = place.ready(f"job{number}", "job.py", scheduler.clients, kind(place), 0)
        job.ask("hold", size=place.unit)
        jobs.append(job)
    jobs[0].ask("fill")
    one = jobs[0].ask("run", steps=100)
    steps = int(CROWD_SECONDS * 100e9 / (one["ended"] - one["begun"]))
    jobs[0].ask("fill")
    alone = jobs[0].ask("run", steps=steps)
    digest = jobs[0].ask("digest")["digest"]
    for job in jobs:
        job.ask("fill")
    before = sum(_sleeps(scheduler, job) for job in jobs)
    for job in jobs:
        job.send("run", steps=steps)
    ran = [job.answer(400) for job in jobs]
    sleeps = sum(_sleeps(scheduler, job) for job in jobs) - before
    right = sum(job.ask("digest")["digest"] == digest for job in jobs)
    seconds = (max(each["ended"] for each in ran) - min(each["begun"] for each in ran)) / 1e9
    ratio = seconds / (CROWD * (alone["ended"] - alone["begun"]) / 1e9)
    table.row(
        "crowd",
        f"{CROWD} programs that are never idle, of which about {CROWD_CONTEXTS} contexts fit",
        f"{right} of {CROWD} right, {ratio:.2f} of the time one after another",
        "all",
        f"{seconds:.1f} s; slept {sleeps} times",
        {"right": right, "ratio": ratio, "seconds": seconds, "sleeps": sleeps},
    )


def floor(place: Place, table: Table) -> None:
    """A program of normal priority that comes, and then asks again and again, beside a crowd of a high one."""
    place.hog(left_for(place.unit, CROWD_CONTEXTS))
    scheduler = place.scheduler(2)
    high = {**scheduler.clients, "NVSHARE_PRIORITY": "high"}
    crowd = [place.ready(f"high{number}", "job.py", high, kind(place), 0) for number in range(CROWD)]
    for job in crowd:
        job.ask("hold", size=place.unit)
    for job in crowd:
        job.send("run", steps=ENDLESS_STEPS)
    before = sum(_sleeps(scheduler, job) for job in crowd)
    begun = time.monotonic()
    normal = place.start("normal", "job.py", scheduler.clients, kind(place), 0)
    normal.answer(FLOOR_WAIT_SECONDS)
    normal.send("hold", size=place.unit)
    normal.answer(FLOOR_WAIT_SECONDS)
    seconds = [time.monotonic() - begun]
    for _ in range(FLOOR_REQUESTS):
        time.sleep(FLOOR_PAUSE_SECONDS)
        normal.send("run", steps=1)
        ran = normal.answer(FLOOR_WAIT_SECONDS)
        seconds.append((ran["ended"] - ran["begun"]) / 1e9)
    sleeps = sum(_sleeps(scheduler, job) for job in crowd) - before
    table.row(
        "floor",
        f"a normal program beside {CROWD} high ones that are never idle, of which about {CROWD_CONTEXTS} contexts fit",
        f"there in {seconds[0]:.1f} s, a request in {statistics.median(seconds[1:]):.1f} s",
        "",
        f"most {max(seconds[1:]):.1f} s of {FLOOR_REQUESTS}; the high ones slept {sleeps} times",
        {"seconds": seconds, "sleeps": sleeps},
    )


def meeting(place: Place, table: Table) -> None:
    """Ranks on one device whose kernels wait for each other, and that have room together only while idle ones sleep."""
    scheduler = place.scheduler(2)
    idle = [place.ready(f"idle{number}", "job.py", scheduler.clients, "driver", 0) for number in range(MEETING_IDLE)]
    for job in idle:
        job.ask("hold", size=MEETING_IDLE_BYTES)
        request(job)
    # A driver pins no pages of a disk.
    page = Path(place.stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))) / "page"
    page.write_bytes(bytes(4096))
    ranked = {**scheduler.clients, "NVSHARE_GANG": f"meeting:{MEETING_RANKS}"}
    ranks = [place.start(f"rank{n}", "meeting.py", ranked, page, n, MEETING_RANKS) for n in range(MEETING_RANKS)]
    place.there(*ranks)
    place.hog(RESERVE_BYTES + MEETING_BYTES * 3 // 2)
    while (device := scheduler.status().devices[0]).foreign_bytes < device.total_bytes / 2:
        time.sleep(0.05)
    before = sum(_sleeps(scheduler, job) for job in idle)
    for rank in ranks:
        rank.ask("hold", size=MEETING_BYTES)
    for rank in ranks:
        rank.send("run", steps=MEETINGS)
    ran = [rank.answer() for rank in ranks]
    seconds = (max(each["ended"] for each in ran) - min(each["begun"] for each in ran)) / 1e9
    results = {rank.ask("digest")["digest"] for rank in ranks}
    sleeps = sum(_sleeps(scheduler, job) for job in idle) - before
    table.row(
        "meeting",
        f"{MEETING_RANKS} ranks with {MEETING_BYTES / 2**30:.4g} GiB each, with room for all only while others sleep",
        f"{MEETINGS} kernels of each met in {seconds:.2f} s",
        "all",
        f"idle ones slept {sleeps} times; results {'equal' if len(results) == 1 else 'DIFFER'}",
        {"seconds": seconds, "sleeps": sleeps, "results": sorted(results)},
    )


def contents(place: Place, table: Table) -> None:
    """Trainings, two at a time, that sleep between a few steps, against the same without nvshare: bytes that differ."""
    folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory()))
    steps = saved_references(place, table, folder)
    names = list(steps)
    for pair in (names[begin : begin + 2] for begin in range(0, len(names), 2)):
        scheduler = place.scheduler(0.2, "exclusive", sleep_after=REST_SECONDS)
        trainings = {name: place.start(name, "train.py", {**scheduler.clients, **SAME_RESULTS}, name) for name in pair}
        place.there(*trainings.values())
        for training in trainings.values():
            training.ask("prepare")
        _train_and_sleep(scheduler, trainings, steps, -(-SLEEPS // len(names)))
        for name, training in trainings.items():
            compared = training.ask("wrong_bytes", path=str(folder / name))
            sleeps = _sleeps(scheduler, training)
            table.row(
                "contents",
                f"{name}: {steps[name]} steps",
                f"{compared['wrong']} wrong bytes of {compared['bytes'] / 2**20:.0f} MiB",
                "0",
                f"slept {sleeps} times",
                {**compared, "sleeps": sleeps},
            )
            training.end()


def _train_and_sleep(scheduler: Scheduler, trainings: dict[str, Program], steps: dict[str, int], sleeps: int) -> None:
    left = {name: steps[name] for name in trainings}
    for number in range(sleeps):
        for name, training in trainings.items():
            now = left[name] // (sleeps - number)
            left[name] -= now
            training.send("run", steps=now)
        for training in trainings.values():
            training.answer(300)
        for training in trainings.values():
            scheduler.until(training.process.pid, "asleep")


def _sleeps(scheduler: Scheduler, program: Program) -> int:
    clients = (client for device in scheduler.status().devices for client in device.clients)
    return sum(client.sleeps for client in clients if client.pid == program.process.pid)


def _wait_until_all_sleep(scheduler: Scheduler, jobs: list[Program]) -> int:
    """How many sleep, when all do, or a minute later."""
    end = time.monotonic() + 60
    while (asleep := list(scheduler.states().values()).count("asleep")) < len(jobs) and time.monotonic() < end:
        time.sleep(0.05)
    return asleep
