"""Claims that were prepared before the node changed to the plugin: their pods keep their terms, and can end.

kubelet asks the driver before a pod with a claim can be gone. No further claim is prepared. What kubelet never ended is
swept as the driver does it, by the API server: kubelet's list alone is no proof, as it has no claims of
pods that run on after kubelet has lost its state, and no pods while it waits for the API server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Never

from nvshare.deviceplugin.claims import slices
from nvshare.deviceplugin.claims.capacities import Capacities
from nvshare.deviceplugin.claims.claim import Document
from nvshare.deviceplugin.claims.place import Place
from nvshare.deviceplugin.claims.session import Known, Session
from nvshare.deviceplugin.claims.sweep import held_in
from nvshare.deviceplugin.node_side import NodeSide
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiError, ApiServer
from nvshare.log import Log

_LOOK_SECONDS = 1.0
_WAIT_SECONDS = 45.0
"""For so long kubelet finds no driver. It deletes the node's slices when it has found none for 30 s (the source of
1.36, ``cm/dra/manager.go``): else pods whose claims Kubernetes places here would never start."""
_NOBODY_ASKED = "neither a token nor --node-name is given to it where no configuration has allocation: dra"
_REFUSAL = "this node's GPUs are given out by the device plugin now (allocation: plugin): its claims are over"


class LeftoverClaims:
    """Sees to them while there are any."""

    def __init__(
        self, node: NodeSide, configuration: Configuration, place: Place, account: Account | None, log: Log
    ) -> None:
        """``account``: None: there is no token by which the API server could be asked, and nothing is swept."""
        self._inventory = node.inventory
        self._scheduler = node.scheduler
        self._metrics = node.metrics
        self._place = place
        self._log = log
        self._capacities = Capacities(node.scheduler.fresh, configuration.overcommit, time.monotonic)
        self._api = None if account is None or not configuration.node_name else ApiServer(account, _unheard)
        self._known = Known(
            get_claim=self._claim,
            claim_to_prepare=_refuse,
            inventory=self._inventory,
            own_bytes=self._capacities.own_bytes,
            held=lambda: held_in(node.scheduler.fresh()),
        )
        self._unread = ""
        """Why the records could not be read the last time; empty: they could."""

    async def see_to_them(self, serves: Callable[[], bool]) -> None:
        """Until the last has ended, or until we are no more the instance that ``serves`` this node."""
        self._log.info("claims of before are seen to until they end", folder=str(self._place.records))
        while serves() and await self._are_left():
            try:
                await self._one_session(serves)
            except OSError as error:
                before, self._unread = self._unread, str(error)
                if self._unread != before:
                    self._log.warning("the records of claims can't be read: trying again", reason=self._unread)
                await asyncio.sleep(_LOOK_SECONDS)
        self._metrics.claims.set(0)
        await self._tell_none(serves)

    async def _are_left(self) -> bool:
        return await asyncio.to_thread(self._place.has_records)

    async def _one_session(self, serves: Callable[[], bool]) -> None:
        """OSError: the records can't be read."""
        session, over = Session(self._place, self._known, self._metrics, self._log, _WAIT_SECONDS), asyncio.Event()
        running = asyncio.create_task(session.run(over))
        try:
            while serves() and not running.done() and await self._are_left():
                offers = self._inventory.snapshot.offers
                self._capacities.bring_up_to_date({offer.uuid: offer.virtual_devices for offer in offers})
                await asyncio.wait({running}, timeout=_LOOK_SECONDS)
                if self._unread and not running.done():
                    self._unread = ""
                    self._log.info("the records of claims can be read again")
        finally:
            over.set()
            await asyncio.wait({running})
        running.result()

    async def _tell_none(self, serves: Callable[[], bool]) -> None:
        """Until the scheduler shows none: it was away when the last one ended, or its record was removed by hand."""
        session = Session(self._place, self._known, self._metrics, self._log)
        telling = asyncio.create_task(session.link.run())
        try:
            while serves() and (session.link.problem or self._scheduler.has_claims()) and not await self._are_left():
                await asyncio.wait({telling}, timeout=_LOOK_SECONDS)
        finally:
            telling.cancel()
            await asyncio.wait({telling})

    async def _claim(self, namespace: str, name: str) -> Document:
        if self._api is None:
            raise ApiError(_NOBODY_ASKED)
        return await self._api.get(slices.claim_path(namespace, name))


async def _refuse(_namespace: str, _name: str) -> Never:
    raise ApiError(_REFUSAL)


def _unheard(_problem: str) -> None:
    """Who sweeps says it."""
