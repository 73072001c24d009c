"""One demo from beginning to end: its processes, the devices' record, and the report of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from nvshare import display, paths, shim
from nvshare.demo import processes, simulation, terminal
from nvshare.demo.clients import ClientStates
from nvshare.demo.errors import DemoError
from nvshare.demo.html_page import html_page
from nvshare.demo.plan import Finished, Plan
from nvshare.demo.progress import ProgressDisplay
from nvshare.demo.report import DeviceInfo, JobResult, Report, make_report, summary
from nvshare.demo.trace import chrome_trace
from nvshare.simgpu.turns import Kind, Span

_MIB = 1024**2
_JOBS_PER_DEVICE = 2
_MOST_DEVICES = 2
_BLOCKS = 4
_STEPS = 1600
_STEP_NS = 5_000_000
_QUANTUM_SECONDS = 2.0
_LOG_LINES = 8
_SUN_PATH_BYTES = 107

WatchClients = Callable[[paths.RunDir], AbstractContextManager[ClientStates]]
"""Begins to follow the scheduler of a run directory."""


def run(real: bool, output: Path, environment: Mapping[str, str], watch_clients: WatchClients) -> None:
    """Runs the demo on real or simulated devices and writes its files to ``output``.

    DemoError: it could not run, or it saw what must not be.
    """
    console = Console(highlight=False)
    _make(output)
    with processes.ending_on_signals(), _scratch() as scratch:
        setup = _real(environment) if real else _simulated(environment, Path(scratch))
        report = _run(console, real, setup, Path(scratch), watch_clients)
    _show(console, report, output)
    if not report.good:
        raise DemoError("what was seen is not as it must be: see the results and the overlaps above")


def _simulated(environment: Mapping[str, str], scratch: Path) -> processes.Setup:
    try:
        simulated = simulation.environment(environment, scratch / "devices", _MOST_DEVICES)
    except FileNotFoundError as error:
        raise DemoError(str(error)) from error
    return processes.Setup(simulated, "managed", "auto", _QUANTUM_SECONDS)


def _real(environment: Mapping[str, str]) -> processes.Setup:
    # Jobs this small fit together: under the policy auto no job would wait.
    return processes.Setup(environment, "native", "exclusive", _QUANTUM_SECONDS)


def _run(console: Console, real: bool, setup: processes.Setup, scratch: Path, watch_clients: WatchClients) -> Report:
    devices = processes.devices(setup.environment)[:_MOST_DEVICES]
    if not devices:
        raise DemoError("the CUDA driver finds no GPU; without one, run the demo without --real")
    plans = _plans(real, len(devices))
    run_dir = paths.RunDir(scratch / "run")
    kind = "real" if real else "simulated"
    console.print(
        f"{display.count(len(plans), 'job')} of {display.size(plans[0].footprint_bytes)} on "
        f"{display.count(len(devices), f'{kind} GPU')} of {display.size(devices[0].total_bytes)}, "
        f"policy {setup.policy}, quantum {setup.quantum_seconds:g} s"
    )
    log = scratch / "jobs.log"
    jobs = processes.jobs(plans, {**setup.environment, **_client_variables(run_dir, setup)}, log)
    # Watching comes last: gRPC's threads begin with it, and what has threads should not fork.
    try:
        with processes.scheduler(run_dir, setup), jobs as (pids, events), watch_clients(run_dir) as client_states:
            finished = ProgressDisplay(console, devices, plans, pids).follow(events, client_states)
    except DemoError as error:
        raise DemoError(f"{error}{_end_of(log)}") from error
    spans = _stamped(devices, plans, pids, finished) if real else simulation.spans(scratch / "devices", devices)
    results = _results(devices, plans, pids, finished)
    return make_report(not real, setup.policy, setup.quantum_seconds, devices, results, spans)


def _client_variables(run_dir: paths.RunDir, setup: processes.Setup) -> dict[str, str]:
    """What makes the jobs clients of the demo's scheduler."""
    try:
        return {**shim.preload_environment(run_dir, setup.environment), paths.MEMORY: setup.memory}
    except FileNotFoundError as error:
        raise DemoError(str(error)) from error


def _end_of(log: Path) -> str:
    """What the jobs wrote on stderr last, as further lines of a message."""
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder whose path is short enough for the sockets in it, also where TMPDIR is long."""
    longest = len(os.fsencode(tempfile.gettempdir())) + len("/nvshare-demo-12345678/run/client/scheduler.sock")
    return tempfile.TemporaryDirectory(prefix="nvshare-demo-", dir="/tmp" if longest > _SUN_PATH_BYTES else None)


def _plans(real: bool, devices: int) -> list[Plan]:
    """Two jobs for each device; on simulated ones two don't fit it together."""
    block_bytes = 240 * _MIB if real else 3072 * _MIB
    places = [device for device in range(devices) for _ in range(_JOBS_PER_DEVICE)]
    return [
        Plan(chr(ord("A") + number), ordinal, block_bytes, _BLOCKS, _STEPS, _STEP_NS, number + 1, real)
        for number, ordinal in enumerate(places)
    ]


def _results(
    devices: Sequence[DeviceInfo], plans: Sequence[Plan], pids: Sequence[int], finished: Sequence[Finished]
) -> list[JobResult]:
    return [
        JobResult(plan.name, pid, devices[plan.ordinal].uuid, plan.footprint_bytes, end.right, end.detail)
        for plan, pid, end in zip(plans, pids, finished, strict=True)
    ]


def _stamped(
    devices: Sequence[DeviceInfo], plans: Sequence[Plan], pids: Sequence[int], finished: Sequence[Finished]
) -> dict[str, list[Span]]:
    """The steps of all jobs by the devices' own clocks, for each device by its UUID."""
    spans: dict[str, list[Span]] = {device.uuid: [] for device in devices}
    for plan, pid, job in zip(plans, pids, finished, strict=True):
        own = [Span(pid, Kind.KERNEL, "spin", start, end, pid) for start, end in job.stamps]
        spans[devices[plan.ordinal].uuid] += own
    return spans


def _make(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"{output} can't be made ({error.strerror}); choose another --output") from error


def _show(console: Console, report: Report, output: Path) -> None:
    page, trace = output / "turns.html", output / "turns.trace.json"
    try:
        page.write_text(html_page(report))
        trace.write_text(chrome_trace(report))
    except OSError as error:
        raise DemoError(f"{error.filename} can't be written ({error.strerror}); choose another --output") from error
    console.print()
    console.print(terminal.timeline(report, console.width))
    console.print(terminal.results(report))
    console.print()
    console.print(f"For a browser:               {page}", soft_wrap=True)
    console.print(f"For https://ui.perfetto.dev: {trace}", soft_wrap=True)
    console.print()
    console.print(Text(summary(report), style="bold" if report.good else "bold red"))
