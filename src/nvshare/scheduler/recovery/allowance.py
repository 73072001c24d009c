"""For how long a process may hold without its connections: each has one allowance, for all GPUs.

Programs close files that they don't know, and come back within a second. But while a holder is awaited nobody else gets
its GPU, and gangs elsewhere wait as well: a process that lost its connection again and again would keep them for ever.
An absence costs its length, and then the time for which others wait because of it. The allowance grows with each turn
that the process gives back in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.actions import Action, Grant, ReportUnresponsive
from nvshare.scheduler.core.events import ClientGone, Event, LockReleased
from nvshare.scheduler.core.records.gang import REJOIN_SECONDS

MOST_SECONDS: Final = 5.0
"""What a process has that was never absent: four absences of a moment, or one as long as ``RETURN_SECONDS``."""
RETURN_SECONDS: Final = 2.0
"""For how long one is waited for at once. A client connects again after a second at the latest."""
_OF_A_TURN: Final = 0.1
"""Of a turn that was given back in time: so much may a process be absent."""
_REMEMBERED: Final = 4096

Key = tuple[int, int]
"""A process: its pid, and when it began."""


@dataclass(slots=True)
class _Account:
    left: float = MOST_SECONDS
    absent: int = 0
    """On so many GPUs."""
    since: float = 0.0


class Allowances:
    """Of all processes that were absent of late; the others have all of theirs."""

    def __init__(self, process_of: Callable[[int], Key]) -> None:
        """``process_of``: of which process a registered client is, by its number."""
        self._process_of = process_of
        self._accounts: dict[Key, _Account] = {}
        self._turns: dict[int, float] = {}
        """Since when clients hold, by number, for as long as they are not overdue."""

    def lost(self, process: Key, now: float) -> float:
        """A holder's connection ended; returns for how many seconds it is to be awaited, 0: not at all."""
        account = self._accounts.pop(process, None) or _Account()
        self._accounts[process] = account
        if len(self._accounts) > _REMEMBERED:
            del self._accounts[next(iter(self._accounts))]
        if account.left <= 0:
            return 0.0
        if not account.absent:
            account.since = now
        account.absent += 1
        return min(RETURN_SECONDS, account.left)

    def back(self, process: Key, now: float) -> None:
        """One that was lost is not awaited any more."""
        account = self._accounts.get(process)
        if account is not None and account.absent:
            account.absent -= 1
            if not account.absent:
                account.left -= now - account.since + REJOIN_SECONDS

    def observe(self, event: Event | None, actions: Sequence[Action], now: float) -> None:
        """See ``dispatcher.Observe``."""
        match event:
            case LockReleased(number) | ClientGone(number):
                began = self._turns.pop(number, None)
                if began is not None and isinstance(event, LockReleased):
                    self._grow(number, _OF_A_TURN * (now - began))
            case _:
                pass
        for action in actions:
            match action:
                case Grant(number):
                    self._turns[number] = now
                case ReportUnresponsive(number):
                    self._turns.pop(number, None)
                case _:
                    pass

    def _grow(self, number: int, seconds: float) -> None:
        process = self._process_of(number)
        account = self._accounts.get(process)
        if account is None:
            return
        account.left = min(MOST_SECONDS, account.left + seconds)
        if account.left == MOST_SECONDS and not account.absent:
            del self._accounts[process]
