"""What a program of ours is told by the benchmark that started it, and answers: a line of JSON each.

An order is ``{"do": NAME, ...}`` with the arguments of a function, the answer what the function returned. The program
ends with its input; a function that fails ends it, with the reason on stderr. Times are of CLOCK_MONOTONIC, in
nanoseconds, so that those of two processes can be compared.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]


def timed(work: Callable[[], object]) -> Answer:
    """When it began and ended."""
    begun = time.monotonic_ns()
    work()
    return {"begun": begun, "ended": time.monotonic_ns()}


def serve(functions: Mapping[str, Callable[..., Answer | None]]) -> None:
    """Says that the program is there, then does what it is told until its input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"ready": os.getpid()}), file=answers)
    for line in sys.stdin:
        order = json.loads(line)
        answer = functions[order.pop("do")](**order)
        print(json.dumps(answer or {}), file=answers)
