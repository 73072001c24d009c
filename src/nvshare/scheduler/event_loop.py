"""The scheduler's event loop. Its clock shows up to when everything is heard, and all deadlines go by that clock.

A deadline may pass while a message that was sent in time is still unread: the scheduler was stopped (SIGSTOP, a starved
or frozen node), or many clients speak at once. So no deadline is judged before everything was read that could be read
at that moment. The rules:

- The clock goes on when a look finds nothing to read. While there is something to read it does not reach the next
  timer.
- Time in which the scheduler did not run does not count. Clients may not have run in that time either.
- A client that sends without end puts nothing off for long: the clock waits for PATIENCE_SECONDS of reading at most.
  After time that did not count it waits as much longer as that time was, since so much may have come.

Messages that come in one go have the same time.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

PATIENCE_SECONDS: Final = 0.1
"""How long the clock waits while there is always something to read: some thousand messages."""
LONGEST_PATIENCE_SECONDS: Final = 5.0
"""However long the scheduler did not run: what sockets keep of honest clients is read by then."""
WORK_SECONDS: Final = 0.25
"""What is done between two looks takes some milliseconds; where it took longer than this the scheduler did not run."""
LOOK_SECONDS: Final = 0.25
"""How long a look lasts at most: only at its end it is seen whether the scheduler ran meanwhile."""
_BEFORE: Final = 1e-6
"""So much before a timer it is not due."""


class Hearing(selectors.EpollSelector):
    """Looks who has something to say, and knows up to when everything is heard."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``monotonic``: seconds that never go back."""
        super().__init__()
        self.unread: Callable[[], bool] = lambda: False
        """Whether something waits to be read that no look finds."""
        self._found = 0
        self._monotonic = monotonic
        self._looked = self.until = monotonic()
        """``until``: up to when everything is heard, in seconds that count."""
        self._lost = 0.0
        """Seconds that do not count."""
        self._waits_since: float | None = None
        """Since when the clock is late, because there is something to read; None: it is not."""
        self._patience = PATIENCE_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Looks until there is something to do, or for a while; the next timer is due ``timeout`` after ``until``."""
        timer = float("inf") if timeout is None else self.until + timeout
        asked = self._count(WORK_SECONDS)
        wait = min(max(0.0, timer - asked), LOOK_SECONDS)
        found = super().select(wait)
        self._found = len(found)
        now = self._count(wait + WORK_SECONDS)
        if found or self.unread():
            self._go_on(now, timer)
        else:
            # What came while it waited the next look will find: a process that was stopped is told of nothing.
            self.until, self._waits_since = asked, None
            if not wait:
                self._patience = PATIENCE_SECONDS
        return found

    def others_speak(self) -> bool:
        """Whether more than one had something to say when it looked last."""
        return self._found > 1 or self.unread()

    def _go_on(self, now: float, timer: float) -> None:
        """Not everything is heard: the next timer is not due, but if that lasts."""
        if now < timer:
            self.until, self._waits_since = now, None
        elif self._waits_since is None:
            self.until, self._waits_since = max(self.until, timer - _BEFORE), now
        elif now - self._waits_since > self._patience:
            self.until, self._waits_since, self._patience = now, None, PATIENCE_SECONDS

    def _count(self, most: float) -> float:
        """The time that counts; since this was asked last no more than ``most``."""
        now = self._monotonic()
        beyond = max(0.0, now - self._looked - most)
        self._looked = now
        self._lost += beyond
        self._patience = min(self._patience + beyond, LONGEST_PATIENCE_SECONDS)
        return now - self._lost


class EventLoop(asyncio.SelectorEventLoop):
    """One with such a clock."""

    def __init__(self, hearing: Hearing) -> None:
        super().__init__(hearing)
        self._hearing = hearing

    def time(self) -> float:
        """Up to when everything is heard, in seconds; the same until the next look."""
        return self._hearing.until


def run(main: Callable[[Hearing], Coroutine[Any, Any, None]]) -> None:
    """Runs a coroutine to its end in such a loop, to which the hearing belongs."""
    hearing = Hearing()
    with asyncio.Runner(loop_factory=partial(EventLoop, hearing)) as runner:
        runner.run(main(hearing))
