"""Who says which keys, and who belongs together because of that."""

from __future__ import annotations

from typing import Final

MOST_KEYS: Final = 256
"""Of one client. A program makes a communicator for each way in which its work is split: some tens."""


class Ties:
    """The keys of all clients."""

    def __init__(self) -> None:
        self._clients: dict[str, dict[int, int]] = {}
        """By key: who says it, and how many belong together by what each says; 0: it does not know."""
        self._keys: dict[int, dict[str, str]] = {}
        """By client: its keys, each with the name that the user gave it."""

    def has(self, client: int, key: str) -> bool:
        """Whether a client says a key."""
        return key in self._keys.get(client, ())

    def count(self, client: int) -> int:
        """How many keys a client says."""
        return len(self._keys.get(client, ()))

    def join(self, client: int, key: str, size: int, name: str) -> None:
        """A client says a key, maybe once more."""
        self._clients.setdefault(key, {})[client] = size
        self._keys.setdefault(client, {})[key] = name

    def leave(self, client: int, key: str) -> None:
        """A client does not say a key any more; it did."""
        del self._keys[client][key]
        if not self._keys[client]:
            del self._keys[client]
        del self._clients[key][client]
        if not self._clients[key]:
            del self._clients[key]

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

    def elsewhere(self, clients: list[int]) -> int:
        """How many more than these belong together, as far as they know."""
        return max((max(sizes.values()) - len(sizes) for sizes in self._sizes(clients)), default=0)

    def may_lack(self, clients: list[int]) -> bool:
        """Whether more than these may belong together."""
        return any(max(sizes.values()) == 0 or max(sizes.values()) > len(sizes) for sizes in self._sizes(clients))

    def _sizes(self, clients: list[int]) -> list[dict[int, int]]:
        keys = dict.fromkeys(key for client in clients for key in self._keys[client])
        return [self._clients[key] for key in keys]
