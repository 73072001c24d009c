"""Growths that are not possible and wait until others end, or sleep, on one device.

Nothing is kept for them, not even a context. Whenever something changed that may have been in their way they are looked
at again, by class and then by who asked first, and one at a time is asked for anew (residency.py). So who asks for less
may have it while another one waits for ends. While one waits until others sleep, nobody behind it has what can't move:
else what those made free would go to others, again and again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, Protocol

from nvshare.scheduler.core.memory.admission import Admission
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.growth import Growth, Wait
from nvshare.scheduler.core.terms import WhenFull

_UNTIL_SLEEP: Final = "there is room for it when others sleep"

SURE_SECONDS: Final = 1.0
"""For how long it has to be so that others' ends would not do: what was freed a moment ago is told a little later."""

LOOK_SECONDS: Final = 5.0
"""How often those that wait are looked at though nothing changed here: whose ends would do is said on all devices."""


class Ends(Protocol):
    """What would be if clients of any device ended."""

    def suffice(self, client: Client, now: float) -> bool:
        """Whether a growth that a client asked for would be possible if all others had ended."""

    def hopeless(self, now: float) -> Client | None:
        """Whom of those that wait others' ends would not help, since they wait themselves; None: all would be."""


class Queue:
    """Those of one device that wait so."""

    def __init__(self, admission: Admission, ledger: Ledger, ends: Ends) -> None:
        self.deadline: float | None = None
        """When to look again if nothing changes before; None: nobody waits."""
        self._admission, self._ledger, self._ends = admission, ledger, ends
        self._clients: dict[int, Client] = {}
        self._found_for: tuple[int, ...] = ()
        """What the last look went by; where nothing of it changed, its answers are the same."""

    def takes(self, client: Client, growth: Growth, reason: str, now: float) -> bool:
        """Whether a client's growth, not possible for this reason, waits; nothing else is to be done about it then."""
        if not growth.wakes:
            if not _wants_to(client) or not self._ends.suffice(client, now):
                return False
            if growth.wait is not None and growth.wait.given_up:
                return False
        self._put(client, growth, Wait(until_ends(reason)))
        return True

    def put_off(self, client: Client) -> None:
        """A client's growth waits until others sleep."""
        growth = client.memory.growth
        assert growth is not None
        self._put(client, growth, Wait(_UNTIL_SLEEP, for_sleep=True))

    @property
    def is_for_sleep(self) -> bool:
        """Whether one of them waits until others sleep."""
        return any(_waits(client)[1].for_sleep for client in self._clients.values())

    @property
    def clients(self) -> Collection[Client]:
        """Who they are."""
        return self._clients.values()

    def lacks_sleep(self, client: Client, now: float) -> bool:
        """Whether one of them asks for what is possible only when others sleep that don't."""
        growth, wait = self._take(client)
        _, lacks = self._admission.verdict(client, now)
        self._put(client, growth, wait)
        return lacks

    def remove(self, number: int) -> None:
        """A client is gone, or asks for something else."""
        self._clients.pop(number, None)

    def next(self, now: float) -> Client | None:
        """Whose growth is to be asked for anew: it is possible now, or hopeless. It waits here no more."""
        due = self.deadline is not None and now >= self.deadline
        if not self._clients:
            self.deadline = None
            return None
        found_for = (*self._admission.facts, *map(_wants_to, self._clients.values()))
        if found_for == self._found_for and not due:
            return None
        self.deadline = now + LOOK_SECONDS
        is_kept = False
        for client in sorted(self._clients.values(), key=_order):
            growth, wait = self._take(client)
            found, lacks_sleep = self._admission.verdict(client, now)
            is_behind = is_kept and found is None and client.memory.more_unmovable_bytes > 0
            if lacks_sleep or is_behind:
                is_kept = True
                self.put_off(client)
                continue
            if found is None or not (growth.wakes or _wants_to(client)):
                return client
            self._put(client, growth, replace(wait, reason=until_ends(found.reason), for_sleep=False))
        self._found_for = found_for
        return self._given_up(now)

    def _given_up(self, now: float) -> Client | None:
        """Whom others' ends would not help, if that was so before."""
        hopeless = self._ends.hopeless(now)
        for client in self._clients.values():
            growth, wait = _waits(client)
            if growth.wakes or wait.for_sleep:
                continue
            since = wait.hopeless_since if client is hopeless else None
            if client is hopeless and since is None:
                since = now
            given_up = since is not None and now >= since + SURE_SECONDS
            growth.give_up(since, now=given_up)
            if given_up:
                self._take(client)
                return client
            if since is not None:
                self.deadline = min(since + SURE_SECONDS, now + LOOK_SECONDS)
        return None

    def _take(self, client: Client) -> tuple[Growth, Wait]:
        """Out of the queue; what it asks for counts as before."""
        growth, wait = _waits(client)
        del self._clients[client.number]
        growth.unqueue()
        self._ledger.recount(client.memory)
        return growth, wait

    def _put(self, client: Client, growth: Growth, wait: Wait) -> None:
        self._clients[client.number] = client
        growth.queue(wait)
        self._ledger.recount(client.memory)


def _waits(client: Client) -> tuple[Growth, Wait]:
    growth = client.memory.growth
    assert growth is not None
    assert growth.wait is not None
    return growth, growth.wait


def _order(client: Client) -> tuple[bool, int, int]:
    """Who has a lower one is first: the order in which others sleep for them (sleep/relief.py)."""
    return *client.growth_order, _waits(client)[0].ticket


def until_ends(reason: str) -> str:
    """Why a growth that is not possible waits."""
    return f"{reason}; others have to end"


def _wants_to(client: Client) -> bool:
    return client.container.terms.when_full is WhenFull.WAIT
