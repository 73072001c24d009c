"""Experiments with memory alone: how fast it leaves and comes back, and what is kept in the process meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gpu.running.counts import changes
from bench.gpu.running.place import Moved, Place, Scheduler, left_for
from bench.gpu.running.program import Answer, Program, ProgramError
from bench.gpu.running.rows import Table

ROUNDS = 3
IDLE_SECONDS = 1.0
ONES, TWOS = 0x01010101, 0x02020202
CHANGE = 0x04040404
CGROUPS = (
    (Path("/sys/fs/cgroup/memory"), "memory.usage_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.current"),
)
"""Where the memory cgroups of version 1 and 2 are, and what says how much memory one has."""


def seconds(first: Answer, last: Answer) -> float:
    """From the beginning of one to the end of the other."""
    return float(last["ended"] - first["begun"]) / 1e9


def two(place: Place, size: int, data: int, quantum: float) -> tuple[Scheduler, Program, Program]:
    """Two programs of ``size`` bytes each that share ``data``; only the first has allocated and written."""
    place.hog(left_for(data, 2))
    scheduler = place.scheduler(quantum)
    first = place.start("first", "device.py", scheduler.clients, 0)
    second = place.start("second", "device.py", scheduler.clients, 0)
    place.there(first, second)
    scheduler.demand_swap()
    first.ask("hold", size=size)
    first.ask("write", value=ONES)
    return scheduler, first, second


def rate(place: Place, table: Table) -> None:
    """Out: from the allocation of another, which holds the lock, to its first kernel's end. In: from launch to end.

    So everything counts, messages, mapping and the kernel too. The other one's own memory is fresh or freed, so only
    one direction moves at a time.
    """
    size = 12 * place.unit
    place.hog(left_for(size, 2))
    with_link = place.ready("link", "link.py", place.environment, 0)
    peak = with_link.ask("measure", size=4 * place.unit)
    with_link.end()
    place.stack.close()
    scheduler, first, second = two(place, size, size + place.unit // 4, 30)
    out, back, counted_out, counted_in = [], [], [], []
    value = ONES
    for _ in range(ROUNDS + 1):
        # What did not change would not be copied.
        value ^= CHANGE
        first.ask("write", value=value)
        second.ask("touch")
        before = scheduler.moved()
        begun = second.ask("hold", size=size)
        pushed = second.ask("write", value=TWOS)
        own = second.ask("write", value=TWOS)
        between = scheduler.moved()
        second.ask("release")
        back.append(size / seconds(touched := first.ask("touch"), touched))
        after = scheduler.moved()
        out.append(size / (seconds(begun, pushed) - seconds(own, own)))
        counted_out.append(_rate_out(between.since(before)))
        counted_in.append(_rate_in(after.since(between)))
    wrong = first.ask("wrong_bytes", value=value)["wrong"]
    for way, measured, counted in (("out", out[1:], counted_out[1:]), ("in", back[1:], counted_in[1:])):
        middle, told = statistics.median(measured), statistics.median(counted)
        table.row(
            "rate",
            f"{size / 2**30:.4g} GiB {way}, of the pinned peak {peak[way] / 1e9:.1f} GB/s",
            f"{middle / 1e9:.1f} GB/s: {middle / peak[way]:.3f} (counted by the scheduler {told / peak[way]:.3f})",
            ">= 0.97",
            f"{wrong} wrong bytes",
            {"peak": peak, "rates": measured, "counted": counted, "wrong": wrong},
        )


def _rate_out(moved: Moved) -> float:
    return moved.out_bytes / moved.out_seconds if moved.out_seconds else 0.0


def _rate_in(moved: Moved) -> float:
    return moved.in_bytes / moved.in_seconds if moved.in_seconds else 0.0


def unchanged(place: Place, table: Table) -> None:
    """Out, as in ``rate``: of what was only used since it came in, in turns with what was written."""
    size = (20_000_000_000 >> 30) * place.unit if place.simulated else 20_000_000_000 >> 21 << 21
    scheduler, first, second = two(place, size, size + place.unit // 4, 30)
    value, spared = ONES, 0
    taken: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * (ROUNDS + 1)):
        written = number % 2 == 0
        value ^= CHANGE * written
        if written:
            first.ask("write", value=value)
        else:
            first.ask("touch")
        before = scheduler.moved().spared_bytes
        begun = second.ask("hold", size=size)
        pushed = second.ask("write", value=TWOS)
        own = second.ask("write", value=TWOS)
        taken[written].append(seconds(begun, pushed) - seconds(own, own))
        spared += scheduler.moved().spared_bytes - before
        second.ask("release")
        first.ask("touch")
    wrong = first.ask("wrong_bytes", value=value)["wrong"]
    middle = {written: 1000 * statistics.median(times[1:]) for written, times in taken.items()}
    table.row(
        "unchanged",
        f"{size / 1e9:.4g} GB pushed out by an allocation and its first kernel, contents unchanged",
        f"{middle[False]:.1f} ms; written {middle[True]:.1f} ms",
        "<= 15 ms",
        f"{spared / 1e9:.4g} GB not copied in {ROUNDS + 1} times; {wrong} wrong bytes",
        {"unchanged": taken[False], "written": taken[True], "spared": spared, "wrong": wrong},
    )


def handover(place: Place, table: Table) -> None:
    """Two programs in turns: from the end of one's last kernel to the end of the other's first, by one clock."""
    size = 12 * place.unit
    scheduler, first, second = two(place, size, size + place.unit // 4, 2)
    second.ask("hold", size=size)
    second.ask("write", value=TWOS)
    before = scheduler.moved()
    for program in (first, second):
        program.send("repeat", seconds=15 if place.simulated else 40, kernel_ns=1_000_000)
    waits = {program.name: program.answer()["waits"] for program in (first, second)}
    moved = scheduler.moved().since(before)
    taken = list(changes(waits["first"], waits["second"]))
    if not taken:
        raise ProgramError(f"the device never changed hands: {waits}")
    wrong = sum(one.ask("wrong_bytes", value=value)["wrong"] for one, value in ((first, ONES), (second, TWOS)))
    middle = statistics.median(taken)
    table.row(
        "handover",
        f"{size / 2**30:.4g} GiB against {size / 2**30:.4g} GiB, last kernel's end to first kernel's end",
        f"{1000 * middle:.0f} ms (least {1000 * min(taken):.0f}, most {1000 * max(taken):.0f}) of {len(taken)}",
        "<= 320 ms",
        f"{moved.out_bytes / len(taken) / 2**30:.2f} GiB out, {moved.in_bytes / len(taken) / 2**30:.2f} GiB in each; "
        f"{wrong} wrong bytes",
        {"seconds": taken, "out_bytes": moved.out_bytes, "in_bytes": moved.in_bytes, "wrong": wrong},
    )


def idle(place: Place, table: Table) -> None:
    """From the request of a program that another one, idle by now, pushed out to its first kernel's end."""
    size = (20_000_000_000 >> 30) * place.unit if place.simulated else 20_000_000_000 >> 21 << 21
    scheduler, first, second = two(place, size, size + place.unit // 4, 30)
    alone, against = [], []
    for _ in range(ROUNDS):
        second.ask("hold", size=size)
        second.ask("write", value=TWOS)
        time.sleep(IDLE_SECONDS)
        against.append(seconds(touched := first.ask("touch"), touched))
        second.ask("write", value=TWOS)
        second.ask("release")
        time.sleep(IDLE_SECONDS)
        alone.append(seconds(touched := first.ask("touch"), touched))
    wrong = first.ask("wrong_bytes", value=ONES)["wrong"]
    for what, taken in (("the other has freed its own", alone), ("the other's as much has to leave", against)):
        table.row(
            "idle",
            f"{size / 1e9:.4g} GB pushed out, a request to its first kernel's end; {what}",
            f"{statistics.median(taken):.3f} s (least {min(taken):.3f}, most {max(taken):.3f})",
            "<= 0.40 s",
            f"{wrong} wrong bytes",
            {"seconds": taken, "wrong": wrong},
        )
    del scheduler


@contextmanager
def own_cgroup(program: Program) -> Iterator[Path | None]:
    """The file that says what memory a cgroup with this program alone has; None where none can be made."""
    found = [(root, name) for root, name in CGROUPS if (root / "cgroup.procs").exists()]
    if not found:
        yield None
        return
    root, name = found[0]
    folder = root / f"nvshare-bench-{program.process.pid}"
    try:
        if name == "memory.current":
            (root / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(program.process.pid))
    except OSError:
        yield None
        return
    try:
        yield folder / name
    finally:
        (root / "cgroup.procs").write_text(str(program.process.pid))
        folder.rmdir()


def cgroup(place: Place, table: Table) -> None:
    """What a program's own memory grows by while its memory is swapped."""
    size = 10 * place.unit
    place.hog(left_for(size + place.unit // 4, 2))
    scheduler = place.scheduler(30)
    first = place.start("first", "device.py", scheduler.clients, 0)
    with own_cgroup(first) as group:
        second = place.start("second", "device.py", scheduler.clients, 0)
        place.there(first, second)
        first.ask("hold", size=size)
        first.ask("write", value=ONES)
        measured = [_memory(first, group)]
        second.ask("hold", size=size)
        second.ask("write", value=TWOS)
        measured.append(_memory(first, group))
        swapped = scheduler.moved().out_bytes
        first.ask("touch")
        measured.append(_memory(first, group))
    grown = {name: measured[1][name] - measured[0][name] for name in measured[0]}
    shown = ", ".join(f"{name} {value / 2**20:+.1f} MiB" for name, value in grown.items())
    table.row(
        "cgroup",
        f"a program's own memory while {swapped / 2**30:.2f} GiB of it are swapped",
        shown,
        "+ < 50 MiB",
        f"{group.name} of a cgroup of its own" if group else "no cgroup could be made: by RSS",
        {"bytes": measured, "swapped": swapped},
    )


def _memory(program: Program, group: Path | None) -> dict[str, int]:
    counted: dict[str, int] = program.ask("own_memory")
    if group:
        counted["cgroup"] = int(group.read_text())
    return counted
