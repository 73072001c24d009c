"""Limits the connections, so that no process and no user can take all of them. Pure.

A process has one connection for each GPU that it uses, so a limit for a process hurts only those that want to hurt. A
user has no limit while there is room, since root may run all containers of a node. But a user with more than half of
all connections can't have the last ones. A connection that has not registered is nobody's yet: when there is no room,
one of these is closed for the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Connection = TypeVar("Connection", bound=Hashable)

_OF_A_PROCESS = 128
"""A node has at most 64 devices; a process that comes back may have each connection twice for a moment."""
_RESERVE_SHARE = 10
"""One of so many is kept for users who have less than half."""


class NoPlaceError(Exception):
    """There is no place for one more connection of a process; the message says why."""


class Room(Generic[Connection]):
    """All connections of one scheduler."""

    def __init__(self, most: int) -> None:
        self.most = most
        """How many there may be."""
        self._owners: dict[Connection, tuple[int, int]] = {}
        self._of_pid: Counter[int] = Counter()
        self._of_uid: Counter[int] = Counter()
        self._unregistered: dict[int, dict[Connection, None]] = {}
        """By pid, the oldest one first."""

    def __iter__(self) -> Iterator[Connection]:
        """Every connection."""
        return iter(tuple(self._owners))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._owners)

    @property
    def full(self) -> bool:
        """There is no place for anybody."""
        return self.count >= self.most and not self._unregistered

    @property
    def crowded(self) -> bool:
        """There is no place for the user with the most connections, or for anybody."""
        return self.count >= self._limit(max(self._of_uid.values(), default=0)) and not self._unregistered

    def make_place(self, pid: int, uid: int) -> Connection | None:
        """The connection, if any, that must go so that this process can have one more; NoPlaceError if it can't.

        ``pid`` is 0 for all processes that can't be told apart: those have no limit of their own.
        """
        if pid and self._of_pid[pid] >= _OF_A_PROCESS:
            raise NoPlaceError(f"its process has {_OF_A_PROCESS} connections already")
        limit = self._limit(self._of_uid[uid])
        if self.count < limit:
            return None
        if not self._unregistered:
            raise NoPlaceError(f"its user has {self._of_uid[uid]} of {self.most} connections")
        greediest = max(self._unregistered.values(), key=len)
        return next(iter(greediest))

    def _limit(self, of_user: int) -> int:
        """How many connections there may be for a user who has this many of them."""
        return self.most - self.most // _RESERVE_SHARE if of_user > self.most // 2 else self.most

    def add(self, connection: Connection, pid: int, uid: int) -> None:
        """A connection was accepted."""
        self._owners[connection] = pid, uid
        self._of_pid[pid] += 1
        self._of_uid[uid] += 1
        self._unregistered.setdefault(pid, {})[connection] = None

    def registered(self, connection: Connection) -> None:
        """A connection became a client."""
        pid, _uid = self._owners[connection]
        waiting = self._unregistered[pid]
        del waiting[connection]
        if not waiting:
            del self._unregistered[pid]

    def remove(self, connection: Connection) -> None:
        """A connection ended."""
        pid, uid = self._owners[connection]
        if connection in self._unregistered.get(pid, ()):
            self.registered(connection)
        del self._owners[connection]
        for counts, owner in ((self._of_pid, pid), (self._of_uid, uid)):
            counts[owner] -= 1
            if not counts[owner]:
                del counts[owner]
