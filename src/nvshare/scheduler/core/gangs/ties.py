"""Who says which keys, and who belongs together because of that."""

from __future__ import annotations

from typing import Final

from nvshare.scheduler.core.events import GangJoined
from nvshare.scheduler.core.gangs.roll import Roll

MOST_KEYS: Final = 256
"""Of one client. A program makes a communicator for each way in which its work is split: some tens."""


class Ties:
    """The keys of all clients."""

    def __init__(self) -> None:
        self._clients: dict[str, dict[int, int]] = {}
        """By key: who says it, and how many belong together by what each says; 0: it does not know."""
        self._keys: dict[int, dict[str, str]] = {}
        """By client: its keys, each with the name that the user gave it."""
        self._rolls: dict[str, Roll] = {}
        """Of the keys that users gave."""

    def are_there(self) -> bool:
        """Whether anybody says a key."""
        return bool(self._clients)

    def has(self, client: int, key: str) -> bool:
        """Whether a client says a key."""
        return key in self._keys.get(client, ())

    def count(self, client: int) -> int:
        """How many keys a client says."""
        return len(self._keys.get(client, ()))

    def join(self, event: GangJoined) -> None:
        """A client says a key, maybe once more."""
        self._clients.setdefault(event.key, {})[event.client] = event.size
        self._keys.setdefault(event.client, {})[event.key] = event.name
        if event.process:
            self._rolls.setdefault(event.key, Roll()).join(event)

    def leave(self, client: int, key: str) -> None:
        """A client does not say a key any more; it did."""
        del self._keys[client][key]
        if not self._keys[client]:
            del self._keys[client]
        del self._clients[key][client]
        if key in self._rolls:
            self._rolls[key].processes.pop(client, None)
        if not self._clients[key]:
            del self._clients[key]
            self._rolls.pop(key, None)

    def leave_all(self, client: int) -> None:
        """A client says nothing any more."""
        for key in list(self._keys.get(client, ())):
            self.leave(client, key)

    def together(self, client: int) -> list[int]:
        """All that are tied to a client, directly or not, itself included; in the order of their numbers."""
        found = {client}
        open_ends = [client]
        seen: set[str] = set()
        while open_ends:
            for key in self._keys.get(open_ends.pop(), ()):
                if key not in seen:
                    seen.add(key)
                    fresh = self._clients[key].keys() - found
                    found |= fresh
                    open_ends += sorted(fresh)
        return sorted(found)

    def name(self, clients: list[int]) -> str:
        """The name that a user gave to what ties these clients; empty: none."""
        return min((name for client in clients for name in self._keys[client].values() if name), default="")

    def size_said(self, key: str) -> int:
        """How many processes say a key as the first user said; 0: none did."""
        return self._rolls[key].size if key in self._rolls else 0

    def lacks(self, key: str) -> bool:
        """Whether processes that say a key, as a user said, were never here."""
        return key in self._rolls and self._rolls[key].lacks

    def missing(self, clients: list[int]) -> tuple[int, int]:
        """How many processes have come, and how many there must be before any of these may hold; (0, 0): all have."""
        rolls = [self._rolls[key] for key in self._all_keys(clients) if self.lacks(key)]
        return min(((roll.come, roll.size) for roll in rolls), default=(0, 0))

    def are_uncounted(self, clients: list[int]) -> bool:
        """Whether a name ties these, and no user said how many processes say it."""
        sizes = [self._rolls[key].size for key in self._all_keys(clients) if key in self._rolls]
        return bool(sizes) and not any(sizes)

    def elsewhere(self, clients: list[int]) -> int:
        """How many more than these belong together, as far as they know."""
        return max(0, *(max(sizes.values()) - len(sizes) for sizes in self._sizes(clients)))

    def may_lack(self, clients: list[int]) -> bool:
        """Whether more than these may belong together."""
        return any(max(sizes.values()) == 0 or max(sizes.values()) > len(sizes) for sizes in self._sizes(clients))

    def _sizes(self, clients: list[int]) -> list[dict[int, int]]:
        return [self._clients[key] for key in self._all_keys(clients)]

    def _all_keys(self, clients: list[int]) -> dict[str, None]:
        return dict.fromkeys(key for client in clients for key in self._keys[client])
