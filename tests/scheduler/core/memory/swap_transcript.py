"""A core with clients that swap, fed by hand: one line of a test is one event, and what it must be answered."""

from __future__ import annotations

from dataclasses import replace

from nvshare.scheduler.core.actions import (
    Action,
    Allot,
    ConfirmJoin,
    Evict,
    FormGang,
    Grant,
    GrowArena,
    Kill,
    LeaveGang,
    Measure,
    RefuseGrowth,
    ReportMissing,
    ReportUnresponsive,
    Revoke,
    ShareArena,
    Sleep,
    StoreArena,
    TellLimit,
    TellWaiters,
    Wake,
)
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ArenaGrown,
    Backend,
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    Event,
    GangJoined,
    GrowthRequested,
    LockReleased,
    LockRequested,
    Policy,
    ResidencyReported,
)
from nvshare.scheduler.core.settings import Settings, Unresponsive

DEVICE = "GPU-a"
GIB = 1 << 30
REST = 62 / 1024
"""GiB that may stay free in host memory which is not enough for all, since memory leaves in chunks."""
TOTAL = 16
"""GiB of the device, of which one is the reserve; contexts take nothing here unless a test says so."""


class Table:
    """A core, and what its clients have been told. Sizes are GiB."""

    def __init__(
        self,
        policy: Policy = Policy.AUTO,
        *,
        pinned: float = 0,
        host: float = 1000,
        reserve: float = 1,
        burst_seconds: float = 0.0,
        unresponsive: Unresponsive = Unresponsive.REPORT,
    ) -> None:
        self.core = Core(
            Settings(
                policy=policy,
                quantum_seconds=30.0,
                assumed_pinned_bytes=int(pinned * GIB),
                reserve_bytes=int(reserve * GIB),
                host_bytes=int(host * GIB),
                burst_seconds=burst_seconds,
                unresponsive=unresponsive,
            )
        )
        self.now = 0.0
        self.orders: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.grants: dict[str, int] = {}
        self.arenas: dict[str, int] = {}
        self.returned: dict[str, int] = {}
        self.reason = ""
        """Of the last refusal."""
        self.answers = True
        """Who is asked what it has says at once what it said last."""
        self.measures = True
        """A measurement that is asked for is made at once, and shows what the last one did."""
        self.seen = DeviceSeen(DEVICE, TOTAL * GIB)
        """How the device was measured last."""
        self._had: dict[int, ResidencyReported] = {}
        self._allotted: dict[int, int] = {}
        self.feed(self.seen)

    def feed(self, event: Event) -> list[str]:
        """What the core answers, in words; messages that are not of interest here are left out."""
        if isinstance(event, DeviceSeen):
            self.seen = event
        if isinstance(event, ResidencyReported):
            self._had[event.client] = event
            self._allotted.setdefault(event.client, event.footprint_bytes)
        return self._say(self.core.handle(event, self.now))

    def timer(self) -> list[str]:
        """The same, when the core wants to be woken."""
        deadline = self.core.deadline()
        assert deadline is not None
        self.now = deadline
        return self._say(self.core.handle_timer(self.now))

    def comes(self, name: str, size: float = 0, resident: float | None = None, *, arena: float = 100) -> list[str]:
        """A client registers and reports, with ``size`` and as much of it resident."""
        said = self.feed(ClientRegistered(ord(name), DEVICE, int(size * GIB), ClaimedState.IDLE, backend=Backend.SWAP))
        self.arenas[name] = int(arena * GIB)
        return said + self.has(name, size, size if resident is None else resident)

    def has(
        self,
        name: str,
        size: float,
        resident: float,
        *,
        order: int | None = None,
        out: float | None = None,
        fixed: float = 0,
        lacking: float = 0,
        slack: float = 0,
    ) -> list[str]:
        """A client reports; unless said otherwise it goes by the newest order, and what is not resident is out.

        ``slack``: so much more it is admitted, by its own account.
        """
        arena = self.arenas[name]
        return self.feed(
            ResidencyReported(
                ord(name),
                self.orders.get(name, 0) if order is None else order,
                int(size * GIB),
                int(resident * GIB),
                fixed_bytes=int(fixed * GIB),
                admitted_bytes=int((size + slack) * GIB),
                arena_bytes=arena,
                usable_bytes=arena,
                out_bytes=int((size - resident if out is None else out) * GIB),
                lacking_bytes=int(lacking * GIB),
                returned_bytes=self.returned.get(name, 0),
            )
        )

    def grows(self, name: str, size: float, fixed: float = 0) -> list[str]:
        """A client wants to be admitted so much."""
        self.requests[name] = self.requests.get(name, 0) + 1
        return self.feed(GrowthRequested(ord(name), self.requests[name], int(size * GIB), int(fixed * GIB)))

    def asks(self, name: str) -> list[str]:
        """A client wants the lock."""
        return self.feed(LockRequested(ord(name)))

    def gang(self, names: str) -> None:
        """These belong together."""
        for name in names:
            self.feed(GangJoined(ord(name), names, len(names), 1))

    def releases(self, name: str) -> list[str]:
        """A client gives the lock back."""
        return self.feed(LockReleased(ord(name), self.grants[name]))

    def arena(self, name: str, segment: float) -> list[str]:
        """A client gets host memory."""
        self.arenas[name] += int(segment * GIB)
        return self.feed(ArenaGrown(ord(name), int(segment * GIB)))

    def gives_back(self, name: str, size: float) -> None:
        """So much host memory of a client goes back; its next report says so."""
        self.arenas[name] -= int(size * GIB)
        self.returned[name] = self.returned.get(name, 0) + int(size * GIB)

    def _say(self, actions: list[Action]) -> list[str]:
        said: list[str] = []
        for action in actions:
            if isinstance(action, Evict) and self.answers and action.allotted_bytes == self._allotted[action.client]:
                self.orders[chr(action.client)] = action.order
                said += self.feed(replace(self._had[action.client], order=action.order))
            elif not isinstance(action, Measure | FormGang):
                said += [text] if (text := self._text(action)) else []
            elif isinstance(action, Measure) and self.measures:
                said += self.feed(self.seen)
            elif isinstance(action, Measure):
                said.append("measure")
        return said

    def _text(self, action: Action) -> str:
        if isinstance(action, FormGang | Measure | ReportMissing):
            return ""
        if isinstance(action, StoreArena):
            return f"store {chr(action.client)}"
        if isinstance(action, ShareArena):
            return f"share {chr(action.client)} {action.pack_bytes / GIB:g}"
        if isinstance(action, Sleep | Wake):
            return f"{type(action).__name__.lower()} {' '.join(map(chr, action.clients))}"
        name = chr(action.client)
        match action:
            case Grant(_, grant):
                self.grants[name] = grant
                return f"grant {name}"
            case Revoke():
                return f"revoke {name}"
            case Allot(_, order, allotted_bytes, _, _, request):
                self.orders[name], self._allotted[action.client] = order, allotted_bytes
                return f"allot {name} {allotted_bytes / GIB:g}" + (f" as {request}" if request else "")
            case Evict(_, order, allotted_bytes):
                self.orders[name], self._allotted[action.client] = order, allotted_bytes
                return f"evict {name} {allotted_bytes / GIB:g}"
            case RefuseGrowth(_, request, reason):
                self.reason = reason
                return f"refuse {name} {request}"
            case GrowArena(_, segment_bytes):
                return f"arena {name} {segment_bytes / GIB:g}"
            case TellLimit(_, limit_bytes, others_bytes):
                return f"limit {name} {limit_bytes / GIB:g} beside {others_bytes / GIB:g}"
            case ReportUnresponsive():
                return f"late {name}"
            case Kill():
                return f"kill {name}"
            case TellWaiters() | ConfirmJoin() | LeaveGang():
                return ""
            case _:
                return f"{action}"
