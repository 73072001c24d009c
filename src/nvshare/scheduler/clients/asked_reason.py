"""Why a client waits, as the dispatcher knows it now; ``reason`` has the words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nvshare.process_state import is_stopped
from nvshare.scheduler.clients import reason
from nvshare.scheduler.dispatcher import Dispatcher


def for_memory(number: int, dispatcher: Dispatcher) -> str:
    """For memory that its program asks for."""
    swap = dispatcher.client(number).swap
    wait = dispatcher.clients[number].memory_wait or ("" if swap is None else swap.wait)
    return wait or "others use it"


def for_lock(number: int, dispatcher: Dispatcher, awaited: Callable[[str], Sequence[int]], longest: int) -> str:
    """For the lock, in ``longest`` bytes of UTF-8; empty: it does not. ``awaited``: see ``Registrar.awaited``."""
    shown = dispatcher.client(number)
    line, wait = shown.line, shown.wait
    clients = dispatcher.clients
    asker = clients[number]
    if wait is not None and wait.expected:
        return reason.for_members(wait)
    if wait is not None and wait.device != asker.device:
        holder = clients[wait.client].description if wait.client else None
        return reason.for_gang(wait, asker.description, holder)
    if line is None:
        return ""
    if line.recovering:
        return reason.while_recovering(line, asker.description, awaited(asker.device))
    if shown.swap is not None and (line.too_large or not line.behind):
        return reason.while_moving(line, shown.footprint_bytes or 0, shown.swap)
    in_the_way = [
        reason.InTheWay(shown, turn.seconds, turn.holds, is_stopped(shown.pid))
        for turn in line.behind
        for shown in (clients[turn.client].description,)
    ]
    return reason.why(line, asker.description, in_the_way, longest)
