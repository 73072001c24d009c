"""What ``status`` prints: one answer, or one after the other."""

from __future__ import annotations

import json
import queue
import sys
import time

import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from nvshare.admin import admin_pb2
from nvshare.ctl import document, table
from nvshare.ctl.connection import RPC_TIMEOUT, admin
from nvshare.ctl.feed import Feed, Lost, aged, watching
from nvshare.paths import RunDir

_MIN_INTERVAL_SECONDS = 0.2
_TICK_SECONDS = 0.5


def once(run_dir: RunDir, output: str) -> None:
    """Prints the present state as ``table``, ``json`` or ``yaml``."""
    status = _ask(run_dir)
    match output:
        case "json":
            print(json.dumps(document.of_status(status), indent=2))
        case "yaml":
            print(yaml.safe_dump(document.of_status(status), sort_keys=False), end="")
        case _:
            Console().print(table.render(status))


def follow(run_dir: RunDir, output: str) -> None:
    """Prints the present state and every change of it until it is interrupted."""
    _ask(run_dir)  # A scheduler that was never there is an error; one that goes away later is waited for.
    console = Console()
    with watching(run_dir, _MIN_INTERVAL_SECONDS) as feed:
        if output == "table" and console.is_terminal:
            _live(feed, console)
        else:
            _lines(feed, output, console)


def _ask(run_dir: RunDir) -> admin_pb2.Status:
    with admin(run_dir) as scheduler:
        return scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT)


def _lines(feed: Feed, output: str, console: Console) -> None:
    while True:
        status = feed.get()
        if isinstance(status, Lost):
            print(f"nvshare-ctl: {_lost(status)}", file=sys.stderr, flush=True)
            continue
        match output:
            case "json":
                print(json.dumps(document.of_status(status)), flush=True)
            case "yaml":
                print("---\n" + yaml.safe_dump(document.of_status(status), sort_keys=False), end="", flush=True)
            case _:
                console.print(table.render(status))


def _live(feed: Feed, console: Console) -> None:
    latest, since, lost = admin_pb2.Status(), time.monotonic(), ""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                news = feed.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                pass
            else:
                if isinstance(news, Lost):
                    lost = _lost(news)
                else:
                    latest, since, lost = news, time.monotonic(), ""
            live.update(_picture(latest, time.monotonic() - since, lost), refresh=True)


def _picture(latest: admin_pb2.Status, age: float, lost: str) -> RenderableType:
    if lost:
        return Group(Text(lost, style="bold yellow"), Text(), table.render(latest))
    return table.render(aged(latest, age))


def _lost(news: Lost) -> str:
    return f"{news.reason}; waiting for it to come back"
