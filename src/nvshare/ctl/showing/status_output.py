"""What ``status`` prints: the present state once, or every change of it."""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Sequence

import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from nvshare import interrupts
from nvshare.admin import admin_pb2
from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
from nvshare.ctl.asking.status_stream import Lost, Updates, aged, watching
from nvshare.ctl.showing.status_document import from_status
from nvshare.ctl.showing.status_table import render
from nvshare.paths import RunDir

_MIN_INTERVAL_SECONDS = 0.1
"""Often enough to see how memory moves."""
_TICK_SECONDS = 0.5


def once(run_dirs: Sequence[RunDir], output: str) -> None:
    """Prints the present state as ``table``, ``json`` or ``yaml``."""
    status = _ask(run_dirs)
    match output:
        case "json":
            print(json.dumps(from_status(status), indent=2))
        case "yaml":
            print(yaml.safe_dump(from_status(status), sort_keys=False), end="")
        case _:
            Console().print(render(status))


def follow(run_dirs: Sequence[RunDir], output: str) -> None:
    """Prints the present state and every change of it until it is interrupted."""
    _ask(run_dirs)  # A scheduler that was never there is an error; one that goes away later is waited for.
    console = Console()
    with interrupts.Raised(), watching(run_dirs, _MIN_INTERVAL_SECONDS) as updates:
        if output == "table" and console.is_terminal and not console.is_dumb_terminal:
            _live(updates, console)
        else:
            _lines(updates, output, console)


def _ask(run_dirs: Sequence[RunDir]) -> admin_pb2.Status:
    with admin(run_dirs, only_to_read=True) as scheduler:
        return scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT)


def _lines(updates: Updates, output: str, console: Console) -> None:
    while True:
        update = updates.get()
        if isinstance(update, Lost):
            print(f"nvshare-ctl: {update.words()}", file=sys.stderr, flush=True)
            continue
        match output:
            case "json":
                print(json.dumps(from_status(update)), flush=True)
            case "yaml":
                print("---\n" + yaml.safe_dump(from_status(update), sort_keys=False), end="", flush=True)
            case _:
                console.print(render(update))


def _live(updates: Updates, console: Console) -> None:
    latest, since, lost = admin_pb2.Status(), time.monotonic(), ""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                update = updates.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                pass
            else:
                if isinstance(update, Lost):
                    lost = update.words()
                else:
                    latest, since, lost = update, time.monotonic(), ""
            live.update(_view(latest, time.monotonic() - since, lost), refresh=True)


def _view(latest: admin_pb2.Status, age: float, lost: str) -> RenderableType:
    if lost:
        return Group(Text(lost, style="bold yellow"), Text(), render(latest))
    return render(aged(latest, age))
