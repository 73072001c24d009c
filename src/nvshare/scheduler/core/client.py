"""The core's record of one client, and groups of holders with their sums."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from nvshare.scheduler.core.snapshot import ClientSnapshot, Line, ShownState
from nvshare.scheduler.core.transitions import TRANSITIONS, ClientState, Step


@dataclass(slots=True, eq=False)
class Client:
    """One client. Only its device changes it."""

    number: int
    footprint_bytes: int | None
    pinned_bytes: int
    state: ClientState
    since: float
    """When it was registered, began to wait or to hold; a Revoke changes nothing here."""
    grant: int = 0
    """The grant that it holds, else the last one."""
    pinned_measured: bool = False
    grants: int = 0
    held_seconds: float = 0.0
    """Without the present turn."""
    waited_seconds: float = 0.0
    """Without the present wait."""
    revoked_at: float = 0.0
    blocking: bool = False
    """It holds, and the first waiter fits only when it has left."""
    told: bool = False
    """The last TellWaiters to it said that somebody waits for it."""
    crossed_grant: int | None = None
    """A revoked grant that was given back. Revoke and release may have crossed: then a second release follows."""

    def allows(self, step: Step) -> bool:
        """Whether the step is legal in the present state."""
        return step in TRANSITIONS[self.state]

    def advance(self, step: Step) -> None:
        """Goes to the state that the step leads to; KeyError if the step is not legal."""
        self.state = TRANSITIONS[self.state][step]

    @property
    def holds(self) -> bool:
        """Whether work of it may run."""
        return self.state is not ClientState.IDLE and self.state is not ClientState.WAITING

    def snapshot(self, now: float, line: Line | None = None) -> ClientSnapshot:
        """The client at ``now``; ``line``: where it waits."""
        elapsed = now - self.since
        return ClientSnapshot(
            client=self.number,
            state=ShownState(self.state.value),
            footprint_bytes=self.footprint_bytes,
            pinned_bytes=self.pinned_bytes,
            pinned_measured=self.pinned_measured,
            held_seconds=self.held_seconds + (elapsed if self.holds else 0.0),
            waited_seconds=self.waited_seconds + (elapsed if self.state is ClientState.WAITING else 0.0),
            grants=self.grants,
            line=line,
        )


class Group:
    """Some holders in order, with the sum of their footprints. Every operation takes constant time."""

    __slots__ = ("_clients", "count", "footprint_bytes", "unknown")

    def __init__(self) -> None:
        self._clients: OrderedDict[int, Client] = OrderedDict()
        self.count = 0
        self.footprint_bytes = 0
        self.unknown = 0
        """How many of them do not report their footprint."""

    def first(self) -> Client:
        """The first client; the group is not empty."""
        return next(iter(self._clients.values()))

    def last(self) -> Client:
        """The last client; the group is not empty."""
        return next(reversed(self._clients.values()))

    def clients(self) -> tuple[Client, ...]:
        """The clients in order."""
        return tuple(self._clients.values())

    def append(self, client: Client) -> None:
        """Adds a client behind the others."""
        self._clients[client.number] = client
        self.count += 1
        self._add_bytes(client.footprint_bytes, 1)

    def prepend(self, client: Client) -> None:
        """Adds a client before the others."""
        self.append(client)
        self._clients.move_to_end(client.number, last=False)

    def remove(self, client: Client) -> None:
        """Takes a client out; it must be in."""
        del self._clients[client.number]
        self.count -= 1
        self._add_bytes(client.footprint_bytes, -1)

    def resize(self, client: Client, footprint_bytes: int) -> None:
        """Sets the footprint of a client of the group."""
        self._add_bytes(client.footprint_bytes, -1)
        client.footprint_bytes = footprint_bytes
        self._add_bytes(footprint_bytes, 1)

    def _add_bytes(self, footprint_bytes: int | None, sign: int) -> None:
        if footprint_bytes is None:
            self.unknown += sign
        else:
            self.footprint_bytes += sign * footprint_bytes
