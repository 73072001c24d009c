"""``nvshare-ctl demo``: what it is and what can be chosen; ``nvshare.demo`` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from nvshare.ctl.errors import CommandError
from nvshare.demo.errors import DemoError
from nvshare.paths import RunDir

HELP = """
Watch jobs take turns: four jobs of 12 GiB on two simulated GPUs of 16 GiB, two on each.

Two of them don't fit a GPU together, so they take turns on it. \
Everything but the GPUs is real: the library, the scheduler, the protocol between them. \
The record of what each GPU executed when is drawn as a timeline, \
and written as a page for a browser and as a trace for https://ui.perfetto.dev. Takes less than a minute.

[bold]Examples:[/bold]

  nvshare-ctl demo
  nvshare-ctl demo --real    on this machine's GPUs, with jobs of 1 GiB

[bold]Exit codes:[/bold] 1 a result was wrong, or two jobs were on one GPU at once, or the demo could not run.
"""

_MIN_INTERVAL_SECONDS = 0.1


def demo(
    context: typer.Context,
    real: Annotated[bool, typer.Option("--real", help="Use this machine's first GPUs, at most two.")] = False,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Where the page and the trace go.")] = Path(
        "nvshare-demo"
    ),
) -> None:
    """Ends with exit code 1 when what was seen is not as it must be."""
    # Imported only when the demo runs: the other commands need not wait for it.
    from nvshare.demo import runner

    try:
        runner.run(real, output, context.obj, _client_states)
    except DemoError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _client_states(run_dir: RunDir) -> Iterator[Callable[[], dict[int, str]]]:
    """What the demo asks for: a function that returns which clients' states have been reported since its last call."""
    # Imported only when the demo runs: gRPC takes a fifth of a second to load.
    from nvshare.ctl.status_stream import Lost, watching

    with watching([run_dir], _MIN_INTERVAL_SECONDS) as updates:

        def reported() -> dict[int, str]:
            states: dict[int, str] = {}
            while not updates.empty():
                update = updates.get_nowait()
                if isinstance(update, Lost):
                    if update.ended:
                        raise DemoError(f"the demo's scheduler is gone: {update.reason}")
                    continue
                states |= {client.pid: client.state for device in update.devices for client in device.clients}
            return states

        yield reported
