"""One demo from beginning to end: its processes, the devices' record, and the report of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from nvshare import display, paths
from nvshare.demo import processes, simulation, stage, terminal
from nvshare.demo.clients import ClientStates
from nvshare.demo.errors import DemoError
from nvshare.demo.html_page import html_page
from nvshare.demo.job import BUSY_KERNEL
from nvshare.demo.plan import Finished, Plan
from nvshare.demo.progress import ProgressDisplay
from nvshare.demo.report import DeviceInfo, JobResult, Paging, Report, make_report, summary
from nvshare.demo.trace import chrome_trace
from nvshare.simgpu.turns import Kind, Span

_MIB = 1024**2
_JOBS_PER_DEVICE = 2
_MOST_DEVICES = 2
_BLOCKS = 4
_STEPS = 1600
_STEP_NS = 5_000_000
_QUANTUM_SECONDS = 2.0
_SIMULATED_GPU = "512MiB/16MiB"
_SIMULATED_BLOCK_BYTES = 96 * _MIB
_SIMULATED_RESERVE_BYTES = 16 * _MIB
"""All a 32nd of jobs of 12 GiB on GPUs of 16 GiB: what is swapped is really moved, by a processor, to host memory."""
_REAL_BLOCK_BYTES = 240 * _MIB
_PAGING_SECONDS = 8.0

WatchClients = Callable[[paths.RunDir], AbstractContextManager[ClientStates]]
"""Begins to follow the scheduler of a run directory."""


def run(real: bool, output: Path, environment: Mapping[str, str], watch_clients: WatchClients) -> None:
    """Runs the demo on real or simulated devices and writes its files to ``output``.

    DemoError: it could not run, or it saw what must not be.
    """
    console = Console(highlight=False)
    with stage.folder(output):
        with stage.scratch() as name:
            scratch = Path(name)
            if real:
                report = _run_real(console, _real(environment), scratch, watch_clients)
            else:
                report = _run_simulated(console, environment, scratch, watch_clients)
        _show(console, report, output)
    if not report.good:
        raise DemoError("what was seen is not as it must be: see the results and the overlaps above")


def _simulated(environment: Mapping[str, str], scratch: Path, memory: str, policy: str) -> processes.Setup:
    scratch.mkdir()
    try:
        simulated = simulation.environment(environment, scratch / "devices", f"{_MOST_DEVICES}x{_SIMULATED_GPU}")
    except FileNotFoundError as error:
        raise DemoError(str(error)) from error
    return processes.Setup(simulated, memory, policy, _QUANTUM_SECONDS, _SIMULATED_RESERVE_BYTES)


def _real(environment: Mapping[str, str]) -> processes.Setup:
    # Jobs this small fit together: under the policy auto no job would wait.
    return processes.Setup(environment, "native", "exclusive", _QUANTUM_SECONDS)


def _run_real(console: Console, setup: processes.Setup, scratch: Path, watch_clients: WatchClients) -> Report:
    devices = _devices(setup)
    plans = _plans(_REAL_BLOCK_BYTES, len(devices), stamped=True)
    _announce(console, setup, devices, plans, "real")
    with _jobs(console, setup, devices, plans, scratch, watch_clients) as running:
        finished = running.display.follow(running.events, running.client_states)
    spans = _stamped(devices, plans, running.pids, finished)
    results = _results(devices, plans, running.pids, finished)
    return make_report(False, setup.policy, setup.quantum_seconds, devices, results, spans)


def _run_simulated(
    console: Console, environment: Mapping[str, str], scratch: Path, watch_clients: WatchClients
) -> Report:
    """The jobs with memory that swaps; then, for a while, the same jobs as they are without nvshare: paged at once."""
    setup = _simulated(environment, scratch / "swap", "swap", "auto")
    devices = _devices(setup)
    plans = _plans(_SIMULATED_BLOCK_BYTES, len(devices), stamped=False)
    _announce(console, setup, devices, plans, "simulated")
    with _jobs(console, setup, devices, plans, scratch / "swap", watch_clients) as running:
        finished = running.display.follow(running.events, running.client_states)
    spans = simulation.spans(scratch / "swap" / "devices", devices)
    results = _results(devices, plans, running.pids, finished)
    report = make_report(True, setup.policy, setup.quantum_seconds, devices, results, spans)
    return replace(report, paging=_paging(console, environment, scratch / "paged", watch_clients, plans, spans))


def _paging(
    console: Console,
    environment: Mapping[str, str],
    scratch: Path,
    watch_clients: WatchClients,
    plans: Sequence[Plan],
    swapped: Mapping[str, Sequence[Span]],
) -> Paging:
    setup = _simulated(environment, scratch, "managed", "off")
    devices = _devices(setup)
    console.print(f"The same without turns, paged by the driver, for {_PAGING_SECONDS:g} s")
    with _jobs(console, setup, devices, plans, scratch, watch_clients) as running:
        running.display.watch(running.events, running.client_states, _PAGING_SECONDS)
    paged = simulation.spans(scratch / "devices", devices)
    return Paging(_PAGING_SECONDS, _seconds_per_step(paged) / _seconds_per_step(swapped))


def _seconds_per_step(spans: Mapping[str, Sequence[Span]]) -> float:
    """On all devices together, from the first operation of each to its last."""
    steps = sum(span.name == BUSY_KERNEL for executed in spans.values() for span in executed)
    length_ns = sum(
        max(span.end_ns for span in executed) - min(span.start_ns for span in executed)
        for executed in spans.values()
        if executed
    )
    return length_ns / 1e9 / max(steps, 1)


def _devices(setup: processes.Setup) -> list[DeviceInfo]:
    devices = processes.devices(setup.environment)[:_MOST_DEVICES]
    if not devices:
        raise DemoError("the CUDA driver finds no GPU; without one, run the demo without --real")
    return devices


def _announce(
    console: Console, setup: processes.Setup, devices: Sequence[DeviceInfo], plans: Sequence[Plan], kind: str
) -> None:
    console.print(
        f"{display.count(len(plans), 'job')} of {display.size(plans[0].footprint_bytes)} on "
        f"{display.count(len(devices), f'{kind} GPU')} of {display.size(devices[0].total_bytes)}, "
        f"policy {setup.policy}, quantum {setup.quantum_seconds:g} s"
    )


@dataclass(frozen=True, slots=True)
class _Running:
    """Jobs that run."""

    display: ProgressDisplay
    pids: Sequence[int]
    events: processes.JobEvents
    client_states: ClientStates


@contextmanager
def _jobs(
    console: Console,
    setup: processes.Setup,
    devices: Sequence[DeviceInfo],
    plans: Sequence[Plan],
    scratch: Path,
    watch_clients: WatchClients,
) -> Iterator[_Running]:
    """A scheduler and the jobs under it; an error of theirs has what they said last."""
    run_dir = paths.RunDir(scratch / "run")
    log = scratch / "jobs.log"
    jobs = processes.jobs(plans, {**setup.environment, **stage.client_variables(run_dir, setup)}, log)
    # Watching comes last: gRPC's threads begin with it, and what has threads should not fork.
    try:
        with processes.scheduler(run_dir, setup), jobs as (pids, events), watch_clients(run_dir) as client_states:
            yield _Running(ProgressDisplay(console, devices, plans, pids), pids, events, client_states)
    except DemoError as error:
        raise DemoError(f"{error}{stage.end_of(log)}") from error


def _plans(block_bytes: int, devices: int, *, stamped: bool) -> list[Plan]:
    """Two jobs for each device."""
    places = [device for device in range(devices) for _ in range(_JOBS_PER_DEVICE)]
    return [
        Plan(chr(ord("A") + number), ordinal, block_bytes, _BLOCKS, _STEPS, _STEP_NS, number + 1, stamped)
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
