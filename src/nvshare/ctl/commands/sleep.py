"""``nvshare-ctl sleep`` and ``nvshare-ctl wake``: processes leave their GPUs altogether, and come back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nvshare.ctl.errors import CommandError
from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs

SLEEP_HELP = """
Have programs leave their GPUs altogether, context and all, until their next call of CUDA.

It waits until they are asleep, or says why they are not. Their data goes to host memory; a program that computes is \
not interrupted: it has to be idle. It is for once: when a program sleeps by itself is said by \
[bold]nvshare-ctl set sleep[/bold].

[bold]Examples:[/bold]

  nvshare-ctl sleep chat
  nvshare-ctl sleep default/notebook-0/main pid:4242

[bold]Exit codes:[/bold] 1 one of them is not asleep, 3 no scheduler runs, 4 not permitted to command it.
"""

WAKE_HELP = """
Have programs that sleep come back to their GPUs, before they have something to do there.

It waits until they have their contexts again. Their data comes in with their next work.

[bold]Example:[/bold]

  nvshare-ctl wake chat

[bold]Exit codes:[/bold] 1 one of them is not awake, 3 no scheduler runs, 4 not permitted to command it.
"""

_Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        autocompletion=completion.containers,
        show_default=False,
        help="As status shows it: NAMESPACE/POD/CONTAINER, or the name that run was given; or pid:PID.",
    ),
]


def sleep(context: typer.Context, names: _Names, run_dir: RunDirOption = None) -> None:
    """Commands the scheduler, and says what became of it."""
    _do(context, names, run_dir, asleep=True)


def wake(context: typer.Context, names: _Names, run_dir: RunDirOption = None) -> None:
    """Commands the scheduler, and says what became of it."""
    _do(context, names, run_dir, asleep=False)


def _do(context: typer.Context, names: list[str], run_dir: Path | None, *, asleep: bool) -> None:
    """All are asked before one is waited for."""
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.asking.sleepers import not_asleep, not_awake

    failures = []
    with admin(run_dirs(context, run_dir)) as scheduler:
        ask, failure_of = (scheduler.Sleep, not_asleep) if asleep else (scheduler.Wake, not_awake)
        requests = [admin_pb2.SleepRequest(name=name.encode(errors="backslashreplace").decode()) for name in names]
        answers = [ask(request, timeout=RPC_TIMEOUT) for request in requests]
        for name, answer in zip(names, answers, strict=True):
            if failure := failure_of(scheduler, name, answer):
                failures.append(failure)
            else:
                print(f"{name} is {'asleep' if asleep else 'awake'}")
    if failures:
        raise CommandError("; ".join(failures))
