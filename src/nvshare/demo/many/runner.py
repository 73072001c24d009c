"""The demo with many programs from beginning to end: its processes, what the scheduler saw of them, and the report."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from nvshare import display, paths
from nvshare.demo import processes, simulation, stage
from nvshare.demo.clients import ClientStates, Did
from nvshare.demo.errors import DemoError
from nvshare.demo.many import files, terminal
from nvshare.demo.many.crowd import Crowd, crowd, memory_use
from nvshare.demo.many.plan import Plan
from nvshare.demo.many.report import Program, Report, summary
from nvshare.demo.many.watch import Known, Watch

_MIB = 1024**2
_GPU_MIB = 16 * 1024
_CONTEXT_MIB = 600
_DATA_BYTES = 8 * _MIB
"""Also what a program says as its limit: so no host memory is made ready for it to grow into."""
_WORK_NS = 20_000_000
_REQUESTS = 2
_QUANTUM_SECONDS = 2.0
_SLEEP_AFTER_SECONDS = 1.0
_START_SECONDS = 0.25
_REST_SECONDS = 0.3
"""On the average, for each program: so many requests come each second, however many programs there are."""
_SHORTEST_REST_SECONDS = 4.0
_SEED = 1


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How a scheduler is asked, by its run directory."""

    watch_clients: Callable[[paths.RunDir], AbstractContextManager[ClientStates]]
    """Begins to follow it."""
    deeds: Callable[[paths.RunDir], Mapping[int, Sequence[Did]]]
    """Returns what its clients did since it began, by pid."""


def run(programs: int, output: Path, environment: Mapping[str, str], ask: Scheduler, gpu_mib: int = _GPU_MIB) -> None:
    """Runs so many programs on one simulated GPU and writes the files to ``output``.

    DemoError: it could not run, or it saw what must not be.
    """
    console = Console(highlight=False)
    with stage.folder(output):
        with stage.scratch() as name:
            scratch = Path(name)
            setup = _setup(environment, scratch / "devices", gpu_mib)
            log = scratch / "programs.log"
            try:
                report, broken = _run(console, setup, scratch / "run", log, _plans(programs), ask)
            except DemoError as error:
                raise DemoError(f"{error}{stage.end_of(log)}") from error
            said = stage.end_of(log)
        _show(console, report, output)
    if not report.good:
        raise DemoError("\n  ".join(["what was seen is not as it must be", *broken]) + said)


def _setup(environment: Mapping[str, str], folder: Path, gpu_mib: int) -> processes.Setup:
    try:
        simulated = simulation.environment(environment, folder, f"{gpu_mib}MiB/{_CONTEXT_MIB}MiB")
    except FileNotFoundError as error:
        raise DemoError(str(error)) from error
    return processes.Setup(simulated, "swap", "auto", _QUANTUM_SECONDS, sleep_after_seconds=_SLEEP_AFTER_SECONDS)


def _plans(programs: int) -> list[Plan]:
    moments = random.Random(_SEED)
    rest = max(programs * _REST_SECONDS, _SHORTEST_REST_SECONDS)
    return [
        Plan(seed, _DATA_BYTES, [moments.uniform(0.5 * rest, 1.5 * rest) for _ in range(_REQUESTS)], _WORK_NS)
        for seed in range(1, programs + 1)
    ]


def _run(
    console: Console, setup: processes.Setup, run_root: Path, log: Path, plans: Sequence[Plan], ask: Scheduler
) -> tuple[Report, list[str]]:
    """The report, and what became of programs that broke."""
    [device] = processes.devices(setup.environment)
    console.print(
        f"{display.count(len(plans), 'program')} with contexts of {_CONTEXT_MIB} MiB on a simulated GPU of "
        f"{display.size(device.total_bytes)}, which {device.total_bytes // (_CONTEXT_MIB * _MIB)} of them fill; who "
        f"rests for {_SLEEP_AFTER_SECONDS:g} s sleeps",
        soft_wrap=True,
    )
    run_dir = paths.RunDir(run_root)
    limit = {paths.MEMORY_LIMIT: f"{_DATA_BYTES >> 20}MiB"}
    variables = {**setup.environment, **stage.client_variables(run_dir, setup), **limit}
    with (
        processes.scheduler(run_dir, setup),
        memory_use(setup.environment) as memory,
        crowd(plans, variables, log) as running,
        ask.watch_clients(run_dir) as client_states,
    ):
        begin = time.monotonic()
        watch = Watch(console, device, running, memory)
        watch.follow(client_states, _START_SECONDS)
        end = time.monotonic()
        seen = _programs(running, watch.known, ask.deeds(run_dir))
    report = Report(
        device,
        _CONTEXT_MIB * _MIB,
        _SLEEP_AFTER_SECONDS,
        seen,
        begin,
        end,
        watch.most_asleep,
        memory.most_bytes,
    )
    return report, [
        f"program {number} broke: {each.broken}" for number, each in enumerate(watch.known, 1) if each.broken
    ]


def _programs(running: Crowd, known: Sequence[Known], deeds: Mapping[int, Sequence[Did]]) -> list[Program]:
    return [
        Program(
            process.pid, each.requests, each.answers, process.poll() is None, each.sleeps, deeds.get(process.pid, ())
        )
        for process, each in zip(running.processes, known, strict=True)
    ]


def _show(console: Console, report: Report, output: Path) -> None:
    page, trace = output / "sleep.html", output / "sleep.trace.json"
    try:
        page.write_text(files.html_page(report))
        trace.write_text(files.chrome_trace(report))
    except OSError as error:
        raise DemoError(f"{error.filename} can't be written ({error.strerror}); choose another --output") from error
    console.print()
    console.print(terminal.timeline(report, console.width))
    console.print()
    console.print(f"For a browser:               {page}", soft_wrap=True)
    console.print(f"For https://ui.perfetto.dev: {trace}", soft_wrap=True)
    console.print()
    console.print(Text(summary(report), style="bold" if report.good else "bold red"))
