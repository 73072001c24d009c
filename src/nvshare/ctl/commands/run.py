"""``nvshare-ctl run``: starts a scheduler if there is none, sets the preload, and becomes the command."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nvshare import paths, shim
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.options.run_dirs import RunDirOption, named_run_dir, run_dirs, seconds
from nvshare.ctl.options.terms import (
    ComputeLimitOption,
    GangOption,
    MemoryLimitOption,
    MemoryRequestOption,
    NameOption,
    PriorityOption,
    WeightOption,
    WhenFullOption,
    container,
    fault,
    variables,
)
from nvshare.ctl.starting.background_scheduler import ensure_scheduler
from nvshare.ctl.starting.other_schedulers import instead_of_a_new_one

HELP = """
Run a command that shares its GPUs with other such commands.

The command takes the place of this process, so its exit code, signals and terminal are its own. \
If no scheduler runs, neither the system's nor this user's own, one is started in the background; \
it ends by itself a while after the last command has ended.

[bold]Examples:[/bold]

  nvshare-ctl run -- python train.py --epochs 10
  nvshare-ctl run --quantum 5 -- ./simulate < input > output
  nvshare-ctl run --memory-limit 4G --priority low -- python notebook.py

[bold]Exit codes:[/bold] the command's own; 125 it could not be prepared, 126 it can't be executed, \
127 it was not found.
"""

_HOLD_DESCRIPTOR = 100
_SHELL = "/bin/sh"
_FIRST_BYTES = 128


def run(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", show_default=False, help="The command and its arguments.")
    ],
    quantum: Annotated[
        float | None,
        typer.Option(
            "--quantum",
            metavar="SECONDS",
            parser=seconds,
            show_default=False,
            help="Set the scheduler's quantum, for all of its clients: how long one may hold a GPU while others wait.",
        ),
    ] = None,
    weight: WeightOption = None,
    priority: PriorityOption = None,
    compute_limit: ComputeLimitOption = None,
    memory_limit: MemoryLimitOption = None,
    memory_request: MemoryRequestOption = None,
    when_full: WhenFullOption = None,
    name: NameOption = None,
    gang: GangOption = None,
    run_dir: RunDirOption = None,
) -> None:
    """Never returns: the process becomes the command."""
    environment: Mapping[str, str] = context.obj
    terms = {
        paths.WEIGHT: weight,
        paths.PRIORITY: priority,
        paths.COMPUTE_LIMIT: compute_limit,
        paths.MEMORY_LIMIT: memory_limit,
        paths.MEMORY_REQUEST: memory_request,
        paths.WHEN_FULL: when_full,
        paths.CONTAINER: container(name, environment, command[0]),
        paths.GANG: gang,
    }
    if wrong := fault({**environment, **variables(terms)}):
        raise typer.BadParameter(wrong[1], param_hint=wrong[0])
    executable, prepared = prepare(context, command, run_dir)
    if quantum is not None:
        _set_quantum(paths.run_dirs(prepared), quantum)
    execute(executable, command, {**prepared, **variables(terms)})


def prepare(context: typer.Context, command: Sequence[str], run_dir: Path | None) -> tuple[str, dict[str, str]]:
    """The command's file, and the environment that makes it a client of a scheduler that runs from now on.

    That one does not end while this process lives, or what inherits its files.
    """
    environment: Mapping[str, str] = context.obj
    executable = find(command[0], environment)
    named, looked_at = named_run_dir(context, run_dir), run_dirs(context, run_dir)
    if (elsewhere := instead_of_a_new_one(looked_at, named=named is not None)) is not None:
        named, looked_at = elsewhere, (elsewhere,)
    try:
        # Where none was named the program looks itself: it may outlive the scheduler that is found now.
        preload = shim.preload_environment(named, environment)
    except FileNotFoundError as error:
        raise CommandError(str(error), ExitCode.NOT_STARTED) from error
    hold_scheduler = ensure_scheduler(looked_at, environment)
    if hold_scheduler is not None:
        inherit(hold_scheduler)
    return executable, {**environment, **preload}


def find(name: str, environment: Mapping[str, str]) -> str:
    """The file that the command's name means, as a shell would find it."""
    search = environment.get("PATH", os.defpath)
    if found := shutil.which(name, path=search):
        return found
    if there := shutil.which(name, mode=os.F_OK, path=search):
        raise CommandError(f"cannot execute {there}: permission denied; chmod +x it?", ExitCode.NOT_EXECUTABLE)
    if Path(name).is_dir():
        raise CommandError(f"cannot execute {name}: it is a directory", ExitCode.NOT_EXECUTABLE)
    where = "no such file" if "/" in name else "no such command in PATH"
    raise CommandError(f"cannot execute {name}: {where}", ExitCode.NOT_FOUND)


def _set_quantum(run_dirs: Sequence[paths.RunDir], seconds: float) -> None:
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin

    try:
        with admin(run_dirs) as scheduler:
            scheduler.SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds), timeout=RPC_TIMEOUT)
    except CommandError as failure:
        raise CommandError(
            f"the quantum could not be set to {seconds:g} s: {failure}", ExitCode.NOT_STARTED
        ) from failure
    print(f"nvshare-ctl: quantum is now {seconds:g} s on all devices", file=sys.stderr)


def inherit(descriptor: int) -> None:
    """Lets the command inherit an open file, at a number that scripts don't choose for their own files."""
    fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HOLD_DESCRIPTOR)


def execute(executable: str, command: list[str], environment: Mapping[str, str]) -> None:
    """Never returns: the process becomes the command. CommandError: it can't be executed."""
    # Python ignores these two at its start; an ignored signal stays ignored over exec, and the command expects neither.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        _become(executable, command, environment)
    except FileNotFoundError as error:
        message = f"cannot execute {executable}: the interpreter that it names does not exist"
        raise CommandError(message, ExitCode.NOT_FOUND) from error
    except OSError as error:
        raise CommandError(f"cannot execute {executable}: {error.strerror}", ExitCode.NOT_EXECUTABLE) from error


def _become(executable: str, command: list[str], environment: Mapping[str, str]) -> None:
    """As env and execvp(3) do: a text without an interpreter is a script of /bin/sh. OSError: it can't be executed."""
    try:
        os.execve(executable, command, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC or _is_binary(executable):
            raise
        # What begins with a hyphen is no option: find answers a path, which has a slash, or a name in this folder.
        script = executable if "/" in executable else f"./{executable}"
        os.execve(_SHELL, [_SHELL, script, *command[1:]], environment)


def _is_binary(path: str) -> bool:
    """Whether the first line has a NUL, which no script has: shells look at that, too."""
    try:
        with Path(path).open("rb") as file:
            return b"\0" in file.read(_FIRST_BYTES).partition(b"\n")[0]
    except OSError:
        return False
