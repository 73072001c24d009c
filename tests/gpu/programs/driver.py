"""The CUDA driver's calls alone: a kernel of 1.6 ms, then one that writes the next piece of the memory.

Options: steps.py. It needs no framework, and runs on a simulated device as on a real one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from job import Plain
from steps import Work, main


def driver(_: str, memory: int) -> Work:
    """On the first device, or on that of the rank."""
    plain = Plain(int(os.environ.get("LOCAL_RANK", "0")))
    plain.hold(memory)
    plain.fill()
    numbers = iter(range(1 << 62))

    def results() -> Iterator[bytes]:
        yield plain.digest().encode()

    return lambda: plain.submit(next(numbers)), plain.synchronize, results


if __name__ == "__main__":
    main({"driver": driver}, {})
