"""Between the wire and the core: frames become events, actions become frames. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from nvshare.protocol import wire
from nvshare.scheduler.core.actions import (
    Allot,
    ClientAction,
    ConfirmJoin,
    Evict,
    Grant,
    LeaveGang,
    RefuseGrowth,
    Revoke,
    TellLimit,
    TellWaiters,
    Watch,
)
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientIdle,
    ClientRegistered,
    FootprintChanged,
    GangJoined,
    GangLeft,
    GrowthRequested,
    LockReleased,
    LockRequested,
    ProgressReported,
    ResidencyReported,
)
from nvshare.scheduler.core.gangs.as_one import MOST_MEMBERS
from nvshare.scheduler.core.terms import Priority, SleepWhen, WhenFull
from nvshare.scheduler.some_terms import SomeTerms

_CLAIMED: Final = {
    wire.State.IDLE: ClaimedState.IDLE,
    wire.State.WAITING: ClaimedState.WAITING,
    wire.State.HOLDING: ClaimedState.HOLDING,
    wire.State.DRAINING: ClaimedState.DRAINING,
}

_BACKEND: Final = {
    wire.Backend.MANAGED: Backend.MANAGED,
    wire.Backend.NATIVE: Backend.NATIVE,
}

_PRIORITY: Final = {
    wire.Priority.LOW: Priority.LOW,
    wire.Priority.NORMAL: Priority.NORMAL,
    wire.Priority.HIGH: Priority.HIGH,
}

_WHEN_FULL: Final = {
    wire.WhenFull.UNSAID: None,
    wire.WhenFull.WAIT: WhenFull.WAIT,
    wire.WhenFull.REFUSE: WhenFull.REFUSE,
}

_SLEEP: Final = {
    wire.SleepWhen.UNSAID: None,
    wire.SleepWhen.NEVER: SleepWhen.NEVER,
    wire.SleepWhen.PRESSURE: SleepWhen.PRESSURE,
    wire.SleepWhen.IDLE: SleepWhen.IDLE,
}

Told = wire.ReqLock | wire.LockReleased | wire.Footprint | wire.Grow | wire.Resident | wire.Progress
"""The frames that are events, but for REGISTER."""

_MOST_BYTES: Final = 1 << 50
"""No memory is larger."""
_TOO_LARGE: Final = "no memory is so large"


def backend(frame: wire.Register) -> Backend:
    """The backend that a client means. A scheduler that does not know swapping reads another one."""
    return Backend.SWAP if frame.swaps else _BACKEND[frame.backend]


def nonsense(frame: wire.Register | wire.Footprint | wire.Grow | wire.Resident | wire.Progress) -> str:
    """What is wrong with the numbers of a frame whatever was said before; empty: nothing."""
    if isinstance(frame, wire.Register):
        return _TOO_LARGE if max(frame.footprint_bytes, frame.total_bytes) > _MOST_BYTES else ""
    if isinstance(frame, wire.Footprint):
        return _TOO_LARGE if frame.footprint_bytes > _MOST_BYTES else ""
    if isinstance(frame, wire.Progress):
        return "more looks found nothing than there were" if frame.empty_looks > frame.looks else ""
    if isinstance(frame, wire.Grow):
        if not frame.request:
            return "requests count from 1"
        return _TOO_LARGE if max(frame.footprint_bytes, frame.fixed_bytes) > _MOST_BYTES else ""
    most = max(frame.footprint_bytes, frame.fixed_bytes, frame.admitted_bytes, frame.arena_bytes, frame.lacking_bytes)
    if most > _MOST_BYTES:
        return _TOO_LARGE
    if frame.resident_bytes > frame.footprint_bytes or frame.out_bytes > frame.footprint_bytes:
        return "a part of the footprint is more than all of it"
    return "more of the arena is usable than there is" if frame.usable_bytes > frame.arena_bytes else ""


def registered(frame: wire.Register, client: int, device: str) -> ClientRegistered:
    """The event of a version 2 REGISTER, as client ``client`` on the device that is called ``device``."""
    return ClientRegistered(
        client,
        device,
        frame.footprint_bytes,
        _CLAIMED[frame.state],
        frame.grant,
        backend=backend(frame),
        device_bytes=frame.total_bytes,
    )


def terms_of(frame: wire.Terms) -> SomeTerms:
    """What a client's environment asks for; ValueError where that is not allowed."""
    terms = SomeTerms(
        weight=frame.weight_thousandths / 1000 or None,
        priority=None if frame.priority is wire.Priority.UNSAID else _PRIORITY[frame.priority],
        compute_limit=frame.compute_limit_thousandths / 1000 or None,
        memory_limit_bytes=frame.memory_limit_bytes or None,
        memory_request_bytes=frame.memory_request_bytes or None,
        when_full=_WHEN_FULL[frame.when_full],
        sleep=_SLEEP[frame.sleep],
    )
    terms.check()
    return terms


def event_of(
    frame: Told, client: int
) -> LockRequested | LockReleased | FootprintChanged | GrowthRequested | ResidencyReported | ProgressReported:
    """The event of any other frame of a client."""
    match frame:
        case wire.ReqLock():
            return LockRequested(client)
        case wire.LockReleased(grant):
            return LockReleased(client, grant)
        case wire.Footprint(footprint_bytes):
            return FootprintChanged(client, footprint_bytes)
        case wire.Grow(request, footprint_bytes, fixed_bytes):
            return GrowthRequested(client, request, footprint_bytes, fixed_bytes)
        case wire.Resident():
            return ResidencyReported(
                client,
                frame.order,
                footprint_bytes=frame.footprint_bytes,
                resident_bytes=frame.resident_bytes,
                fixed_bytes=frame.fixed_bytes,
                admitted_bytes=frame.admitted_bytes,
                arena_bytes=frame.arena_bytes,
                usable_bytes=frame.usable_bytes,
                out_bytes=frame.out_bytes,
                lacking_bytes=frame.lacking_bytes,
                spared_bytes=frame.spared_bytes,
                returned_bytes=frame.returned_bytes,
            )
        case wire.Progress(submissions, at_microseconds, looks, empty_looks):
            return ProgressReported(client, submissions, at_microseconds / 1e6, looks, empty_looks)
        case _:
            assert_never(frame)


def gang_event_of(
    frame: wire.Join | wire.Leave | wire.Idle, client: int, process: int, scope: str
) -> GangJoined | GangLeft | ClientIdle:
    """The event of what a client says of its gang; ``scope``: within which a name means the same.

    ``process``: of which the client is, as a number that no other process has.
    """
    match frame:
        case wire.Join(request, _, wire.Tie.NAME, size, was_complete):
            name, key = _gang_name(frame), _key(frame, scope)
            return GangJoined(client, key, 0, request, name, process, size, was_complete)
        case wire.Join(request, _, _, size):
            return GangJoined(client, _key(frame, scope), size, request)
        case wire.Leave():
            return GangLeft(client, _key(frame, scope))
        case wire.Idle():
            return ClientIdle(client)
        case _:
            assert_never(frame)


def wrong_size(frame: wire.Join) -> str:
    """What is wrong with the size of a gang by name; empty: nothing."""
    if frame.tie is not wire.Tie.NAME or frame.size in (0, *range(2, MOST_MEMBERS + 1)):
        return ""
    return f"a gang by name has 2 to {MOST_MEMBERS} processes"


def _gang_name(frame: wire.Join) -> str:
    """The name by which clients tied themselves; empty where it can't be read."""
    name = frame.key.rstrip(b"\0")
    readable = all(ord(" ") < byte <= ord("~") for byte in name)
    return name.decode("ascii") if readable else ""


def _key(frame: wire.Join | wire.Leave, scope: str) -> str:
    # The other keys can't be guessed.
    within = f"{scope}:" if frame.tie is wire.Tie.NAME else ""
    return f"{frame.tie.name.lower()}:{within}{frame.key.hex()}"


def frame_of(action: ClientAction) -> wire.SchedulerFrame:
    """What to send to the client that the action names."""
    match action:
        case Grant(_, grant):
            return wire.LockOk(grant)
        case Revoke(_, grant):
            return wire.DropLock(grant)
        case TellWaiters(_, waiters, idle_seconds):
            return wire.Waiters(waiters, round(idle_seconds * 1e6))
        case Allot(_, order, allotted_bytes, admitted_bytes, capacity_bytes, request):
            return wire.Allot(order, allotted_bytes, admitted_bytes, capacity_bytes, request)
        case Evict(_, order, allotted_bytes):
            return wire.Evict(order, allotted_bytes)
        case RefuseGrowth(_, request, reason):
            return wire.RefuseGrowth(request, reason)
        case TellLimit(_, limit_bytes, others_bytes):
            return wire.Limit(limit_bytes, others_bytes)
        case Watch(_, interval_seconds, together):
            return wire.Watch(round(interval_seconds * 1e6), int(together))
        case ConfirmJoin(_, request):
            return wire.Joined(request)
        case LeaveGang():
            return wire.Gang()
        case _:
            assert_never(action)
