"""The core's record of one client, and groups of holders with their sums."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from nvshare.scheduler.core.ledger import Account
from nvshare.scheduler.core.snapshot import ClientSnapshot, Line, ShownState
from nvshare.scheduler.core.swap import Swap
from nvshare.scheduler.core.transitions import TRANSITIONS, ClientState, Step


@dataclass(slots=True, eq=False)
class Client:
    """One client. Only its device changes it."""

    number: int
    account: Account
    state: ClientState
    since: float
    """When it was registered, began to wait or to hold; a Revoke changes nothing here."""
    grant: int = 0
    """The grant that it holds, else the last one."""
    grants: int = 0
    held_seconds: float = 0.0
    """Without the present turn."""
    waited_seconds: float = 0.0
    """Without the present wait."""
    revoked_at: float = 0.0
    blocking: bool = False
    """It holds, and must leave for the first waiter."""
    told: bool = False
    """The last TellWaiters to it said that somebody waits for it."""
    killed: bool = False
    """A Kill of it was asked for."""
    swap: Swap | None = None
    """None: its memory does not swap."""
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
            footprint_bytes=self.account.footprint_bytes,
            pinned_bytes=self.account.pinned_bytes,
            pinned_measured=self.account.pinned_measured,
            held_seconds=self.held_seconds + (elapsed if self.holds else 0.0),
            waited_seconds=self.waited_seconds + (elapsed if self.state is ClientState.WAITING else 0.0),
            grants=self.grants,
            line=line,
            swap=None if self.swap is None else self.swap.snapshot(),
        )


class Group:
    """Some holders in order, with the sum of their movable memory. Every operation takes constant time."""

    __slots__ = ("_clients", "changes", "count", "movable_bytes", "paging_bytes", "unknown")

    def __init__(self) -> None:
        self._clients: OrderedDict[int, Client] = OrderedDict()
        self.count = 0
        self.movable_bytes = 0
        self.paging_bytes = 0
        """Of the movable memory, that of clients that do not swap."""
        self.unknown = 0
        """How many of them do not report their footprint."""
        self.changes = 0
        """Counts up whenever a client comes, goes or changes its footprint."""

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients.values())

    def __reversed__(self) -> Iterator[Client]:
        return reversed(self._clients.values())

    def __contains__(self, client: Client) -> bool:
        return client.number in self._clients

    def first(self) -> Client:
        """The first client; the group is not empty."""
        return next(iter(self))

    def last(self) -> Client:
        """The last client; the group is not empty."""
        return next(reversed(self))

    def append(self, client: Client) -> None:
        """Adds a client behind the others."""
        self._clients[client.number] = client
        self.count += 1
        self.add_bytes(client, 1)

    def prepend(self, client: Client) -> None:
        """Adds a client before the others."""
        self.append(client)
        self._clients.move_to_end(client.number, last=False)

    def remove(self, client: Client) -> None:
        """Takes a client out; it must be in."""
        del self._clients[client.number]
        self.count -= 1
        self.add_bytes(client, -1)

    def add_bytes(self, client: Client, sign: int) -> None:
        """Counts (1), or counts no more (-1), the memory of a client of the group: before and after that changes."""
        self.changes += 1
        account = client.account
        if account.is_known:
            self.movable_bytes += sign * account.movable_bytes
            if client.swap is None:
                self.paging_bytes += sign * account.movable_bytes
        else:
            self.unknown += sign
