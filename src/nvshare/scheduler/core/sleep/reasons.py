"""Why the process of a client stays awake."""

from __future__ import annotations

from typing import Final

from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.terms import SleepWhen
from nvshare.scheduler.core.transitions import ClientState

UNMOVABLE_BYTES: Final = 64 << 20
"""The most that a process has which can't be swapped: the driver copies it, slowly, into memory that nobody counts."""


def is_out(client: Client) -> bool:
    """Whether nothing of its memory that can move is on the device, or may be brought there."""
    memory = client.memory
    return memory.is_heard and not memory.charge_bytes and not memory.arena_asked_bytes


def unwilling_reason(client: Client, ledger: Ledger) -> str:
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


def busy_reason(client: Client) -> str:
    """Why the process of a client can't be put to sleep now that may some time; empty: as far as this client goes, it
    can."""
    memory = client.memory
    if client.state is not ClientState.IDLE:
        return f"it is {client.state.value}"
    if memory.growth is not None:
        return "it asks for memory"
    if not memory.has_context:
        return "it has nothing on the GPU"
    if not memory.reported:
        return "it has not said yet what memory it has"
    return ""
