"""A thread for what may block (files, NVML), because the event loop must not."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


class Worker:
    """One daemon thread that does one thing after another; if it hangs, the process can still end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, work: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Calls ``work`` in the thread, then ``done`` with its result in the event loop. ``work`` raises nothing."""

        def step() -> None:
            result = work()
            try:
                self._loop.call_soon_threadsafe(done, result)
            except RuntimeError:
                # The loop ended during the work; nobody needs the result any more.
                if not self._loop.is_closed():
                    raise

        self._work.put(step)

    def close(self, descriptor: int) -> None:
        """Closes it in the thread. It is closed whatever its file system answers, which may be what others' writes met.

        Source: close(2), "Dealing with error returns from close()".
        """

        def work() -> None:
            with suppress(OSError):
                os.close(descriptor)

        self.submit(work, lambda _none: None)

    def _run(self) -> None:
        while True:
            self._work.get()()
