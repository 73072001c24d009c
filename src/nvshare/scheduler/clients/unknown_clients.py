"""Gives no memory to clients while it is not known what their containers may have.

A client is known when the container of its process is found. If that is a pod's, and pods may be annotated here, the
node agent must have told of the pod as well: a pod of which it has not told yet looks like one without annotations. If
the container has claims, nvshare's driver must have told of those that are its own (``awaited_claims``). A client that
is not known in time is refused memory until it is: an annotation or a claim may forbid what it would be given.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.clients.awaited_claims import AwaitedClaims
from nvshare.scheduler.clients.deadlines import Deadlines
from nvshare.scheduler.clients.registration import Registration
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.memberships import Memberships
from nvshare.scheduler.pods.description import Description

_DESCRIBED_SECONDS: Final = 60.0
"""In which it is found out who a client is, where nothing else is awaited. It takes milliseconds."""

_NOT_DESCRIBED: Final = "it is not found out yet in which container it is"
_NOT_TOLD: Final = "nvshare-node-agent has not told yet what its pod's annotations say"
_CLAIM_NOT_TOLD: Final = "nvshare-device-plugin has not told yet what claim {} may have"


@dataclass(slots=True)
class _Client:
    registration: Registration
    pod_uid: str | None = None
    """Of which the node agent must have told; None: it is not known yet."""
    wait: str = _NOT_DESCRIBED
    late: str = ""
    """What is added to that once it has taken too long."""


class UnknownClients:
    """Those of one scheduler."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        memberships: Memberships,
        claims: AwaitedClaims,
        await_annotations: float | None,
    ) -> None:
        """``claims``: which of a client's claims are awaited.

        ``await_annotations``: for how many seconds; None: nobody tells what annotations say.

        Needs a running event loop.
        """
        self._dispatcher = dispatcher
        self._memberships = memberships
        self._claims = claims
        self._awaits_annotations = await_annotations is not None
        self._seconds = await_annotations or _DESCRIBED_SECONDS
        self._clients: dict[int, _Client] = {}
        self._overdue = Deadlines[int](asyncio.get_running_loop(), self._seconds, self._expired)
        memberships.told.append(self._told)
        claims.news.append(self._told)

    def came(self, number: int, registration: Registration) -> None:
        """A client was registered. One of these is called later: its registration's ``known``, maybe after
        ``overdue``."""
        self._clients[number] = _Client(registration)
        self._claims.came(number)
        self._overdue.begin(number)

    def described(self, number: int, description: Description) -> None:
        """It is found out who a client is, and its container is known; the client may be gone."""
        client = self._clients.get(number)
        if client is None:
            return
        client.pod_uid = "" if description.place is None or not self._awaits_annotations else description.place.pod_uid
        self._judge(number, client)

    def left(self, number: int) -> None:
        """A client is gone."""
        self._clients.pop(number, None)
        self._claims.left(number)
        self._overdue.end(number)

    def _told(self) -> None:
        for number, client in list(self._clients.items()):
            if client.pod_uid is not None:
                self._judge(number, client)

    def _judge(self, number: int, client: _Client) -> None:
        if client.pod_uid and (wait := self._wait(number, client.pod_uid)):
            is_news, client.wait = wait != client.wait, wait
            self._show(number, f"{wait}{client.late}")
            if is_news and client.late:
                client.registration.overdue(f"{wait}{client.late}")
            return
        self.left(number)
        self._show(number, "")
        client.registration.known()

    def _wait(self, number: int, pod_uid: str) -> str:
        """What a client of a pod waits for; empty: nothing."""
        if not self._memberships.is_told_of(pod_uid):
            return _NOT_TOLD
        claim = self._claims.of(number)
        return _CLAIM_NOT_TOLD.format(claim) if claim else ""

    def _expired(self, number: int) -> None:
        client = self._clients[number]
        client.late = f", after {self._seconds:g} s"
        self._show(number, f"{client.wait}{client.late}")
        client.registration.overdue(f"{client.wait}{client.late}")

    def _show(self, number: int, wait: str) -> None:
        shown = self._dispatcher.clients[number]
        if shown.memory_wait != wait:
            shown.memory_wait = wait
            self._dispatcher.announce()
