"""What clients are parts of: all processes of one container count as one."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvshare.scheduler.core.terms import UNSET, Terms


@dataclass(slots=True, eq=False)
class Container:
    """One container, on all devices. A client that is in none has one of its own."""

    name: str
    """Empty: of a client that is in none."""
    terms: Terms = UNSET
    clients: set[int] = field(default_factory=set)

    def set_terms(self, terms: Terms) -> None:
        """These are its terms from now on."""
        self.terms = terms


class Containers:
    """Those that have clients, by name."""

    def __init__(self) -> None:
        self._containers: dict[str, Container] = {}

    def find(self, name: str) -> Container | None:
        """The container of this name; None: it has no clients."""
        return self._containers.get(name)

    def enter(self, client: int, name: str, terms: Terms) -> Container:
        """A client is in a container, of which these are the terms now."""
        container = self._containers.setdefault(name, Container(name)) if name else Container(name)
        container.set_terms(terms)
        container.clients.add(client)
        return container

    def leave(self, client: int, container: Container) -> None:
        """A client is not in its container any more."""
        container.clients.remove(client)
        if not container.clients:
            self._containers.pop(container.name, None)
