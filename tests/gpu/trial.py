"""One row: its program without nvshare, alone under it, two in turns, two that swap, and what doctor says of it.

All programs of a row are started at the beginning, so that they load their frameworks at the same time, and use the GPU
when it is their turn. Each counts its steps: what one of them has after so many steps, all must have.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.gpu.running.counts import Largest, Swaps
from bench.gpu.running.place import CONTEXT_BYTES, HEADROOM_BYTES, MIB, RESERVE_BYTES, Place, Scheduler
from bench.gpu.running.program import ProgramError
from nvshare import paths
from tests.gpu import doctor
from tests.gpu.instance import Deadline, Instance, start
from tests.gpu.machine import Machine
from tests.gpu.results import COLUMNS, FEWEST_SWAPS, Cell, Found, reason, verdict
from tests.gpu.rows import Row

ROW_SECONDS = 150.0
"""After so long a row ends, with what it has."""
QUANTUM_SECONDS = 0.2
ROUNDS = 6
"""Of bare and alone, one after the other."""
SHARE_OF_ROUNDS = 0.4
"""Of the steps that the swapping programs do."""
ROOM = 1.5
"""Programs that swap find room for so many of them: the smaller what has to move, the more often it may."""
FIXED_SHARE = 0.9
"""With more of it fixed there is nothing to swap."""
HOST_MEMORY = "50%"
DOCTOR_SECONDS = 60.0
MEASURING_SECONDS = 5.0
"""More than twice the time between two measurements of the scheduler's."""


class WithoutNvshareError(Exception):
    """A program does not work by itself."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all rows."""

    python: str
    """The interpreter of the programs."""
    memory: int
    """Of a program's data, about."""
    seconds: float
    """How long a program that swaps would take alone."""
    environment: Mapping[str, str]
    row_seconds: float = ROW_SECONDS


@dataclass(slots=True)
class Trial:
    """The programs of a row, and what is known of them so far."""

    place: Place
    row: Row
    setting: Setting
    command: list[str]
    deadline: Deadline
    done: int = 0
    """Steps of the one without nvshare."""
    block: int = 1
    """Steps of a round."""
    begun: int = 0
    """What it had done before the rounds."""
    largest: Largest = field(default_factory=Largest)
    """Of the two that take turns."""
    run_dirs: dict[str, paths.RunDir] = field(default_factory=dict)
    instances: dict[str, list[Instance]] = field(default_factory=dict)

    def launch(self) -> None:
        """Starts all; nobody uses a GPU yet."""
        for name, count in (("bare", 1), ("alone", 1), ("turns", 2), ("swapped", 2)):
            environment = dict(self.place.environment)
            if name != "bare":
                self.run_dirs[name] = self.place.run_dir()
                environment = self.place.clients(self.run_dirs[name])
            options = ["--memory", str(self.setting.memory), "--orders"]
            self.instances[name] = [
                start(
                    self.place,
                    f"{name}{number}",
                    [*self.command, *options],
                    environment,
                    self.row.ranks,
                    self.deadline,
                )
                for number in range(count)
            ]

    @property
    def rounds_end(self) -> int:
        """Steps of everybody who is not swapped."""
        return self.begun + ROUNDS * self.block

    @property
    def swapped_end(self) -> int:
        """Steps of everybody who is."""
        return self.begun + round(ROUNDS * self.block / SHARE_OF_ROUNDS)

    def calibrate(self) -> None:
        """How many steps a round has; ends where all rounds begin."""
        (bare,) = self.instances["bare"]
        prepared(bare)
        each = bare.run(2) / 2
        several = max(2, min(200, round(0.2 / each)))
        each = bare.run(several) / several
        self.block = max(1, round(self.setting.seconds * SHARE_OF_ROUNDS / ROUNDS / each))
        self.begun = self.done = 2 + several

    def rates(self) -> tuple[Cell, str]:
        """Rounds of both, one after the other; the rate against bare, and the digest of the one under nvshare."""
        (bare,), (alone,) = self.instances["bare"], self.instances["alone"]
        scheduler = self.scheduler("alone")
        prepared(alone)
        alone.run(self.begun)
        demand_clients(scheduler, self.row.ranks)
        ratios = []
        for number in range(ROUNDS):
            pair = (bare, alone) if number % 2 else (alone, bare)
            took = {}
            for instance in pair:
                took[id(instance)] = instance.run(self.block)
                self.done += self.block if instance is bare else 0
            ratios.append(took[id(bare)] / took[id(alone)])
        text = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        return Cell(text, None, {"ratios": ratios, "steps": self.block}), digests([alone])[0]

    def references(self) -> tuple[str, str]:
        """What is right after the rounds, and for those that swap."""
        (bare,) = self.instances["bare"]
        found = []
        for end in (self.rounds_end, self.swapped_end):
            if end > self.done:
                bare.run(end - self.done)
                self.done = end
            found += digests([bare])
        return found[0], found[1]

    def end(self, *names: str) -> None:
        """What the programs of these columns had is free again."""
        instances = [instance for name in names for instance in self.instances[name]]
        for instance in instances:
            instance.dismiss()
        for instance in instances:
            instance.end()

    def turns(self, reference: str) -> Cell:
        """Two at once, whose turns are short."""
        scheduler = self.scheduler("turns")
        with scheduler.watching(self.largest.see):
            self.prepare_both("turns")
            found = self.run_both("turns", self.rounds_end)
        demand_clients(scheduler, 2 * self.row.ranks)
        grants = sum(client.grants for device in scheduler.status().devices for client in device.clients)
        return verdict(found, reference, f"{grants} turns", grants > 2 * self.row.ranks)

    def swapped(self, reference: str) -> Cell:
        """Two at once on a GPU that has room for one and a half of what swaps."""
        fixed, movable = self.largest.fixed, self.largest.movable
        if fixed > FIXED_SHARE * (fixed + movable):
            return Cell(f"can't swap: {fixed / 2**20:.0f} MiB of it are fixed", None, {"fixed": fixed})
        data = 2 * fixed + int(ROOM * (movable or self.setting.memory))
        left = data + RESERVE_BYTES + max(HEADROOM_BYTES, 2 * max(CONTEXT_BYTES, self.largest.pinned))
        for ordinal in range(self.row.ranks):
            hog = self.place.start(f"hog{ordinal}", "hog.py", self.place.environment, ordinal, left // MIB * MIB)
            hog.answer(self.deadline.left(30))
        scheduler = self.scheduler("swapped")
        swaps = Swaps()
        with scheduler.watching(swaps.see):
            self.prepare_both("swapped")
            demand_clients(scheduler, 2 * self.row.ranks)
            await_measured(scheduler)
            backends = {client.backend for device in scheduler.status().devices for client in device.clients}
            found = self.run_both("swapped", self.swapped_end)
        if backends != {"swap"}:
            return verdict(found, reference, f"not swapped: memory is {', '.join(sorted(backends))}", enough=False)
        moved = scheduler.moved()
        seen = f"{swaps.all()} swaps, {moved.out_bytes / 2**30:.1f} GiB out"
        return verdict(found, reference, seen, swaps.all() >= FEWEST_SWAPS)

    def examined(self) -> Cell:
        """What doctor says of the program, alone."""
        whole = self.row.command_of_all(self.setting.python, self.command)
        options = ["--memory", str(self.setting.memory), "--steps", str(self.block)]
        return doctor.examine(
            [*whole, *options],
            self.run_dirs["alone"],
            self.place.environment,
            self.place.logs,
            self.deadline.left(DOCTOR_SECONDS),
        )

    def prepare_both(self, name: str) -> None:
        """Two have their state."""
        for instance in self.instances[name]:
            instance.answers()
            instance.send("prepare")
        for instance in self.instances[name]:
            instance.answers()

    def run_both(self, name: str, steps: int) -> list[str]:
        """So many steps of each of two, at the same time; their digests."""
        for instance in self.instances[name]:
            instance.send("run", steps=steps)
        for instance in self.instances[name]:
            instance.answers()
        return digests(self.instances[name])

    def scheduler(self, name: str) -> Scheduler:
        """Of a column."""
        return self.place.scheduler(QUANTUM_SECONDS, "exclusive", self.run_dirs[name], HOST_MEMORY)


def prepared(instance: Instance) -> None:
    """It is there, and has its state."""
    instance.answers()
    instance.send("prepare")
    instance.answers()


def digests(instances: Sequence[Instance]) -> list[str]:
    """Of all results of each, made at the same time."""
    for instance in instances:
        instance.send("digest")
    return [" ".join(str(answer["digest"]) for answer in instance.answers()) for instance in instances]


def demand_clients(scheduler: Scheduler, count: int) -> None:
    """ProgramError if fewer processes share a GPU: then equal results would mean nothing."""
    there = {client.pid for device in scheduler.status().devices for client in device.clients}
    if len(there) < count:
        raise ProgramError(f"uses no GPU, or finds the driver past the library: {len(there)} clients, not {count}")


def await_measured(scheduler: Scheduler) -> None:
    """Until the scheduler has measured what contexts take: before, it may think that there is more room.

    Where NVML does not show it the processes it never does, so this ends in any case.
    """
    end = time.monotonic() + MEASURING_SECONDS
    while time.monotonic() < end:
        clients = [client for device in scheduler.status().devices for client in device.clients]
        if all(client.pinned_measured for client in clients):
            return
        time.sleep(0.1)


def perform(row: Row, machine: Machine, setting: Setting, keep: Callable[[Path], None]) -> Found:
    """All cells of a row, whatever happens; ``keep`` is given the folder of the logs at the end."""
    begin = time.monotonic()
    absent = machine.lacks(row)
    cells: dict[str, Cell] = {}
    if not absent:
        with tempfile.TemporaryDirectory(prefix="nvs-") as folder:
            logs = Path(folder)
            with ExitStack() as stack:
                environment = {**setting.environment, **row.variables()}
                place = Place(environment, simulated=False, unit=setting.memory, logs=logs, stack=stack)
                try:
                    cells = _cells(place, row, setting)
                except WithoutNvshareError as error:
                    absent = f"fails without nvshare: {error}"
            keep(logs)
    seconds = round(time.monotonic() - begin, 1)
    return Found(row.title, machine.words, machine.versions_for(row), absent, cells, seconds)


def _cells(place: Place, row: Row, setting: Setting) -> dict[str, Cell]:
    try:
        command = row.command(setting.python, place.logs)
        trial = Trial(place, row, setting, command, Deadline(setting.row_seconds))
        trial.launch()
        trial.calibrate()
    except Exception as error:
        raise WithoutNvshareError(said(error)) from error
    cells: dict[str, Cell] = {}
    alone = ""
    try:
        cells["rate"], alone = trial.rates()
    except Exception as error:
        cells["alone"] = cells["rate"] = failure(error)
    try:
        reference, of_swapped = trial.references()
    except Exception as error:
        # Without it nothing can be compared.
        return dict.fromkeys(COLUMNS, failure(error)) | cells
    if alone:
        cells["alone"] = verdict([alone], reference)
    trial.end("bare", "alone")
    tests: dict[str, Callable[[], Cell]] = {
        "turns": lambda: trial.turns(reference),
        "swapped": lambda: trial.swapped(of_swapped),
    }
    for column, test in tests.items():
        try:
            cells[column] = test()
        except Exception as error:
            cells[column] = failure(error)
        trial.end(column)
    try:
        cells["doctor"] = trial.examined()
    except Exception as error:
        cells["doctor"] = failure(error)
    return cells


def failure(error: Exception) -> Cell:
    """A cell for what did not come to its end."""
    return Cell(f"failed: {said(error)}", good=False)


def said(error: Exception) -> str:
    """What an error says, short."""
    return reason(str(error) or type(error).__name__)
