"""Waiting for something to become true, with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def poll_until(condition: Callable[[], Result], what: str, timeout: float = 10.0, interval: float = 0.005) -> Result:
    """Calls ``condition`` until its result is true, and returns that; fails naming ``what`` after ``timeout``."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(interval)
    return result
