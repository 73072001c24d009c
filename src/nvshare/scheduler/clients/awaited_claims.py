"""Which of a client's claims nvshare's driver has still to tell of.

The node agent names all claims of a container, those of other drivers as well: a pod does not say whose they are.
Kubelet says it of claims that containers hold. It lists no init containers. What only these have is a claim of
nvshare's driver only if that tells of it: it tells all its claims again and again, and a claim is prepared before its
container starts. So one that two of its calls since the client came do not name is none of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nvshare.dra import DRIVER
from nvshare.scheduler.memberships import Memberships
from nvshare.scheduler.pods.allocations import Listed

_CALLS: Final = 2
"""The first may have been on its way when the client's claim was prepared."""


@dataclass(slots=True)
class _Client:
    calls: int
    """Of the driver's, before the client came."""
    asked: bool = False
    """Kubelet was asked since the client came."""
    heard: bool = False
    """And has answered."""


class AwaitedClaims:
    """Those of one scheduler. Kubelet's answers come from whoever asks it."""

    def __init__(self, memberships: Memberships) -> None:
        self._memberships = memberships
        self._clients: dict[int, _Client] = {}
        self._drivers: dict[str, frozenset[str]] = {}
        """Of the claims that kubelet lists."""
        self.news: list[Callable[[], None]] = []
        """Are called after kubelet answered."""

    def came(self, number: int) -> None:
        """A client was registered."""
        self._clients[number] = _Client(self._memberships.claim_calls)

    def left(self, number: int) -> None:
        """A client is gone, or waits for no claim any more."""
        self._clients.pop(number, None)

    def of(self, number: int) -> str:
        """The first claim, by its name NAMESPACE/NAME, that a client waits for; empty: it waits for none."""
        client = self._clients[number]
        return next((each for each in self._memberships.untold_claims(number) if self._awaits(client, each)), "")

    def asking(self) -> None:
        """Kubelet is about to be asked."""
        for client in self._clients.values():
            client.asked = True

    def answered(self, containers: Sequence[Listed]) -> None:
        """Kubelet's answer to that."""
        drivers: dict[str, frozenset[str]] = {}
        for claim, driver in (each for container in containers for each in container.claims):
            drivers[claim] = drivers.get(claim, frozenset()) | {driver}
        self._drivers = drivers
        for client in self._clients.values():
            client.heard |= client.asked
        for told in self.news:
            told()

    def _awaits(self, client: _Client, claim: str) -> bool:
        if (drivers := self._drivers.get(claim)) is not None:
            return DRIVER in drivers
        calls = self._memberships.claim_calls
        return not client.heard or 0 < calls < client.calls + _CALLS
