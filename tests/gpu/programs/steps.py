"""How each program of the table is started: KIND [--memory BYTES] [--steps N | --seconds S | --orders].

By itself it does so many steps, or steps for so long, and prints one line of JSON: the digest of its results, its
steps, their seconds and its rate. With ``--orders`` it is told what to do, as orders.py says: ``prepare``, ``run``,
``digest``. Equal numbers of steps after the beginning end with equal digests, however they were divided.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orders import Answer, serve

Work = tuple[Callable[[], object], Callable[[], object], Callable[[], Iterator[Any]]]
"""Submits a step; waits for all; the parts of its results, one after the other, as bytes in host memory."""
Make = Callable[[str, int], Work]
"""From a kind, and about how much device memory its data shall take, in bytes."""
WARM_UP_STEPS = 2
TOGETHER = 16
"""Steps that are submitted at most ahead of the device, as programs that look at a loss now and then do."""


class Steps:
    """The orders, and what the program does by itself."""

    def __init__(self, make: Callable[[], Work]) -> None:
        self._make = make

    def prepare(self) -> Answer:
        """Makes the state, and does what is done once; how long that took."""
        begin = time.perf_counter()
        self._submit, self._synchronize, self._results = self._make()
        self.run(WARM_UP_STEPS)
        return {"seconds": time.perf_counter() - begin}

    def run(self, steps: int) -> Answer:
        """How long they took."""
        begin = time.perf_counter()
        for number in range(steps):
            self._submit()
            if number % TOGETHER == TOGETHER - 1:
                self._synchronize()
        self._synchronize()
        return {"seconds": time.perf_counter() - begin}

    def digest(self) -> Answer:
        """Of all results, to the last bit."""
        found = hashlib.sha256()
        for part in self._results():
            found.update(part)
        return {"digest": found.hexdigest()[:16]}

    def by_itself(self, steps: int, seconds: float) -> Answer:
        """All of it: so many steps, or for so long where that is more than 0."""
        self.prepare()
        done, took = 0, 0.0
        while done == 0 or (took < seconds if seconds else done < steps):
            count = TOGETHER if seconds else steps
            took += float(self.run(count)["seconds"])
            done += count
        return {**self.digest(), "steps": done, "seconds": took, "rate": done / took}


def main(makes: Mapping[str, Make], modules: Mapping[str, Sequence[str]]) -> None:
    """``makes`` has a function for each kind; its ``modules`` are loaded before the program says that it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=makes)
    parser.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="of data on the device, about")
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--steps", type=int, default=100)
    how_long.add_argument("--seconds", type=float, default=0.0)
    how_long.add_argument("--orders", action="store_true", help="take orders on the standard input")
    options = parser.parse_args()
    for module in modules.get(options.kind, ()):
        importlib.import_module(module)
    steps = Steps(lambda: makes[options.kind](options.kind, options.memory))
    if options.orders:
        serve({order.__name__: order for order in (steps.prepare, steps.run, steps.digest)})
    else:
        answer = steps.by_itself(options.steps, options.seconds)
        print(json.dumps(answer), file=sys.stdout, flush=True)
