"""``nvshare-ctl doctor``: of the machine, or of a command that it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import typer

from nvshare import interrupts
from nvshare.ctl.doctor.findings import problems
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.options.output import Output
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs
from nvshare.ctl.options.terms import check
from nvshare.ctl.showing.schema_version import SCHEMA_VERSION
from nvshare.ctl.starting.preparation import prepare
from nvshare.path_option import path_of
from nvshare.version import version

HELP = """
Find out what keeps GPUs from being shared: on this machine, or by a program.

Without a command it looks at the machine: the driver and its virtual memory management, \
nvshare's library, the scheduler and its sockets, who else uses the GPUs, compute modes and MPS, cgroups, \
host memory, LD_PRELOAD. It looks into the processes that use a GPU: whether they have nvshare's library, \
and where they look for a scheduler; and it names those that others wait for while they are stopped. \
Each finding is ok, a note or a problem, with what to do. \
It needs neither a GPU nor a driver nor a scheduler, and says which of them is missing.

With a command it runs that as [bold]nvshare-ctl run[/bold] does, \
with its input, output and signals untouched, and says afterwards, also when it crashed, whether it is shared safely: \
yes; no, and why; uncertain; or that it used no GPU. It says which of the driver's functions each process found, \
and by which route (linked, dlsym, cuGetProcAddress, export tables), \
whether calls are gated, counted, followed or passed on purpose, how much memory can be swapped, what can't and why, \
how often it took turns, and what ties it to others. \
Processes that use a GPU without nvshare's library are named: \
static ones, those linked with musl, those whose LD_PRELOAD was taken away. \
A process that lives for less than some hundredths of a second may not be seen; \
of functions that are passed on purpose it is known only that they were looked up.

The report of a command goes to stderr, because stdout is the command's; or to --output-file.

[bold]Examples:[/bold]

  nvshare-ctl doctor
  nvshare-ctl doctor -o json | jq '.findings[] | select(.level == "problem")'
  nvshare-ctl doctor -- python train.py
  nvshare-ctl doctor -o json --output-file report.json -- python train.py

[bold]Exit codes:[/bold] without a command 0 all is well, or there are notes only, 1 there are problems; \
with one the command's own (128 and the signal's number where a signal ended it), 125 it could not be prepared, \
126 it can't be executed, 127 it was not found. Whether it is shared is in the report: shared_safely.
"""


def doctor(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", show_default=False, help="The command to look at, and its arguments."),
    ] = None,
    output: Annotated[
        Output,
        typer.Option("-o", "--output", help="Text for people; JSON or YAML for scripts, with units in the names."),
    ] = Output.TABLE,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output-file",
            metavar="FILE",
            parser=path_of,
            show_default=False,
            help="Write the report there. Default: stdout, with a command stderr.",
        ),
    ] = None,
    run_dir: RunDirOption = None,
) -> None:
    """Looks at the machine, or runs the command and ends with its exit code."""
    if command:
        check(context.obj, {})
    stream, unopened = (sys.stderr, ExitCode.NOT_STARTED) if command else (sys.stdout, ExitCode.FAILED)
    with _Report(output.value, output_file, stream, unopened) as report:
        code = _of_program(context, command, run_dir, report) if command else _of_machine(context, run_dir, report)
    if code:
        raise typer.Exit(code)


@dataclass
class _Report:
    """Where the report goes. The file is opened before anything else, so that no run is in vain."""

    output: str
    path: Path | None
    stream: IO[str]
    unopened: ExitCode
    """Where the file can't be opened."""

    def __enter__(self) -> _Report:
        if self.path is not None:
            try:
                self.stream = self.path.open("w", encoding="utf-8")
            except OSError as error:
                raise self._unwritable(error, self.unopened) from error
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.path is not None:
            # What could not be written was said.
            with suppress(OSError):
                self.stream.close()

    def write(self, document: Mapping[str, object], rendered: object) -> None:
        """Says it in the form that was asked for."""
        try:
            self._print({"schema_version": SCHEMA_VERSION, "version": version(), **document}, rendered)
            self.stream.flush()
        except OSError as error:
            if self.path is None:
                raise
            raise self._unwritable(error, ExitCode.FAILED) from error

    def _print(self, document: Mapping[str, object], rendered: object) -> None:
        match self.output:
            case "json":
                print(json.dumps(document, indent=2), file=self.stream)
            case "yaml":
                import yaml

                print(yaml.safe_dump(document, sort_keys=False), end="", file=self.stream)
            case _:
                from rich.console import Console

                Console(file=self.stream).print(rendered)

    def _unwritable(self, error: OSError, code: ExitCode) -> CommandError:
        return CommandError(f"the report can't be written to {self.path}: {error.strerror}", code)


def _of_machine(context: typer.Context, run_dir: Path | None, report: _Report) -> int:
    from nvshare.ctl.doctor import document, machine_checks, machine_look, screen

    machine = machine_look.look(run_dirs(context, run_dir), context.obj)
    findings = machine_checks.check(machine)
    report.write(document.of_machine(findings), screen.of_machine(findings))
    return ExitCode.FAILED if problems(findings) else 0


def _of_program(context: typer.Context, command: Sequence[str], run_dir: Path | None, report: _Report) -> int:
    from nvshare.ctl.doctor import document, entry_classes, screen, verdict, watch
    from nvshare.cuda import entrypoints

    executable, environment = prepare(context, command, run_dir)
    with interrupts.Raised():
        done = watch.run(executable, list(command), environment)
    entries = entry_classes.by_name(entrypoints.parse(entrypoints.LIST.read_text(encoding="utf-8")))
    said = [(one, tuple(entry_classes.use_of(name, entries) for name in one.names)) for one in done.reports]
    members = verdict.members(done.seen, said)
    judged = verdict.judge(members)
    ending = f"ended by signal {done.signal}" if done.signal else f"exit code {done.status}"
    report.write(
        document.of_program(command, done.status, done.signal, done.left, members, judged),
        screen.of_program(ending, done.left, members, judged),
    )
    return done.status
