"""What an experiment needs that is a script of its own: a scheduler, and a place for its table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nvshare import paths, scheduler_process, shim


@contextmanager
def scheduler() -> Iterator[dict[str, str]]:
    """A scheduler of its own; gives the environment of its clients."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = paths.RunDir(Path(folder))
        with run_dir.log_file.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                scheduler_process.command(run_dir, "--quantum", "2", "--host-memory", "24GiB"), stderr=log, stdout=log
            )
        try:
            scheduler_process.wait_until_accepting(run_dir, lambda: process.poll() is None, run_dir.log_file)
            yield {**os.environ, **shim.preload_environment(run_dir, os.environ)}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            print(run_dir.log_file.read_text(encoding="utf-8"), file=sys.stderr)


def show(name: str, lines: Sequence[str]) -> None:
    """Prints a table, and writes it to ``NAME.md`` in the folder that OUT names, if it does."""
    text = "\n".join(lines) + "\n"
    print(text)
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / f"{name}.md").write_text(text, encoding="utf-8")
