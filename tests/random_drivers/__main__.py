"""``python -m tests.random_drivers``: the random drivers of the scheduler's core with new examples, for a time.

Each round is a process of its own, of one driver with one seed, and prints how it is repeated before it begins. The
first one that fails ends it, with the example that was found. Nothing is written.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.random_drivers import drivers

LONGEST_ROUND_SECONDS = 600.0
"""A round takes a minute at most; one that takes so long does not end."""


class RoundError(Exception):
    """A round failed; the text is all that it said."""


def command(name: str, seed: int) -> list[str]:
    """What repeats a round."""
    return ["python", "-m", "tests.random_drivers", "--driver", name, "--seed", str(seed)]


def play(name: str, seed: int) -> None:
    """One round in a process of its own; RoundError: it failed."""
    said = command(name, seed)
    print(*said, flush=True)
    try:
        result = subprocess.run(
            [sys.executable, *said[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST_ROUND_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RoundError(f"does not end: {' '.join(said)}") from None
    if result.returncode != 0:
        raise RoundError(f"{result.stdout}\nfailed: {' '.join(said)}")


def play_on(names: Iterator[str], end: float, failed: threading.Event) -> int:
    """Rounds until ``end``, or until one failed anywhere; returns how many held."""
    held = 0
    while time.monotonic() < end and not failed.is_set():
        try:
            play(next(names), secrets.randbits(32))
        except RoundError:
            failed.set()
            raise
        held += 1
    return held


def play_for(seconds: float, processes: int) -> int:
    """Rounds of all drivers in turns, some at a time; the exit status."""
    names, end, failed = itertools.cycle(drivers.MODULES), time.monotonic() + seconds, threading.Event()
    with ThreadPoolExecutor(processes) as pool:
        players = [pool.submit(play_on, names, end, failed) for _ in range(processes)]
    errors = [str(error) for player in players if (error := player.exception())]
    print(*errors or [f"{sum(player.result() for player in players)} rounds held"], sep="\n")
    return 1 if errors else 0


def main() -> int:
    """Exit status 0: everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_drivers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="rounds at a time")
    parser.add_argument("--driver", choices=drivers.MODULES, help="with --seed: this one, one round")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    if (options.driver is None) is not (options.seed is None):
        parser.error("--driver and --seed go together")
    if options.driver is None:
        return play_for(60 * options.minutes, options.processes)
    drivers.drive(options.driver, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
