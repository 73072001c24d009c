"""Where a demo takes place: its folders, and what makes its processes clients of its scheduler."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nvshare import paths, shim
from nvshare.demo.errors import DemoError
from nvshare.demo.processes import Setup

_LOG_LINES = 8
_SUN_PATH_BYTES = 107


@contextmanager
def folder(output: Path) -> Iterator[None]:
    """The folder for the files of a demo. Of one that ends before it has files nothing is left that was not there."""
    try:
        new = [place for place in (output, *output.parents) if not place.exists()]
        output.mkdir(parents=True, exist_ok=True)
        # What can't be written is said now, and not after all that is to be seen.
        tempfile.TemporaryFile(dir=output).close()
    except OSError as error:
        raise DemoError(f"no files can be made in {output} ({error.strerror}); choose another --output") from error
    try:
        yield
    finally:
        with suppress(OSError):
            for place in new:
                place.rmdir()


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder whose path is short enough for the sockets in it, also where TMPDIR is long."""
    longest = len(os.fsencode(tempfile.gettempdir())) + len("/nvshare-demo-12345678/paged/run/client/scheduler.sock")
    return tempfile.TemporaryDirectory(prefix="nvshare-demo-", dir="/tmp" if longest > _SUN_PATH_BYTES else None)


def client_variables(run_dir: paths.RunDir, setup: Setup) -> dict[str, str]:
    """What makes the jobs clients of the demo's scheduler."""
    try:
        return {**shim.preload_environment(run_dir, setup.environment), paths.MEMORY: setup.memory}
    except FileNotFoundError as error:
        raise DemoError(str(error)) from error


def end_of(log: Path) -> str:
    """What the jobs wrote on stderr last, as further lines of a message."""
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)
