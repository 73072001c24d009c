"""What a shell is offered for values: words, and GPUs and containers as the scheduler knows them, if one answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from nvshare.ctl.options.run_dirs import run_dirs

_SECONDS = 1.0
"""A person waits for it."""


def devices(ctx: typer.Context, incomplete: str) -> list[str]:
    """Indices, and the UUIDs of those that have none, or where one is begun."""
    found = []
    for device in _status(ctx).devices:
        found += [name for name in (device.index, device.uuid) if name]
    return _that_begin(found, incomplete)


def containers(ctx: typer.Context, incomplete: str) -> list[str]:
    """As ``set`` takes them: without whose they are, where that is clear."""
    full = {client.member_of for device in _status(ctx).devices for client in device.clients if client.member_of}
    # What stands behind the last @ is a user; shells take the sign for the beginning of a word.
    short = {name: name.rpartition("@")[0] or name for name in full}
    count = Counter(short.values())
    return _that_begin([short[name] if count[short[name]] == 1 else name for name in full], incomplete)


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """These words."""
    return lambda incomplete: _that_begin(words, incomplete)


def _that_begin(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _status(ctx: typer.Context) -> Any:
    """Of the scheduler that the command would ask; an empty one where none answers."""
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import admin
    from nvshare.ctl.errors import CommandError

    option = ctx.params.get("run_dir")
    candidates = run_dirs(ctx, Path(option) if option else None)
    with suppress(CommandError, OSError), admin(candidates, only_to_read=True) as scheduler:
        return scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=_SECONDS)
    return admin_pb2.Status()
