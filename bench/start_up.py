"""How long the commands take to start, from this tree and from another one, in alternation.

    python bench/start_up.py [--runs N] [OTHER/src]

Prints the median and the least of the wall-clock time of each, in milliseconds. Run it after ``make libs``, from an
environment that has what both trees need.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parents[1] / "src"
SCHEDULER = "nvshare.scheduler"
CTL = "nvshare.ctl"


def environment(tree: Path) -> dict[str, str]:
    """Where a program of that tree finds its modules."""
    return os.environ | {"PYTHONPATH": str(tree)}


def finished(tree: Path, *arguments: str) -> float:
    """Seconds until a command has ended; RuntimeError when it failed."""
    began = time.monotonic()
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, env=environment(tree), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} of {tree} failed:\n{done.stderr}")
    return time.monotonic() - began


@contextmanager
def scheduler(tree: Path) -> Iterator[tuple[Path, float]]:
    """A running scheduler's run directory, and the seconds until it said that it is ready."""
    with tempfile.TemporaryDirectory(prefix="nvshare-") as folder:
        began = time.monotonic()
        command = [sys.executable, "-m", SCHEDULER, "--run-dir", folder]
        with subprocess.Popen(command, env=environment(tree), stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            said = []
            for line in process.stderr:
                said.append(line)
                if " ready " in line:
                    break
            else:
                raise RuntimeError(f"the scheduler of {tree} did not start:\n{''.join(said)}")
            yield Path(folder), time.monotonic() - began
            process.send_signal(signal.SIGTERM)
            process.communicate()


def ready(tree: Path) -> float:
    """Seconds until a scheduler is ready."""
    with scheduler(tree) as (_run_dir, seconds):
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("other", nargs="?", type=Path)
    options = parser.parse_args()
    trees = [TREE] if options.other is None else [options.other.resolve(), TREE]
    with scheduler(TREE) as (run_dir, _seconds):
        measures: dict[str, Callable[[Path], float]] = {
            "nvshare-scheduler --version": lambda tree: finished(tree, SCHEDULER, "--version"),
            "nvshare-scheduler, ready": ready,
            "nvshare-ctl --help": lambda tree: finished(tree, CTL, "--help"),
            "nvshare-ctl run -- true": lambda tree: finished(tree, CTL, "run", "--run-dir", str(run_dir), "--", "true"),
            "nvshare-ctl status": lambda tree: finished(tree, CTL, "status", "--run-dir", str(run_dir)),
        }
        taken = {(name, tree): list[float]() for name in measures for tree in trees}
        for _ in range(options.runs):
            for (name, tree), seconds in taken.items():
                seconds.append(measures[name](tree))
    for (name, tree), seconds in taken.items():
        median, least = statistics.median(seconds) * 1000, min(seconds) * 1000
        print(f"{name:28} median {median:5.0f} ms, least {least:5.0f} ms  {tree}")


if __name__ == "__main__":
    main()
