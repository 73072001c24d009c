"""Waiting for something to become true, with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_INTERVAL = 0.005


def poll_until(
    condition: Callable[[], Result], what: str, timeout: float = 10.0, interval: float = _INTERVAL
) -> Result:
    """Calls ``condition`` until its result is true, and returns that; fails naming ``what`` after ``timeout``."""
    check_time = _deadline(what, timeout)
    while not (result := condition()):
        check_time()
        time.sleep(interval)
    return result


async def until(condition: Callable[[], object], what: str, timeout: float = 10.0) -> None:
    """The same in a coroutine: the event loop runs between the calls."""
    check_time = _deadline(what, timeout)
    while not condition():
        check_time()
        await asyncio.sleep(_INTERVAL)


def _deadline(what: str, timeout: float) -> Callable[[], None]:
    """A function that fails when the time from now on is over."""
    end = time.monotonic() + timeout

    def check() -> None:
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")

    return check
