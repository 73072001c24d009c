"""How a scheduler of a few programs finds out that nobody needs it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import pytest

from nvshare.scheduler import idle_exit
from nvshare.scheduler.idle_exit import IdleExit


@pytest.mark.parametrize(("module", "function", "number"), [(os, "open", errno.ENOSPC), (fcntl, "flock", errno.ENOLCK)])
async def test_no_lock_to_be_had_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, function: str, number: int
) -> None:
    """A full disk, no descriptors, no locks: it is tried again, and ends when that is over."""
    monkeypatch.setattr(idle_exit, "_RETRY_SECONDS", 0.0)
    real = getattr(module, function)
    failures = 3

    def failing(*arguments: int) -> int:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(number, os.strerror(number))
        result: int = real(*arguments)
        return result

    monkeypatch.setattr(module, function, failing)
    ended = asyncio.Event()
    IdleExit(asyncio.get_running_loop(), 0.0, tmp_path / "programs.lock", ended.set)
    await asyncio.wait_for(ended.wait(), 10)
    assert failures == 0


async def test_run_directory_that_became_a_file(tmp_path: Path) -> None:
    """Nobody can find this scheduler any more: it ends."""
    (tmp_path / "run").touch()
    ended = asyncio.Event()
    IdleExit(asyncio.get_running_loop(), 0.0, tmp_path / "run" / "programs.lock", ended.set)
    await asyncio.wait_for(ended.wait(), 10)
