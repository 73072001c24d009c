"""Why a client waits, in the words of REASON, which the library prints for its user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nvshare import display
from nvshare.scheduler.core.snapshot import GangWait, Line, SwapSnapshot
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Source

_DEVICE = len("GPU-01234567")
"""Characters of a device's UUID that tell it from others."""
_LONGEST_COMMAND = 80
"""Bytes of a command that are said."""
_LEAST_COMMAND = 8
"""Characters of a command below which it is left out."""


@dataclass(frozen=True, slots=True)
class InTheWay:
    """One that a line waits for."""

    description: Description
    seconds: float
    """For which it has held the lock."""
    holds: bool = True
    """False: it keeps memory of the GPU."""
    stopped: bool = False
    """Its process is, by SIGSTOP or Ctrl-Z."""


def why(line: Line, asker: Description, in_the_way: Sequence[InTheWay], longest: int) -> str:
    """What keeps the asker waiting; a command is shortened where it would be more than ``longest`` bytes of UTF-8.

    Of the others pids and commands are told only to who could see them anyway: the same user in the same container, or
    outside any.
    """
    start = _start(line)
    if not in_the_way:
        return start
    one = max(in_the_way, key=lambda each: (each.stopped, each.seconds))
    holder, may_see = one.description, _may_see(asker, one.description)
    more = f" and {len(in_the_way) - 1} more" if len(in_the_way) > 1 else ""
    does = f"holding for {_duration(one.seconds)}" if one.holds else "which keeps its memory on the GPU"
    if one.stopped:
        does = f"stopped: kill -CONT {holder.own_pid}" if may_see else "which is stopped"

    def behind(whom: str) -> str:
        return f"{start}, behind {whom}{more}, {does}"

    if not may_see:
        return behind(_stranger(asker, holder))
    return _with_command(behind, f"pid {holder.own_pid}", holder.command, longest)


def while_recovering(line: Line, asker: Description, awaited: Sequence[int]) -> str:
    """The same while holders of a former scheduler are awaited; their pids are told to who sees the scheduler's."""
    seen = [pid for pid in awaited if pid and asker.namespaces == ""]
    whom = f"pid {seen[0]}" if seen else "a holder"
    more = f" and {len(awaited) - 1} more" if len(awaited) > 1 else ""
    return f"{_start(line)}; the scheduler waits for {whom}{more} to come back"


def while_moving(line: Line, footprint_bytes: int, swap: SwapSnapshot) -> str:
    """The same for a client whose memory swaps, and that waits for no holder."""
    if line.too_large:
        size = display.size(footprint_bytes)
        return f"{_start(line)}; {size} don't fit beside what can't leave the GPU: others have to end"
    there = f"{display.size(swap.resident_bytes)} of {display.size(footprint_bytes)}"
    if swap.in_bytes:
        return f"{_start(line)}; its memory is being brought in: {there}"
    if swap.resident_bytes < footprint_bytes:
        return f"{_start(line)}; no room for its memory yet: {there} are on the GPU"
    return _start(line)


def for_gang(wait: GangWait, asker: Description, client: Description | None) -> str:
    """The same for a client whose gang waits for something elsewhere; ``client``: that of the ``wait``."""
    start = f"its gang of {wait.members} waits for "
    device = wait.device[:_DEVICE]
    if client is None:
        return f"{start}{device}, where others are before it"
    whom = f"pid {client.own_pid}" if _may_see(asker, client) else _stranger(asker, client)
    if wait.silent:
        return f"{start}{whom}, which does not answer"
    if wait.too_large:
        return f"{start}{whom}, whose memory doesn't fit {device}"
    return f"{start}{device}, which {whom} holds" if device else f"{start}{whom} to stop"


def for_members(wait: GangWait) -> str:
    """The same for a client whose gang is not complete."""
    return f"its gang waits for its other processes: {wait.come} of {wait.expected} have come"


def _start(line: Line) -> str:
    return f"{_ordinal(line.position)} of {line.length} in line"


def _with_command(behind: Callable[[str], str], pid: str, command: str, longest: int) -> str:
    """The command is what gives way where not all has room; of a file its name is said, without its folders."""
    command = " ".join(word.rpartition("/")[2] or word for word in command.split())
    room = min(_LONGEST_COMMAND, longest - len(behind(f"{pid} ()").encode()))
    if len(command.encode()) > room:
        command = command.encode()[: max(0, room - 3)].decode(errors="ignore").rstrip() + "..."
    return behind(f"{pid} ({command})" if len(command) >= min(_LEAST_COMMAND, room) else pid)


def _may_see(asker: Description, holder: Description) -> bool:
    return (
        bool(holder.own_pid)
        and asker.namespaces is not None
        and (asker.uid, asker.namespaces, asker.identity) == (holder.uid, holder.namespaces, holder.identity)
    )


def _stranger(asker: Description, holder: Description) -> str:
    if holder.identity.source is not Source.NONE and holder.identity != asker.identity:
        return "another pod's client"
    if asker.uid != holder.uid:
        return "another user's client"
    return "another client"


def _duration(seconds: float) -> str:
    """In whole seconds, short."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else suffix}"
