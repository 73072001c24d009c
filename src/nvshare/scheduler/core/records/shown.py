"""What is shown of one client."""

from __future__ import annotations

from dataclasses import replace

from nvshare.scheduler.core.records.arenas import CHUNK_BYTES
from nvshare.scheduler.core.records.away import Place
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.memory import Memory
from nvshare.scheduler.core.records.process import Sleep
from nvshare.scheduler.core.snapshot import ClientSnapshot, GangWait, Line, ShownState, SwapSnapshot

_SHOWN = {
    Sleep.ASLEEP: ShownState.ASLEEP,
    Sleep.LOADING: ShownState.WAKING,
    Sleep.COMING: ShownState.WAKING,
    Sleep.WAKING: ShownState.WAKING,
}


def show(
    client: Client, now: float, line: Line | None = None, wait: GangWait | None = None, kept_bytes: int = 0
) -> ClientSnapshot:
    """A client at ``now``; ``line``: where it waits; ``wait``: what its gang waits for; ``kept_bytes``: what is granted
    of its container's memory request."""
    memory, process = client.memory, client.process
    swap = show_swap(memory, now) if memory.swaps else None
    if swap is not None and process is not None:
        still_seconds = max(swap.still_seconds, process.still_seconds(now))
        swap = replace(swap, still_seconds=still_seconds, wait=process.kept_out or swap.wait)
    return ClientSnapshot(
        client=client.number,
        state=_shown_state(client),
        footprint_bytes=memory.footprint_bytes if memory.is_known else None,
        pinned_bytes=memory.context_bytes,
        pinned_measured=memory.pinned_measured,
        held_seconds=client.held_until(now),
        waited_seconds=client.waited_until(now),
        grants=client.grants,
        line=line,
        swap=swap,
        container=client.container.name,
        terms=client.container.terms,
        gang=None if client.tied is None else client.tied.snapshot(),
        wait=wait,
        kept_bytes=kept_bytes,
        awake_reason="" if process is None or client.is_asleep else process.reason,
        sleeps=0 if process is None else process.sleeps,
        keeps_room=client.keeps_room,
    )


def show_swap(memory: Memory, now: float) -> SwapSnapshot:
    """The memory of one that swaps, at ``now``."""
    waits_for_it = memory.is_moving or not memory.orders.are_heard
    growth, away = memory.growth, memory.away
    wait = None if growth is None else growth.wait
    more_bytes = 0 if growth is None else max(0, growth.footprint_bytes - memory.footprint_bytes)
    return SwapSnapshot(
        resident_bytes=memory.resident_bytes,
        out_bytes=memory.footprint_bytes - memory.resident_bytes,
        fixed_bytes=memory.unmovable_bytes,
        allotted_bytes=memory.allotted_bytes,
        admitted_bytes=memory.admitted_bytes,
        arena_bytes=memory.arena_bytes,
        usable_bytes=memory.usable_bytes,
        in_bytes=_coming_bytes(memory) + max(0, memory.held_bytes - memory.footprint_bytes),
        leaving_bytes=max(0, memory.resident_bytes - memory.allotted_bytes),
        wanted_bytes=more_bytes + memory.more_unmovable_bytes,
        wait=away.wait if wait is None else wait.reason,
        still_seconds=max(0.0, now - memory.progress_at) if waits_for_it else 0.0,
        came_bytes=memory.came_bytes,
        left_bytes=memory.left_bytes,
        stored_bytes=memory.out_bytes if away.place is Place.FILE else 0,
        shared_bytes=away.bytes if away.place is Place.PACK else 0,
        awaits_context=growth is not None and not memory.has_context,
    )


def _coming_bytes(memory: Memory) -> int:
    """What comes in now: where there is room for a part of a chunk only, nothing does."""
    room = memory.allotted_bytes - memory.resident_bytes
    lacking = memory.footprint_bytes - memory.resident_bytes
    return max(0, min(room, lacking)) if room >= min(lacking, CHUNK_BYTES) else 0


def _shown_state(client: Client) -> ShownState:
    if client.keeps_room:
        return ShownState.UNRESPONSIVE
    sleep = Sleep.AWAKE if client.process is None else client.process.state
    return _SHOWN.get(sleep) or ShownState(client.state.value)
