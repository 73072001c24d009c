"""Real programs on a real GPU that has room for some of them, while they and their scheduler are killed and stopped.

    PYTHONPATH=src:. python -m tests.gpu.chaos [--seconds 120] [--only NAME ...] [--seed N] [--output FILE]

In each place one program after the other does its steps, with pauses, and is compared bit by bit with one without
nvshare; a killed one is followed by the next. It is right when every digest is, no program ends by itself before it is
done, and all have done when nothing happens any more. What was done is printed, and goes into FILE.

Needs an NVIDIA GPU that nobody else uses, as ``python -m tests.gpu`` does, and says what is wrong with exit status 1.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.gpu.running.place import MIB, RESERVE_BYTES, Place, Scheduler, left_for
from bench.gpu.running.program import Program, kill, running
from nvshare import scheduler_process
from nvshare.admin import admin_pb2
from nvshare.ctl.asking.admin_client import admin
from nvshare.ctl.errors import CommandError
from tests.gpu import machine
from tests.gpu.__main__ import program_environment
from tests.gpu.rows import ROWS, Row

PLACES = ("eager", "driver", "graphs", "async", "cupy", "driver")
ROUNDS = 6
"""Of a program: after each it may pause."""
ROUND_SECONDS = 0.5
"""Of one alone."""
ROOM = 3
"""There is room for what so many of them have; a framework's has more than it was told."""
ANSWER_SECONDS = 240.0
"""The most that a round, or a start, may take. Everybody is stopped now and then, and waits for others that are."""
LONGEST_STOP_SECONDS = 14.0
"""Longer than the grace time."""
QUANTUM_SECONDS = 0.3
SLEEP_AFTER_SECONDS = 1.0
OPTIONS = (
    *("--quantum", str(QUANTUM_SECONDS), "--sleep-after", str(SLEEP_AFTER_SECONDS)),
    # A share of the whole device is more than what is left of it.
    *("--reserve", f"{RESERVE_BYTES // MIB}MiB"),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """What a program without nvshare did."""

    steps: int
    """Of a round."""
    digest: str
    """After all rounds."""


@dataclass(slots=True)
class Node:
    """The scheduler, and what is known of all programs."""

    place: Place
    scheduler: Scheduler
    random: random.Random
    memory: int
    process: subprocess.Popen[bytes] | None = None
    over: bool = False
    """No program begins any more."""
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    stopped: dict[int, float] = field(default_factory=dict)
    """Until when, by pid."""
    options: tuple[str, ...] = ()
    """Of each scheduler."""

    @property
    def log(self) -> Path:
        """What all schedulers said."""
        return self.place.logs / "schedulers.log"

    def start_scheduler(self) -> None:
        """Starts one, and waits until it accepts clients."""
        log = self.log
        command = scheduler_process.command(self.scheduler.run_dir, *OPTIONS, *self.options)
        with log.open("ab") as said:
            process = subprocess.Popen(command, env=self.place.environment, stderr=said, start_new_session=True)
        self.process = process
        scheduler_process.wait_until_accepting(self.scheduler.run_dir, lambda: process.poll() is None, log)

    def fail(self, what: str) -> None:
        """Something is wrong: nothing more is done to anybody. What the scheduler thinks then is kept as well."""
        status: object
        try:
            status = self.scheduler.status()
        except CommandError as error:
            status = error
        self.wrong.append(f"{what}\n{status}")

    def end_scheduler(self, number: signal.Signals) -> None:
        """By a signal; waits for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()


@dataclass(slots=True)
class Slot:
    """A place, and who is there."""

    name: str
    row: Row
    node: Node
    reference: Reference
    random: random.Random
    program: Program | None = None
    killed: set[int] = field(default_factory=set)
    right: int = 0
    """How many programs were."""

    def live(self) -> None:
        """One program after the other, until it is over; then the present one ends as well."""
        number = 0
        while not self.node.over:
            number += 1
            name = f"{self.name}-{number}"
            command = command_of(self.row, self.node)
            environment = {**self.node.scheduler.clients, **self.row.variables()}
            with running(name, command, environment, self.node.place.logs) as program:
                self.program = program
                try:
                    self._follow(program)
                except Exception as error:
                    if program.process.pid not in self.killed:
                        self.node.fail(f"{name}: {error}")
                self.program = None
                program.end()

    def _follow(self, program: Program) -> None:
        program.answer(ANSWER_SECONDS)
        program.send("prepare")
        program.answer(ANSWER_SECONDS)
        for _ in range(ROUNDS):
            program.send("run", steps=self.reference.steps)
            program.answer(ANSWER_SECONDS)
            if self.random.random() < 0.3 and not self.node.over:
                time.sleep(self.random.uniform(0, 3 * SLEEP_AFTER_SECONDS))
        program.send("digest")
        digest = program.answer(ANSWER_SECONDS)["digest"]
        if digest == self.reference.digest:
            self.right += 1
        else:
            self.node.fail(f"{program.name}: its results are {digest}, not {self.reference.digest}")


def command_of(row: Row, node: Node) -> list[str]:
    """Starts a program that takes orders."""
    return [*row.command(sys.executable, node.place.logs), "--memory", str(node.memory), "--orders"]


def refer(row: Row, node: Node) -> Reference:
    """Runs a program without nvshare, alone."""
    environment = {**node.place.environment, **row.variables()}
    with running("bare", command_of(row, node), environment, node.place.logs) as program:
        program.answer(ANSWER_SECONDS)
        program.send("prepare")
        program.answer(ANSWER_SECONDS)
        program.send("run", steps=16)
        program.answer(ANSWER_SECONDS)
        program.send("run", steps=16)
        steps = max(1, round(ROUND_SECONDS / (program.answer(ANSWER_SECONDS)["seconds"] / 16)))
        program.end()
    with running("bare", command_of(row, node), environment, node.place.logs) as program:
        program.answer(ANSWER_SECONDS)
        program.send("prepare")
        program.send("run", steps=ROUNDS * steps)
        program.send("digest")
        digest = [program.answer(ANSWER_SECONDS) for _ in range(3)][-1]["digest"]
        program.end()
    return Reference(steps, str(digest))


# What is done to them.


def kill_program(node: Node, slots: Sequence[Slot]) -> None:
    """At once, whatever it does."""
    slot = node.random.choice(slots)
    if (program := slot.program) is not None:
        slot.killed.add(program.process.pid)
        kill(program.process)


def stop_program(node: Node, slots: Sequence[Slot]) -> None:
    """For a while."""
    program = node.random.choice(slots).program
    if program is not None and len(node.stopped) < len(slots) // 2 and program.process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(program.process.pid, signal.SIGSTOP)
        longest = node.random.choice((1.0, LONGEST_STOP_SECONDS))
        node.stopped[program.process.pid] = time.monotonic() + node.random.uniform(0.1, longest)


def kill_scheduler(node: Node, _: Sequence[Slot]) -> None:
    """The next one comes at once or after a while."""
    node.end_scheduler(signal.SIGKILL)
    time.sleep(node.random.choice((0.0, 0.0, 1.0, 3.0)))
    node.start_scheduler()


def restart_scheduler(node: Node, _: Sequence[Slot]) -> None:
    """As an operator does."""
    node.end_scheduler(signal.SIGTERM)
    node.start_scheduler()


def stop_scheduler(node: Node, _: Sequence[Slot]) -> None:
    """For a moment, or for longer than programs wait for it."""
    assert node.process is not None
    node.process.send_signal(signal.SIGSTOP)
    time.sleep(node.random.choice((0.1, 0.5, 6.0)))
    node.process.send_signal(signal.SIGCONT)


def change_settings(node: Node, _: Sequence[Slot]) -> None:
    """Another quantum and policy."""
    with admin([node.scheduler.run_dir]) as stub:
        seconds, policy = node.random.choice((0.1, QUANTUM_SECONDS, 2.0)), node.random.choice(("auto", "exclusive"))
        stub.SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds), timeout=10)
        stub.SetPolicy(admin_pb2.SetPolicyRequest(policy=policy), timeout=10)


def put_to_sleep(node: Node, slots: Sequence[Slot]) -> None:
    """As soon as it rests."""
    if (program := node.random.choice(slots).program) is not None:
        with admin([node.scheduler.run_dir]) as stub:
            stub.Sleep(admin_pb2.SleepRequest(name=f"pid:{program.process.pid}"), timeout=SLEEP_AFTER_SECONDS)


def wake_up(node: Node, slots: Sequence[Slot]) -> None:
    """Whether it sleeps or not."""
    if (program := node.random.choice(slots).program) is not None:
        with admin([node.scheduler.run_dir]) as stub:
            stub.Wake(admin_pb2.SleepRequest(name=f"pid:{program.process.pid}"), timeout=SLEEP_AFTER_SECONDS)


DEEDS: Mapping[Callable[[Node, Sequence[Slot]], None], int] = {
    kill_program: 3,
    stop_program: 5,
    kill_scheduler: 2,
    restart_scheduler: 1,
    stop_scheduler: 2,
    change_settings: 2,
    put_to_sleep: 3,
    wake_up: 1,
}
"""How often each is done beside the others."""


def rage(node: Node, slots: Sequence[Slot], seconds: float) -> None:
    """Does something about once a second for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not node.wrong:
        deed = node.random.choices(list(DEEDS), list(DEEDS.values()))[0]
        node.done[deed.__name__] += 1
        # What an operator asks for may be refused.
        with suppress(CommandError):
            deed(node, slots)
        time.sleep(node.random.expovariate(1))
        let_go_on(node, time.monotonic())


def let_go_on(node: Node, now: float) -> None:
    """Those whose time to stand still is over."""
    for pid in [pid for pid, until in node.stopped.items() if until <= now]:
        del node.stopped[pid]
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGCONT)


def calm_down(node: Node, threads: Sequence[threading.Thread]) -> None:
    """Nothing happens any more; all programs end."""
    let_go_on(node, float("inf"))
    node.over = True
    end = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        node.fail(f"programs are not done after {ANSWER_SECONDS:g} s of peace")


def run(options: argparse.Namespace, environment: Mapping[str, str], folder: Path, stack: ExitStack) -> list[str]:
    """What is to be said; lines that begin with "wrong" come last."""
    names = options.only or PLACES
    place = Place(environment, simulated=False, unit=options.memory * MIB, logs=folder, stack=stack)
    run_dir = place.run_dir()
    scheduler = Scheduler(run_dir, place.clients(run_dir))
    node = Node(place, scheduler, random.Random(options.seed), options.memory * MIB)
    files = folder / "swap"
    files.mkdir(mode=0o700)
    node.options = ("--host-memory", f"{len(names) * (options.memory * 3 // 2 + 128)}MiB", "--swap-dir", str(files))
    references = {name: refer(ROWS[name], node) for name in dict.fromkeys(names)}
    place.hog(left_for(ROOM * node.memory, len(names)))
    node.start_scheduler()
    slots = [
        Slot(f"{name}{number}", ROWS[name], node, references[name], random.Random(options.seed + number))
        for number, name in enumerate(names)
    ]
    threads = [threading.Thread(target=slot.live, daemon=True) for slot in slots]
    for thread in threads:
        thread.start()
    try:
        rage(node, slots, options.seconds)
        calm_down(node, threads)
        moved = scheduler.moved()
    finally:
        for slot in slots:
            if (program := slot.program) is not None:
                slot.killed.add(program.process.pid)
                kill(program.process)
        node.end_scheduler(signal.SIGKILL)
    lines = [f"{slot.name}: {slot.right} right, {len(slot.killed)} killed" for slot in slots]
    lines.append(", ".join(f"{count} {name}" for name, count in sorted(node.done.items())))
    lines.append(f"the last scheduler: {moved.stalls} stalls, {moved.out_bytes / 2**30:.1f} GiB out")
    said = node.log.read_text(errors="replace")
    asleep, stored = said.count("a process is asleep"), said.count("the data of a process is in a file")
    lines.append(f"{asleep} times a process fell asleep, {stored} times its data went into a file")
    return [*lines, *(f"wrong: {each}" for each in node.wrong)]


def main() -> int:
    """Exit status 0: everything was right."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long things are done to them; default 120")
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME", help="a program for each place")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="of a program's data; default 1024")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    environment = program_environment()
    names = options.only or PLACES
    here = machine.look(sys.executable, [ROWS[name] for name in names], environment)
    absent = {name: here.lacks(ROWS[name]) for name in names if here.lacks(ROWS[name])}
    if absent:
        parser.error("; ".join(f"{name}: {why}" for name, why in absent.items()))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nvs-") as folder, ExitStack() as stack:
        lines = run(options, environment, Path(folder), stack)
        wrong = any(line.startswith("wrong") for line in lines)
        if wrong:
            lines += [
                f"==== {log.name}\n{log.read_text(errors='replace')[-20_000:]}" for log in Path(folder).glob("sch*.log")
            ]
    text = "\n".join([here.words, f"seed {options.seed}, {time.monotonic() - begin:.0f} s", *lines])
    print(text, flush=True)
    if options.output:
        options.output.write_text(text + "\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
