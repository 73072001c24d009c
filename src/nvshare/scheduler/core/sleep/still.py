"""Processes that stand still: **the rules**. Somebody stopped them (SIGSTOP, a paused container), maybe for good.

- *Who.* Whose memory is to leave and does not, for the grace time; and who was told something else and has done
  nothing of it for half a minute. One with a slow disk may be taken for one: it is not alone at the disk then, no more.
- *What follows.* Nobody waits for it: another one sleeps, lets go of host memory, or comes back instead. What it was
  told it may do as soon as it goes on, and the host memory that it began to come back into is kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nvshare.scheduler.core.actions import Action, GrowArena, ShareArena, StoreArena, Wake
from nvshare.scheduler.core.actions import Sleep as PutToSleep
from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.records.process import Process, Sleep

STILL_SECONDS: Final = 30.0
"""Closing its door takes a process ten seconds at most, storing or sharing a GiB about one."""


class Still:
    """Whether processes stand still that were told something."""

    def __init__(
        self,
        clients: Clients,
        processes: Mapping[int, Process],
        moving: dict[int, Process],
    ) -> None:
        """``clients``, ``processes``: all there are, by number; ``moving``: those that were told something."""
        self._clients, self._processes, self._moving = clients, processes, moving

    def find(self, now: float) -> list[Process]:
        """Those that stand still from now on, or go on."""
        found = []
        for process in self._moving.values():
            moment = self._moment(process)
            still = moment is not None and now >= moment
            if still is not process.stands_still:
                process.stand_still(still=still)
                found.append(process)
        return found

    def moments(self) -> Iterable[float]:
        """When some stand still that do nothing by then."""
        found = (self._moment(process) for process in self._moving.values() if not process.stands_still)
        return (moment for moment in found if moment is not None)

    def tell(self, action: Action, now: float) -> None:
        """A process may be told something now."""
        match action:
            case PutToSleep(number) | Wake(number):
                process: Process | None = self._processes[number]
            case GrowArena() | StoreArena() | ShareArena():
                process = self._clients[action.client][0].process
            case _:
                return
        assert process is not None
        process.tell(now)
        self._moving[process.number] = process

    def _moment(self, process: Process) -> float | None:
        """From when on it stands still if it does nothing; None: nothing is expected of it."""
        there = self._clients.members(process.clients)
        if process.state is Sleep.LEAVING:
            late = [device.residency.late_at(client) for client, device in there]
            return max((moment for moment in late if moment is not None), default=None)
        is_told = any(client.memory.away.is_told for client, _ in there)
        is_told |= process.state in (Sleep.FALLING, Sleep.WAKING)
        return process.told_at + STILL_SECONDS if is_told else None
