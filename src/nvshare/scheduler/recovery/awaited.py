"""Waits for holders without a connection, most of them of the scheduler before this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nvshare.log import Log
from nvshare.scheduler.pods.processes import lives
from nvshare.scheduler.recovery.allowance import RETURN_SECONDS, Allowances
from nvshare.scheduler.recovery.process_end import ProcessEnd
from nvshare.scheduler.recovery.record import Recorded

_REMEMBERED_CLAIMS = 4096


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device, as it registers; pid 0 is hidden by its pid namespace."""

    device: str
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a process that registers."""

    recorded_grant: int | None
    """It is the awaited holder of this grant, and is awaited no longer."""
    doubted: bool
    """It has claimed to hold before, though no record said so."""


class Awaited:
    """Recorded holders that are neither back nor dead. That one died is seen by its pidfd, however long that takes."""

    def __init__(
        self,
        holders: Iterable[Recorded],
        loop: asyncio.AbstractEventLoop,
        log: Log,
        allowances: Allowances,
        died: Callable[[int], None],
    ) -> None:
        """``died`` is called in the event loop, after this, with the grant of every holder that will not come back."""
        self._loop = loop
        self._log = log
        self._allowances = allowances
        self._died = died
        self._holders = {holder.number: holder for holder in holders}
        self._ends: dict[int, ProcessEnd] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._claims: dict[Process, None] = {}
        for holder in self._holders.values():
            log.warning(
                "a client of the former scheduler holds the lock; its device waits until it is back or has ended",
                pid=holder.pid,
                command=holder.command,
                device=holder.device,
                grant=holder.number,
            )
            self._timers[holder.number] = loop.call_later(0, self._watch, holder)

    def on(self, device: str) -> list[Recorded]:
        """Those that a device waits for."""
        return [holder for holder in self._holders.values() if holder.device == device]

    def standing(self, process: Process, claimed_grant: int | None) -> Standing:
        """What is known of a process that registers, and claims to hold this grant or (None) does not."""
        found = [
            holder.number
            for holder in self.on(process.device)
            if (holder.pid, holder.started) == (process.pid, process.started)
            and (holder.pid or holder.number == claimed_grant)
        ]
        grant = claimed_grant if claimed_grant in found else next(iter(found), None)
        if grant is not None:
            self._forget(grant)
        if claimed_grant is None or claimed_grant == grant:
            return Standing(grant, doubted=False)
        doubted = process in self._claims
        self._claims[process] = None
        if len(self._claims) > _REMEMBERED_CLAIMS:
            del self._claims[next(iter(self._claims))]
        return Standing(grant, doubted)

    def lost(self, holder: Recorded) -> bool:
        """Whether a holder whose connection has ended may come back; if so it is awaited, but not for long.

        What it has submitted runs on.
        """
        if not lives(holder.pid, holder.started):
            return False
        seconds = self._allowances.lost((holder.pid, holder.started), self._loop.time())
        if not seconds:
            self._warn(holder, "a holder loses its connection again and again; if it still runs, others run beside it")
            return False
        self._holders[holder.number] = holder
        self._timers[holder.number] = self._loop.call_later(seconds, self._give_up, holder)
        self._watch_end(holder)
        return True

    def stop(self) -> None:
        """Watches nobody any more."""
        for grant in list(self._holders):
            self._forget(grant)

    def _watch(self, holder: Recorded) -> None:
        if holder.pid and holder.started:
            self._watch_end(holder)
        else:
            self._timers[holder.number] = self._loop.call_later(RETURN_SECONDS, self._give_up, holder)

    def _watch_end(self, holder: Recorded) -> None:
        self._ends[holder.number] = ProcessEnd(self._loop, holder.pid, holder.started, lambda: self._end(holder))

    def _give_up(self, holder: Recorded) -> None:
        what = "the device waits no longer for a holder that did not come back; if it still runs, others run beside it"
        self._warn(holder, what)
        self._forget(holder.number)
        self._died(holder.number)

    def _warn(self, holder: Recorded, what: str) -> None:
        self._log.warning(what, pid=holder.pid, command=holder.command, device=holder.device, grant=holder.number)

    def _end(self, holder: Recorded) -> None:
        self._log.info("a former holder has ended", pid=holder.pid, command=holder.command, grant=holder.number)
        self._forget(holder.number)
        self._died(holder.number)

    def _forget(self, grant: int) -> None:
        holder = self._holders.pop(grant)
        self._allowances.back((holder.pid, holder.started), self._loop.time())
        timer = self._timers.pop(grant, None)
        if timer is not None:
            timer.cancel()
        end = self._ends.pop(grant, None)
        if end is not None:
            end.stop()
