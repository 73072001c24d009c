"""``python -m tests.random_drivers``: the random drivers of the scheduler's core with new examples.

They go on for ``--minutes``, with new seeds each time; or ``--rounds`` of each are played with seeds that follow from
``--of``, a text: the same examples as often as one likes. Each round is a process of its own, of one driver with one
seed, and prints how it is repeated before it begins. The first one that fails ends it, with the example that was
found. Nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
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


Round = tuple[str, int]
"""A driver's name, and a seed."""


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


def new_rounds(seconds: float) -> Iterator[Round]:
    """Rounds of all drivers in turns with seeds that nobody knows, for so long."""
    end = time.monotonic() + seconds
    for name in itertools.cycle(drivers.MODULES):
        if time.monotonic() >= end:
            return
        yield name, secrets.randbits(32)


def rounds_of(text: str, count: int) -> Iterator[Round]:
    """So many rounds of each driver, in turns; the same for the same text."""
    for number, name in itertools.product(range(count), drivers.MODULES):
        digest = hashlib.sha256(f"{text} {name} {number}".encode()).digest()
        yield name, int.from_bytes(digest[:4], "big")


def play_all(rounds: Iterator[Round], processes: int) -> int:
    """Plays rounds, some at a time, until there are no more or one failed; the exit status."""
    lock, failed = threading.Lock(), threading.Event()

    def play_on() -> int:
        held = 0
        while not failed.is_set():
            with lock:
                chosen = next(rounds, None)
            if chosen is None:
                break
            try:
                play(*chosen)
            except RoundError:
                failed.set()
                raise
            held += 1
        return held

    with ThreadPoolExecutor(processes) as pool:
        players = [pool.submit(play_on) for _ in range(processes)]
    errors = [str(error) for player in players if (error := player.exception())]
    print(*errors or [f"{sum(player.result() for player in players)} rounds held"], sep="\n")
    return 1 if errors else 0


def main() -> int:
    """Exit status 0: everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_drivers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--of", metavar="TEXT", help="what the seeds follow from, instead of --minutes")
    parser.add_argument("--rounds", type=int, default=5, help="with --of: how many of each driver")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="rounds at a time")
    parser.add_argument("--driver", choices=drivers.MODULES, help="with --seed: this one, one round")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    if (options.driver is None) is not (options.seed is None):
        parser.error("--driver and --seed go together")
    if options.driver is None:
        rounds = new_rounds(60 * options.minutes) if options.of is None else rounds_of(options.of, options.rounds)
        return play_all(rounds, options.processes)
    drivers.drive(options.driver, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
