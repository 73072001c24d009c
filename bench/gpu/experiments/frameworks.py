"""Experiments with frameworks: equal results through many swaps, many programs at once, and what the library costs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.gpu.experiments.jobs import kind
from bench.gpu.running.counts import Swaps
from bench.gpu.running.place import Place, left_for
from bench.gpu.running.program import Program, ProgramError
from bench.gpu.running.rows import Table
from nvshare import paths

BENCH = Path(__file__).parents[1]
TRAININGS = ("eager", "compile", "graph", "conv", "jax", "cupy")
SAME_RESULTS = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true",
}
"""Without these two runs may choose other algorithms, and JAX takes three quarters of the device."""
ALONE_SECONDS = 6.0
"""Of each training."""
NEWCOMERS = 16
NO_MEMORY = re.compile(r"out of memory|OUT_OF_MEMORY")


def equal(place: Place, table: Table) -> None:
    """Trainings that push each other out in short turns, against the same without nvshare: bytes that differ."""
    if place.simulated:
        equal_jobs(place, table)
        return
    folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory()))
    steps = saved_references(place, table, folder)
    place.hog(left_for(4 * place.unit, len(steps)))
    scheduler = place.scheduler(0.2, "exclusive")
    clients = {**scheduler.clients, **SAME_RESULTS}
    trainings = {name: place.start(name, "train.py", clients, name) for name in steps}
    place.there(*trainings.values())
    for training in trainings.values():
        training.send("prepare")
    for training in trainings.values():
        training.answer()
    scheduler.demand_swap()
    before = scheduler.moved()
    swaps = Swaps()
    with scheduler.watching(swaps.see):
        for name, training in trainings.items():
            training.send("run", steps=steps[name])
        for training in trainings.values():
            training.answer(300)
    moved = scheduler.moved().since(before)
    for name, training in trainings.items():
        compared = training.ask("wrong_bytes", path=str(folder / name))
        own = swaps.counts.get(training.process.pid, 0)
        table.row(
            "equal",
            f"{name}: {steps[name]} steps",
            f"{compared['wrong']} wrong bytes of {compared['bytes'] / 2**20:.0f} MiB",
            "0, 100 swaps in all",
            f"{own} swaps of it, {swaps.all()} in all, {moved.in_bytes / 2**30:.0f} GiB in",
            {**compared, "swaps": own, "all_swaps": swaps.all()},
        )


def saved_references(place: Place, table: Table, folder: Path) -> dict[str, int]:
    """Runs the trainings without nvshare and saves their end states there, by name; how many steps each did."""
    environment = {**place.environment, **SAME_RESULTS}
    references = {name: place.start(f"{name}-alone", "train.py", environment, name) for name in TRAININGS}
    steps = reference_steps(references, table)
    for name in steps:
        references[name].send("save", path=str(folder / name))
    for name in steps:
        references[name].answer()
        references[name].end()
    return steps


def reference_steps(references: dict[str, Program], table: Table) -> dict[str, int]:
    """Runs the references; how many steps each of them did. One that can't run here gets a row that says so."""
    runs: dict[str, dict[str, int]] = {}
    for reference in references.values():
        reference.send("prepare")
    for name, reference in references.items():
        try:
            reference.answer()
            reference.answer()
            runs[name] = reference.ask("calibrate", seconds=ALONE_SECONDS)
        except ProgramError as error:
            table.row("equal", name, "not run", "", str(error)[-300:].replace("\n", " "), {})
    for name, run in runs.items():
        references[name].send("run", steps=run["steps"])
    for name in runs:
        references[name].answer()
    return {name: run["done"] + run["steps"] for name, run in runs.items()}


def equal_jobs(place: Place, table: Table) -> None:
    """The same with three jobs of the driver's calls alone."""
    size = 3 * place.unit
    reference = place.ready("alone", "job.py", place.environment, "driver", 0)
    reference.ask("hold", size=size)
    reference.ask("fill")
    reference.ask("run", steps=4000)
    digest = reference.ask("digest")["digest"]
    reference.end()
    place.hog(left_for(4 * place.unit, 3))
    scheduler = place.scheduler(0.2, "exclusive")
    jobs = [place.start(f"job{number}", "job.py", scheduler.clients, "driver", 0) for number in range(3)]
    place.there(*jobs)
    for job in jobs:
        job.ask("hold", size=size)
        job.ask("fill")
    swaps = Swaps()
    with scheduler.watching(swaps.see):
        for job in jobs:
            job.send("run", steps=4000)
        for job in jobs:
            job.answer(300)
    right = [job.ask("digest")["digest"] == digest for job in jobs]
    table.row(
        "equal",
        "jobs of the driver's calls",
        f"{sum(right)} of {len(right)} right",
        "0, 100 swaps in all",
        f"{swaps.all()} swaps",
        {"right": right, "swaps": swaps.all()},
    )


def start(place: Place, table: Table) -> None:
    """Programs that start at the same moment on a device that idle programs' memory and the hog fill."""
    count, fillers, each = (4, 4, 36 * place.unit) if place.simulated else (NEWCOMERS, 3, 8 * place.unit)
    place.hog(left_for(fillers * each + place.unit // 4, fillers))
    scheduler = place.scheduler(2)
    idle = [place.start(f"filler{number}", "device.py", scheduler.clients, 0) for number in range(fillers)]
    place.there(*idle)
    for filler in idle:
        filler.ask("hold", size=each)
        filler.ask("write", value=7)
    programs = [
        place.start(f"newcomer{number}", "job.py", scheduler.clients, kind(place), 0) for number in range(count)
    ]
    failed, began, retried = [], [], 0
    for program in programs:
        try:
            place.there(program)
            program.send("hold", size=place.unit // 2)
        except ProgramError as error:
            failed.append(str(error))
    for program in programs:
        if program.process.poll() is None:
            try:
                began.append(program.answer())
                retried += program.ask("refusals")["count"]
            except ProgramError as error:
                failed.append(str(error))
    refused = retried + sum(bool(NO_MEMORY.search(program.said())) for program in programs)
    wrong = sum(filler.ask("wrong_bytes", value=7)["wrong"] for filler in idle)
    moved = scheduler.moved()
    table.row(
        "start",
        f"{count} programs at once; {fillers} idle ones of {each / 2**30:.4g} GiB fill the device",
        f"{len(began)} started, {refused} saw out of memory",
        "all, none",
        f"{moved.out_bytes / 2**30:.1f} GiB out; fillers have {wrong} wrong bytes"
        + "".join(f"; {text[-200:]}" for text in failed[:1]).replace("\n", " "),
        {"started": len(began), "refused": refused, "failed": failed, "wrong": wrong},
    )


def launch(place: Place, table: Table) -> None:
    """The library toggled inside one process: toggle.py, which prints its own table."""
    workload = "spin" if place.simulated else "mlp"
    rounds = ("--rounds", "4") if place.simulated else ("--rounds", "240")
    command = [sys.executable, str(BENCH / "toggle.py"), "--workload", workload, *rounds]
    done = subprocess.run(
        command,
        env={**place.environment, paths.MEMORY: "swap"},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    if done.returncode != 0:
        raise ProgramError(f"toggle.py ended with {done.returncode}:\n{done.stderr[-3000:]}")
    for line in done.stdout.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        table.row(
            "launch",
            f"{cells[0]}, {cells[1]}",
            f"{cells[3]} +- {cells[4]}",
            ">= 0.995",
            f"{cells[2]} steps a second, {cells[5]} rounds",
            {"mode": cells[1], "ratio": float(cells[3]), "error": float(cells[4])},
        )
