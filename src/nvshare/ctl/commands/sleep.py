"""``nvshare-ctl sleep`` and ``nvshare-ctl wake``: processes leave their GPUs altogether, and come back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from nvshare.ctl.errors import CommandError
from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs

SLEEP_HELP = """
Have programs leave their GPUs altogether, context and all, until their next call of CUDA.

It waits until they are asleep, or says why they are not. Their data goes to host memory; a program that computes is \
not interrupted: it has to be idle. One that was not for five seconds is busy, and that is said; it falls asleep \
once it is idle for a second, unless it is told to wake. It is for once: when a program sleeps by itself is said by \
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
    wanted = "asleep" if asleep else "awake"
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.asking.sleepers import not_asleep, not_awake

    names = list(dict.fromkeys(names))
    failures: dict[str, list[str]] = {}
    with admin(run_dirs(context, run_dir)) as scheduler:
        ask = scheduler.Sleep if asleep else scheduler.Wake
        requests = [admin_pb2.SleepRequest(name=name.encode(errors="backslashreplace").decode()) for name in names]
        answers = [ask(request, timeout=RPC_TIMEOUT) for request in requests]
        since = time.monotonic()
        for name, answer in zip(names, answers, strict=True):
            if why := not_asleep(scheduler, name, answer, since) if asleep else not_awake(scheduler, name, answer):
                failures.setdefault(why, []).append(name)
            else:
                print(f"{name} is {wanted}")
    if failures:
        raise CommandError("; ".join(f"{_all(same)} not {wanted}: {why}" for why, same in failures.items()))


def _all(names: list[str]) -> str:
    """Of which the same is true, as where they stand for the same process."""
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"
