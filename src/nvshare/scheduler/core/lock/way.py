"""Which holder of a device leaves so that its process can sleep.

Somebody may have room only when others sleep, be it for its memory or for its context alone. Those who only hold,
since nobody in line is kept out by them, would keep it out for good: so the one whose turn is over first leaves then.
If it asks again it is behind the one that lacks room, and is put to sleep.
"""

from __future__ import annotations

from nvshare.scheduler.core.lock.holders import Holders
from nvshare.scheduler.core.lock.service import AT_ONCE, NEVER
from nvshare.scheduler.core.lock.turns import Turns
from nvshare.scheduler.core.records.client import Client, Unit


class Way:
    """The holders of one device that make way for one that lacks room."""

    def __init__(self, holders: Holders, turns: Turns) -> None:
        self._holders, self._turns = holders, turns
        self._needy: Client | None = None
        self._able: frozenset[int] = frozenset()
        self.holder: Client | None = None
        """Who leaves; None: nobody has to."""
        self.end = NEVER
        """When its turn is over."""
        self.made: Client | None = None
        """Who was asked to leave so, and is not granted the lock again before it is known who sleeps."""

    def ask(self, needy: Client | None, able: frozenset[int]) -> bool:
        """For whom one of these, by number, is to leave; whether that is news."""
        news = (needy, able) != (self._needy, self._able)
        if needy is not self._needy:
            self.made = None
        self._needy, self._able = needy, able
        return news

    @property
    def leaving(self) -> frozenset[int]:
        """The number of who leaves, to whom it is said that somebody waits for that."""
        return frozenset(() if self.holder is None else (self.holder.number,))

    def make(self) -> Client:
        """Who leaves is asked to, and returned; there is one."""
        assert self.holder is not None
        self.made = self.holder
        return self.made

    def gone(self, client: Client) -> None:
        """A client is no more."""
        if client is self._needy:
            self._needy = self.made = None

    def find(self, first: Unit | None, least_seconds: float) -> None:
        """Finds anew who leaves; nobody while somebody is in line, ``first``, that may come: holders leave for that.

        No quantum is shorter than ``least_seconds``.
        """
        self.holder, self.end, needy = None, NEVER, self._needy
        if needy is None or first is not None or any(each.number in self._able for each in self._holders.leaving):
            return
        for holder in self._holders.holding():
            if holder.number in self._able:
                is_below = needy.is_due and holder.priority > needy.priority
                end = AT_ONCE if is_below else self._turns.end(holder, needy, least_seconds)
                if end < self.end:
                    self.holder, self.end = holder, end
