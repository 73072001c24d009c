"""The claims of this node while they are ours to see to: kubelet is answered, the scheduler told, leftovers swept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from nvshare.deviceplugin.claims.claim import Document
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.claims.health import Health
from nvshare.deviceplugin.claims.link import ClaimsLink
from nvshare.deviceplugin.claims.place import Place
from nvshare.deviceplugin.claims.registration import Registration
from nvshare.deviceplugin.claims.service import Service
from nvshare.deviceplugin.claims.sweep import Sweep
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.deviceplugin.metrics import Metrics
from nvshare.log import Log

_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the node's GPUs, and of claims, by others."""

    get_claim: Callable[[str, str], Awaitable[Document]]
    """The ResourceClaim of a namespace and a name; ApiError."""
    claim_to_prepare: Callable[[str, str], Awaitable[Document]]
    """The same, for one that kubelet wants prepared; ApiError, too, where none is prepared any more."""
    inventory: Inventory
    """The GPUs that the node offers."""
    own_bytes: Callable[[str], int | None]
    """What a GPU itself has for claims; None: that is not known."""
    held: Callable[[], Collection[str] | None]
    """The claims (NAMESPACE/NAME) that containers have; None: that is not known."""


class Session:
    """One time of that: from when no other instance does it until ``run`` is told to end."""

    def __init__(self, place: Place, known: Known, metrics: Metrics, log: Log, wait_seconds: float = 0.0) -> None:
        """``wait_seconds``: for so long kubelet finds no driver at first."""
        self.claims = Claims(
            place.records,
            place.node,
            known.claim_to_prepare,
            place.injection,
            place.cdi_dir,
            lambda uuid: known.inventory.snapshot.nodes(uuid),
            lambda: {offer.uuid for offer in known.inventory.snapshot.offers},
            known.own_bytes,
            log,
        )
        self._metrics = metrics
        self.registration = Registration(
            place.kubelet_root,
            lambda: Service(self.claims, place.node, place.injection, metrics, log),
            lambda: Health(known.inventory, place.node),
            metrics,
            log,
            wait_seconds=wait_seconds,
        )
        self.link = ClaimsLink(place.admin_socket, self.claims, log)
        self._sweep = Sweep(self.claims, place.node, known.get_claim, known.held, log)

    async def run(self, over: asyncio.Event) -> None:
        """Sees to them until it is over. OSError: the records can't be read."""
        await asyncio.to_thread(self.claims.load)
        serve = asyncio.create_task(self.registration.run())
        others = [asyncio.create_task(each) for each in (self.link.run(), self._sweep.run(), self._look())]
        end = asyncio.create_task(over.wait())
        try:
            # None of the others ends but by a bug.
            done, _ = await asyncio.wait({end, serve, *others}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.registration.stop()
            for task in (end, *others):
                task.cancel()
            await asyncio.gather(serve, end, *others, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            await asyncio.to_thread(self.claims.look)
            self._metrics.claims.set(len(self.claims.records))
            await asyncio.sleep(_LOOK_SECONDS)
