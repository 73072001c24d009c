"""What clients of gangs need beside the core's decisions: the page of each gang, as long as it has members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from nvshare.log import Log
from nvshare.scheduler.core.actions import FormGang, Grant, LeaveGang
from nvshare.scheduler.core.events import ClientGone
from nvshare.scheduler.gang_pages import GangPages
from nvshare.scheduler.registered_client import RegisteredClient


class Ganging:
    """All gangs; ``see_to`` is what the dispatcher wants to be given."""

    def __init__(self, pages: GangPages, log: Log) -> None:
        self._pages = pages
        self._log = log
        self._members: dict[int, set[int]] = {}
        """By gang: those of its clients that have its page and no other."""
        self._gang_of: dict[int, int] = {}

    def see_to(self, what: FormGang | LeaveGang | Grant | ClientGone, clients: Mapping[int, RegisteredClient]) -> None:
        """A gang has other members now, or a client is in none any more, gets its lock, or is gone."""
        match what:
            case FormGang(gang, numbers):
                for number in numbers:
                    self._leave(number)
                self._members[gang] = set(numbers)
                self._gang_of |= dict.fromkeys(numbers, gang)
                try:
                    self._pages.form(gang, {number: clients[number] for number in numbers})
                except OSError as error:
                    # Each of them stops by itself then, step by step.
                    self._log.error("a gang gets no page to agree by", clients=numbers, reason=str(error))
            case LeaveGang(number):
                self._leave(number)
            case Grant(number):
                if (of := self._gang_of.get(number)) is not None:
                    self._pages.granted(of, number)
            case ClientGone(number):
                self._pages.member_gone(number)
                self._leave(number)
            case _:
                assert_never(what)

    def _leave(self, number: int) -> None:
        gang = self._gang_of.pop(number, None)
        if gang is not None:
            self._members[gang].discard(number)
            if not self._members[gang]:
                del self._members[gang]
                self._pages.forget(gang)
