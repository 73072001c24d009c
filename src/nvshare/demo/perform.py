"""One demo from beginning to end: the stage, the jobs, the record, and what is told of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from nvshare import paths
from nvshare.ctl import words
from nvshare.ctl.errors import CommandError
from nvshare.ctl.feed import watching
from nvshare.ctl.preload import library, preload
from nvshare.demo import page, picture, simulation, stage, trace
from nvshare.demo.plan import Finished, Plan
from nvshare.demo.show import Show
from nvshare.demo.spans import Span
from nvshare.demo.story import DeviceSeen, JobSeen, Story, sentence, tell

_MIB = 1024**2
_JOBS_PER_DEVICE = 2
_MOST_DEVICES = 2
_BLOCKS = 4
_STEPS = 1600
_STEP_NS = 5_000_000
_QUANTUM_SECONDS = 2.0
_LOG_LINES = 8
_SUN_PATH_BYTES = 107


def perform(real: bool, output: Path, environment: Mapping[str, str]) -> None:
    """Runs the demo on real or simulated devices and writes its files to ``output``.

    CommandError: it could not run, or it saw what must not be.
    """
    console = Console(highlight=False)
    _make(output)
    with stage.ending_on_signals(), _scratch() as scratch:
        setup = _real(environment) if real else _simulated(environment, Path(scratch))
        story = _run(console, real, setup, Path(scratch))
    _tell(console, story, output)


def _simulated(environment: Mapping[str, str], scratch: Path) -> stage.Setup:
    return stage.Setup(
        simulation.environment(environment, scratch / "devices", _MOST_DEVICES), "managed", "auto", _QUANTUM_SECONDS
    )


def _real(environment: Mapping[str, str]) -> stage.Setup:
    # Jobs this small would fit together, and nobody would have to wait under the policy auto.
    return stage.Setup(environment, "native", "exclusive", _QUANTUM_SECONDS)


def _run(console: Console, real: bool, setup: stage.Setup, scratch: Path) -> Story:
    devices = stage.devices(setup.environment)[:_MOST_DEVICES]
    if not devices:
        raise CommandError("the CUDA driver finds no GPU; without one, run the demo without --real")
    plans = _plans(real, len(devices))
    run_dir = paths.RunDir(scratch / "run")
    kind = "real" if real else "simulated"
    console.print(
        f"{words.count(len(plans), 'job')} of {words.size(plans[0].footprint_bytes)} on "
        f"{words.count(len(devices), f'{kind} GPU')} of {words.size(devices[0].total_bytes)}, "
        f"policy {setup.policy}, quantum {setup.quantum_seconds:g} s"
    )
    log = scratch / "jobs.log"
    variables = {**setup.environment, **preload(run_dir, library(), setup.environment)}
    jobs = stage.jobs(plans, {**variables, paths.MEMORY: setup.memory}, log)
    # Watching comes last: gRPC's threads begin with it, and what has threads should not fork.
    try:
        with stage.scheduler(run_dir, setup), jobs as (pids, sayings), watching(run_dir, 0.1) as feed:
            finished = Show(console, devices, plans, pids).follow(sayings, feed)
    except CommandError as error:
        raise CommandError(f"{error}{_end_of(log)}", error.code) from error
    spans = _stamped(devices, plans, pids, finished) if real else simulation.spans(scratch / "devices", devices)
    return tell(not real, setup.policy, setup.quantum_seconds, devices, _seen(devices, plans, pids, finished), spans)


def _end_of(log: Path) -> str:
    """What the jobs wrote on stderr last, as further lines of a message."""
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder whose path is short enough for the sockets in it, also where TMPDIR is long."""
    longest = len(os.fsencode(tempfile.gettempdir())) + len("/nvshare-demo-12345678/run/client/scheduler.sock")
    return tempfile.TemporaryDirectory(prefix="nvshare-demo-", dir="/tmp" if longest > _SUN_PATH_BYTES else None)


def _plans(real: bool, devices: int) -> list[Plan]:
    """Two jobs a device; on simulated ones two don't fit it together."""
    block_bytes = 240 * _MIB if real else 3072 * _MIB
    places = [device for device in range(devices) for _ in range(_JOBS_PER_DEVICE)]
    return [
        Plan(chr(ord("A") + number), ordinal, block_bytes, _BLOCKS, _STEPS, _STEP_NS, number + 1, real)
        for number, ordinal in enumerate(places)
    ]


def _seen(
    devices: Sequence[DeviceSeen], plans: Sequence[Plan], pids: Sequence[int], finished: Sequence[Finished]
) -> list[JobSeen]:
    return [
        JobSeen(plan.name, pid, devices[plan.ordinal].uuid, plan.footprint_bytes, end.right, end.detail)
        for plan, pid, end in zip(plans, pids, finished, strict=True)
    ]


def _stamped(
    devices: Sequence[DeviceSeen], plans: Sequence[Plan], pids: Sequence[int], finished: Sequence[Finished]
) -> list[Span]:
    return [
        Span(devices[plan.ordinal].uuid, pid, start, end, "spin")
        for plan, pid, job in zip(plans, pids, finished, strict=True)
        for start, end in job.stamps
    ]


def _make(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{output} can't be made ({error.strerror}); choose another --output") from error


def _tell(console: Console, story: Story, output: Path) -> None:
    web, perfetto = output / "turns.html", output / "turns.trace.json"
    names = {device.uuid: f"GPU {number} {device.name}" for number, device in enumerate(story.devices)}
    try:
        web.write_text(page.page(story))
        jobs = {job.pid: f"job {job.name}" for job in story.jobs}
        perfetto.write_text(trace.chrome_trace(story.turns, story.spans, names, jobs))
    except OSError as error:
        raise CommandError(f"{error.filename} can't be written ({error.strerror}); choose another --output") from error
    console.print()
    console.print(picture.timeline(story, console.width))
    console.print(picture.results(story))
    console.print()
    console.print(f"For a browser:               {web}", soft_wrap=True)
    console.print(f"For https://ui.perfetto.dev: {perfetto}", soft_wrap=True)
    console.print()
    console.print(Text(sentence(story), style="bold" if story.good else "bold red"))
    if not story.good:
        raise CommandError("what was seen is not as it must be: see the results and the overlaps above")
