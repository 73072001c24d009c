"""Why a process stays awake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.process import Process
from nvshare.scheduler.core.sleep.storing import Storing
from nvshare.scheduler.core.terms import SleepWhen

UNMOVABLE_BYTES: Final = 64 << 20
"""The most that a process has which can't be swapped: the driver copies it, slowly, into memory that nobody counts."""


class Reasons:
    """Those of all processes."""

    def __init__(
        self,
        clients: Clients,
        host: Host,
        storing: Storing,
        moving: Mapping[int, Process],
    ) -> None:
        """``clients``: all there are, by number; ``moving``: the processes that are neither awake nor asleep."""
        self._clients, self._host, self._storing, self._moving = clients, host, storing, moving

    def unwilling(self, process: Process) -> str:
        """Why a process does not sleep, whatever it does; empty: it may."""
        if process.never:
            return process.reason
        members = self._clients.members(process.clients)
        return _first(_unwilling_reason(client, device.ledger) for client, device in members)

    def unable(self, process: Process, *, soon: bool = False) -> str:
        """Why a process could not be put to sleep now if it neither had a lock nor waited for one; empty: it could.

        ``soon``: when it has the memory that it asks for, if that takes neither others' ends nor sleep.
        """
        clients = self._clients.of(process.clients)
        lacking = sum(max(0, client.memory.footprint_bytes - client.memory.host_bytes) for client in clients)
        left = self._host.unused_bytes + self._host.departed_bytes
        if lacking > max(0, left - self._storing.promised_bytes(self._moving, process)):
            return f"host memory to swap {lacking >> 20} MiB into is not left (--host-memory)"
        return self.unwilling(process) or _first(_busy_reason(client, soon=soon) for client in clients)

    def let_sleep(self, process: Process) -> bool:
        """Whether an idle process can be put to sleep now; what keeps it awake for good is noted."""
        if reason := self.unwilling(process):
            process.stay_awake(reason)
        return not self.unable(process)


def is_out(client: Client) -> bool:
    """Whether nothing of its memory that can move is on the device, or may be brought there."""
    memory = client.memory
    return memory.is_heard and not memory.charge_bytes and not memory.arena_asked_bytes


def _unwilling_reason(client: Client, ledger: Ledger) -> str:
    """Why the process of a client does not sleep, whatever it does; empty: as far as this client goes, it may."""
    terms = client.container.terms
    if terms.sleep is SleepWhen.NEVER:
        return "its sleep is set to never"
    if terms.kept_bytes:
        return "a memory request keeps memory of it on the GPU"
    if client.tied is not None:
        return "it works together with other processes"
    memory = client.memory
    unmovable_bytes = memory.unmovable_bytes + memory.more_fixed_bytes
    if unmovable_bytes > UNMOVABLE_BYTES:
        return f"{unmovable_bytes >> 20} MiB of its memory can't be swapped out"
    if memory.pinned_bytes + unmovable_bytes > ledger.all_bytes + ledger.waking_bytes:
        return "the GPU has no room to bring its context back"
    return ""


def _busy_reason(client: Client, *, soon: bool) -> str:
    """Why the process of a client can't be put to sleep now that may some time, whether it has the lock or not."""
    memory = client.memory
    if memory.growth is not None and (not soon or memory.growth.wait is not None):
        return "it asks for memory"
    if not memory.has_context:
        return "it has nothing on the GPU"
    if not memory.reported:
        return "it has not said yet what memory it has"
    return ""


def _first(reasons: Iterable[str]) -> str:
    return next(filter(None, reasons), "")
