"""What an experiment needs that is a script of its own: a scheduler, and a place for its table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from nvshare import paths, scheduler_process, shim

ANSWER_SECONDS = 120.0
"""How long a program that answers may take."""


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


def compare(script: str, description: str | None, what: str, rows: Callable[[], dict[str, str]]) -> None:
    """Runs what answers ``rows`` in a program of its own, natively and with nvshare, and shows where the two differ.

    ``script``: the file that calls this, which is that program when its command line says so; ``what`` a row is.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answer", action="store_true", help="be that program")
    if parser.parse_args().answer:
        print(json.dumps(rows()))
        return
    native = _answers(script, os.environ)
    with scheduler() as clients:
        shared = _answers(script, clients)
    lines = [f"| {what} | natively | with nvshare | |", "|---|---|---|---|"]
    lines += [
        f"| {row} | {answer} | {shared[row]} | {'' if answer == shared[row] else 'differs'} |"
        for row, answer in native.items()
    ]
    show(Path(script).stem, lines)


def _answers(script: str, environment: Mapping[str, str]) -> dict[str, str]:
    command = [sys.executable, script, "--answer"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"the program ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, str] = json.loads(done.stdout)
    return found
