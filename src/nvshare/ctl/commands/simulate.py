"""``nvshare-ctl simulate``: executes a command in this process's place, on simulated GPUs."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from nvshare import paths, simgpu
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.starting.execution import execute, find, inherit
from nvshare.path_option import path_of

HELP = """
Run a command on simulated GPUs: a CUDA driver and an NVML in software.

The command takes the place of this process, so its exit code, signals and terminal are its own. \
It finds the simulated libcuda.so.1 and libnvidia-ml.so.1 by LD_LIBRARY_PATH. \
Of kernels they execute only those of nvshare's own kernels.ptx. \
Without --dir the GPUs are new ones, which nobody else sees, \
and nothing is left of them when the command and all that it started have ended.

[bold]Examples:[/bold]

  nvshare-ctl simulate -- ./program
  nvshare-ctl simulate --gpus 4x80GiB --dir /tmp/gpus -- ./program
  nvshare-ctl simulate -- nvshare-ctl run -- ./program

The last program takes part in nvshare's sharing. \
Give run a --run-dir of its own where programs also use real GPUs.

[bold]Exit codes:[/bold] the command's own; 2 wrong command line, 125 the GPUs could not be prepared, \
126 the command can't be executed, 127 it was not found.
"""

_PREPARE = "import ctypes, sys; sys.exit(ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2() != 0)"


def simulate(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", show_default=False, help="The command and its arguments.")
    ],
    gpus: Annotated[
        str | None,
        typer.Option(
            "--gpus",
            metavar="GPUS",
            show_default=False,
            help="How many GPUs, and their memory: 2x16GiB, or 80GiB,2x16GiB for three. "
            "The long form is COUNTxNAME:SIZE/CONTEXT_SIZE, where each context takes CONTEXT_SIZE of the memory. "
            "Default: what --dir has, else $NVSHARE_SIMGPU_DEVICES, else 2x16GiB.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            parser=path_of,
            show_default=False,
            help="The folder of the GPUs' state and of the record of what they executed. It is made if need be, "
            "and stays. All commands that name it share its GPUs.",
        ),
    ] = None,
) -> None:
    """Never returns: the process becomes the command."""
    environment: Mapping[str, str] = context.obj
    executable = find(command[0], environment)
    state_dir = _temporary_folder() if folder is None else folder.absolute()
    try:
        simulated = {**environment, **simgpu.environment(state_dir, gpus, environment)}
    except FileNotFoundError as error:
        raise CommandError(str(error), ExitCode.NOT_STARTED) from error
    _prepare(state_dir, gpus, simulated)
    execute(executable, command, simulated)


def _prepare(state_dir: Path, gpus: str | None, environment: Mapping[str, str]) -> None:
    """Makes the GPUs, or finds that they are there; in a process of its own, because the libraries do it themselves."""
    if gpus == "":
        raise typer.BadParameter("'' names no GPU; say for example 2x16GiB", param_hint="--gpus")
    command = [sys.executable, "-I", "-S", "-c", _PREPARE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        variable = f"{paths.SIMGPU_DEVICES}="
        reason = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1].removeprefix("simulated GPU: ")
        if not reason.startswith(variable):
            reason = f"no GPUs can be simulated in {state_dir}: {reason}; choose another folder with --dir"
        elif gpus is not None:
            raise typer.BadParameter(reason.removeprefix(variable), param_hint="--gpus")
        raise CommandError(reason, ExitCode.NOT_STARTED)
    there = simgpu.devices_text(state_dir)
    if gpus is not None and gpus != there:
        raise CommandError(
            f"{state_dir} already has the GPUs {there}, not {gpus}; leave out --gpus, or choose another --dir",
            ExitCode.NOT_STARTED,
        )


def _temporary_folder() -> Path:
    """Where the GPUs' state can be; it is removed when this process and all that inherited its descriptor have ended.

    The folder that is returned does not exist yet. A process that comes too late can't make it again, because the one
    around it is gone.
    """
    try:
        outer = Path(tempfile.mkdtemp(prefix="nvshare-simulate-"))
    except OSError as error:
        message = f"a temporary folder can't be made: {error}; choose a folder with --dir"
        raise CommandError(message, ExitCode.NOT_STARTED) from error
    _remove_in_the_end(outer)
    lock = os.open(outer, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    inherit(lock)
    return outer / "state"


def _remove_in_the_end(folder: Path) -> None:
    """Leaves a process behind that removes the folder later.

    It is nobody's child: the command that takes this process's place must find no child that it did not make. It has
    nothing of this process open, so that whoever waits for the end of a pipe does not wait for it.
    """
    watched = os.pidfd_open(os.getpid())
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _wait_and_remove(watched, folder)
        finally:
            os._exit(0)
    os.waitpid(middle, 0)
    os.close(watched)


def _wait_and_remove(watched: int, folder: Path) -> None:
    os.chdir("/")
    os.dup2(watched, 3)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for other in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if other > 3:
            with suppress(OSError):
                os.close(other)
    select.select([3], [], [])
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX)
    shutil.rmtree(folder, ignore_errors=True)
