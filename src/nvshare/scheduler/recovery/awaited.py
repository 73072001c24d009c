"""Holders that are without a connection: who of them is not back yet, and who is none of them.

Most are holders of the scheduler before this one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from nvshare.log import Log
from nvshare.scheduler.pods.processes import lives, start_time
from nvshare.scheduler.recovery.record import Holder

_RETURN_SECONDS = 2.0
"""How long a holder has to come back whose process can't be seen, or lives without a connection to this scheduler.

A client connects again after a second at the latest.
"""
_LOOK_AGAIN_SECONDS = 1.0
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
        self, holders: Iterable[Holder], loop: asyncio.AbstractEventLoop, log: Log, died: Callable[[int], None]
    ) -> None:
        """``died`` is called in the event loop, after this, with the grant of every holder that will not come back."""
        self._loop = loop
        self._log = log
        self._died = died
        self._holders = {holder.grant: holder for holder in holders}
        self._pidfds: dict[int, int] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._claims: dict[Process, None] = {}
        for holder in self._holders.values():
            log.warning(
                "a client of the former scheduler holds the lock; its device waits until it is back or has ended",
                pid=holder.pid,
                command=holder.command,
                device=holder.device,
                grant=holder.grant,
            )
            self._timers[holder.grant] = loop.call_later(0, self._watch, holder)

    def on(self, device: str) -> list[Holder]:
        """Those that a device waits for."""
        return [holder for holder in self._holders.values() if holder.device == device]

    def standing(self, process: Process, claimed_grant: int | None) -> Standing:
        """What is known of a process that registers, and claims to hold this grant or (None) does not."""
        found = [
            holder.grant
            for holder in self.on(process.device)
            if (holder.pid, holder.started) == (process.pid, process.started)
            and (holder.pid or holder.grant == claimed_grant)
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

    def lost(self, holder: Holder) -> bool:
        """Whether a holder whose connection has ended may come back; if so it is awaited, but not for long.

        Programs close files that they don't know, and what they have submitted runs on.
        """
        if not lives(holder.pid, holder.started):
            return False
        self._holders[holder.grant] = holder
        self._timers[holder.grant] = self._loop.call_later(_RETURN_SECONDS, self._give_up, holder)
        with suppress(ProcessLookupError):
            pidfd = _pidfd(holder.pid)
            if pidfd is not None:
                self._watch_end(pidfd, holder)
        return True

    def stop(self) -> None:
        """Watches nobody any more."""
        for grant in list(self._holders):
            self._forget(grant)

    def _watch(self, holder: Holder) -> None:
        if not holder.pid or not holder.started:
            self._timers[holder.grant] = self._loop.call_later(_RETURN_SECONDS, self._give_up, holder)
            return
        try:
            # No descriptor, because none is left or the kernel is too old for these: it is looked at again and again.
            pidfd = _pidfd(holder.pid)
        except ProcessLookupError:
            self._end(holder)
            return
        # The descriptor is of whoever has the pid now, and keeps meaning that one.
        if start_time(holder.pid) not in (holder.started, 0):
            if pidfd is not None:
                os.close(pidfd)
            self._end(holder)
        elif pidfd is not None:
            self._watch_end(pidfd, holder)
        else:
            self._timers[holder.grant] = self._loop.call_later(_LOOK_AGAIN_SECONDS, self._watch, holder)

    def _watch_end(self, pidfd: int, holder: Holder) -> None:
        self._pidfds[holder.grant] = pidfd
        self._loop.add_reader(pidfd, self._end, holder)

    def _give_up(self, holder: Holder) -> None:
        self._log.warning(
            "the device waits no longer for a holder that did not come back; if it still runs, others run beside it",
            pid=holder.pid,
            command=holder.command,
            device=holder.device,
            grant=holder.grant,
        )
        self._forget(holder.grant)
        self._died(holder.grant)

    def _end(self, holder: Holder) -> None:
        self._log.info("a former holder has ended", pid=holder.pid, command=holder.command, grant=holder.grant)
        self._forget(holder.grant)
        self._died(holder.grant)

    def _forget(self, grant: int) -> None:
        del self._holders[grant]
        timer = self._timers.pop(grant, None)
        if timer is not None:
            timer.cancel()
        pidfd = self._pidfds.pop(grant, None)
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)


def _pidfd(pid: int) -> int | None:
    """Readable when the process has ended; None: there can be no descriptor. ProcessLookupError: it has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        with suppress(PermissionError):
            os.kill(pid, 0)
        return None
