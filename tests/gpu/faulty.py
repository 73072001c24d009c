"""The driver's calls as programs/driver.py makes them, and one fault, which nvshare brings out: crash, hang, wrong.

``broken`` is broken without it as well, ``idle`` never uses the GPU.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

from driver import driver
from steps import Work, main


def faulty(kind: str, memory: int) -> Work:
    """Fails at the tenth step."""
    shared = "libnvshare" in os.environ.get("LD_PRELOAD", "")
    if kind == "idle":
        return lambda: None, lambda: None, lambda: iter((b"",))
    if kind == "broken":
        sys.exit("there is no such device\nthe device is lost")
    submit, synchronize, results = driver("driver", memory)
    numbers = iter(range(1 << 62))

    def step() -> None:
        submit()
        if shared and next(numbers) == 10:
            if kind == "crash":
                os.abort()
            if kind == "hang":
                threading.Event().wait()

    def parts() -> Iterator[bytes]:
        yield from results()
        if shared and kind == "wrong":
            yield b"?"

    return step, synchronize, parts


if __name__ == "__main__":
    main(dict.fromkeys(("crash", "hang", "wrong", "broken", "idle"), faulty), {})
