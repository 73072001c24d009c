"""Mends the run directory under a running scheduler, or lets the scheduler end when it can't be mended.

Somebody may remove files, folders or all of it. Where the directory is a dead mount, or another scheduler has taken its
place, nobody finds this scheduler any more. The containers of its clients have dead mounts too, and would never find
the next scheduler. So it serves the clients that it has, and ends with the last one.

A scheduler whose container the runtime has lost keeps the directory from the next one, so it ends at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from nvshare.log import Log
from nvshare.scheduler.pods.container_runtime import ContainerRuntime
from nvshare.scheduler.recovery.annotated import Annotated
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.contexts import Contexts
from nvshare.scheduler.recovery.record import Record
from nvshare.scheduler.recovery.resource_claims import ResourceClaims
from nvshare.scheduler.run_dir import Claim, RunDirError
from nvshare.scheduler.sockets import Sockets

_LOOK_SECONDS = 1.0


class RunDirWatch:
    """Looks at the run directory about every second, from ``start`` to ``stop``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        claim: Claim,
        sockets: Sockets,
        records: Sequence[Record],
        kept: Sequence[Choices | Annotated | ResourceClaims | Contexts],
        connections: Callable[[], int],
        end: Callable[[], None],
    ) -> None:
        """``kept``: what is written again for the next scheduler.

        ``connections``: how many clients are connected; ``end`` is called when nobody is and nobody can be."""
        self._loop = loop
        self._log = log
        self._claim = claim
        self._sockets = sockets
        self._records = records
        self._kept = kept
        self._connections = connections
        self._end = end
        self._runtime = ContainerRuntime()
        self._task: asyncio.Task[None] | None = None
        self._told = ""
        self.lost = ""
        """Why this scheduler had to end; empty: it had not."""

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while not self.lost:
            await asyncio.sleep(_LOOK_SECONDS)
            if loss := self._runtime.loss():
                self.lost = loss
                break
            gone = [path.name for path in self._claim.gone()]
            gone += [record.path.name for record in self._records if not record.is_named()]
            if gone:
                await self._see_to(gone)
        self._end()

    async def _see_to(self, gone: list[str]) -> None:
        try:
            await self._mend()
        except RunDirError as error:
            self._cant_be_mended(str(error))
        else:
            self._told = ""
            self._log.warning("files of the run directory were removed; they are there again", files=gone)

    async def _mend(self) -> None:
        self._claim.mend()
        try:
            for record in self._records:
                if not record.is_named():
                    record.write_anew()
        except OSError as error:
            raise RunDirError(f"a record can't be written: {error.strerror}") from error
        for each in self._kept:
            each.restore()
        await self._sockets.mend()

    def _cant_be_mended(self, reason: str) -> None:
        connections = self._connections()
        if self._told != reason:
            self._told = reason
            self._log.error(
                "the run directory is lost: those who are connected are served, and this scheduler ends with the last",
                reason=reason,
                connections=connections,
            )
        if not connections:
            self.lost = reason

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "the run directory is not watched", "exception": error})
