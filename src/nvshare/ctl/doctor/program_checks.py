"""From what was found out about the programs that use a GPU to what it means for sharing it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nvshare import display
from nvshare.ctl.doctor.findings import Finding, Level
from nvshare.ctl.doctor.machine_facts import Machine, User
from nvshare.ctl.doctor.program_facts import Program

_NOTE, _PROBLEM = Level.NOTE, Level.PROBLEM
_LETTERS = 60
_ASK = "nvshare-ctl doctor -- COMMAND"
_START = "start it by nvshare-ctl run, or expect it to run beside whose turn it is"


def others(machine: Machine) -> Iterator[Finding]:
    """Processes that use a GPU and are no clients of the scheduler that was asked, each with the reason."""
    seen = {program.pid: program for program in machine.programs}
    told: set[int] = set()
    if not machine.own_pid_namespace:  # NVML's pids are of another one: here they name somebody else, or nobody.
        for gpu in machine.nvml.gpus:
            for user in gpu.users:
                if user.pid in machine.scheduler.client_pids or user.pid in machine.mps_pids:
                    continue
                told.add(user.pid)
                yield _user(f"GPU {gpu.index}: ", user, seen.get(user.pid), machine)
    for program in machine.programs:
        if program.pid not in told and program.library and program.scheduler_at == "":
            yield _without_scheduler(_name(program), program)


def _user(where: str, user: User, program: Program | None, machine: Machine) -> Finding:
    size = "?" if user.used_bytes is None else display.size(user.used_bytes)
    if program is None:
        return _finding(f"{where}pid {user.pid} ({user.name or '?'}) uses {size}, and is no client", _START)
    what = f"{where}{_name(program)} uses {size}"
    if program.library is None:
        return _finding(f"{what}; what it has in memory can't be read", "look as root: sudo nvshare-ctl doctor")
    if not program.library:
        if program.told_to:
            loaded = "its LD_PRELOAD names nvshare's library, which it has not loaded"
            return _finding(f"{what}; {loaded}", f"{_ASK} says why: it may be static, or use musl")
        return _finding(f"{what}, without nvshare's library", _START)
    if program.scheduler_at == "" and program.run_dirs:
        return _without_scheduler(what, program)
    if not program.scheduler_at:
        advice = "look as root: sudo nvshare-ctl doctor"
        return _finding(f"{what} and has nvshare's library; whether it has a scheduler can't be seen", advice)
    if program.scheduler_at != machine.scheduler.run_dir and program.scheduler_pid != machine.scheduler.pid:
        at = program.scheduler_at
        asked = f", not for the one at {machine.scheduler.run_dir}" if machine.scheduler.answers else ""
        text = f"{what} and is for the scheduler at {at}{asked}"
        return _finding(text, f"nvshare-ctl doctor --run-dir {at} looks there")
    if not machine.scheduler.version:
        return _finding(f"{what} and has nvshare's library; its scheduler could not be asked of it", "")
    text = f"{what} and has nvshare's library, and is no client of its scheduler at {program.scheduler_at}"
    return _finding(text, f"look again in some seconds; else see the scheduler's log, and {_ASK}")


def _without_scheduler(what: str, program: Program) -> Finding:
    places = " or ".join(program.run_dirs)
    command = f"nvshare-scheduler --run-dir {places}" if program.named else "nvshare-scheduler, as its user"
    text = f"{what} and has nvshare's library, and no scheduler answers at {places}, where it looks"
    return Finding(_PROBLEM, "no scheduler", text, f"start {command}: the program finds it by itself")


def stopped(machine: Machine) -> Iterator[Finding]:
    """Processes that are stopped while others wait for them."""
    for each in machine.stopped:
        by = "by a debugger (state t)" if each.traced else "(state T)"
        line = f", {each.waiting} in line" if each.waiting else ""
        what = f"pid {each.pid} ({_short(each.command) or '?'}) {each.role} and is stopped {by}{line}"
        advice = "let it go on in its debugger" if each.traced else f"kill -CONT {each.pid} lets it go on"
        yield Finding(_PROBLEM, "stopped", what, f"{advice}; or end it")


def awake(machine: Machine) -> Iterator[Finding]:
    """Processes that keep their contexts on the GPU while they are idle, by the reason."""
    for each in machine.awake:
        what = f"pid {', '.join(str(pid or '?') for pid in each.pids)} can't sleep: {each.reason}"
        yield Finding(_NOTE, "sleep", what, "it keeps its context on the GPU, 600 MiB and more, while it is idle")


def _finding(what: str, advice: str) -> Finding:
    return Finding(_NOTE, "others", what, advice)


def _name(program: Program) -> str:
    return f"pid {program.pid} ({_short(program.command) or '?'})"


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _LETTERS else f"{line[: _LETTERS - 1]}…"
