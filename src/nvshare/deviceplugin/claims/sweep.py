"""Forgets claims that kubelet never said were over, as one whose node lost its state does not.

A claim is over that the API server does not have any more, or that is allocated elsewhere, and that no container of the
node has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.claim import ClaimError, Document, Record, is_of
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.kubernetes.api_server import NOT_FOUND, ApiError
from nvshare.log import Log

_SWEEP_SECONDS = 180.0


class Sweep:
    """Looks after the claims of one node."""

    def __init__(
        self,
        claims: Claims,
        node: str,
        get_claim: Callable[[str, str], Awaitable[Document]],
        held: Callable[[], Collection[str] | None],
        log: Log,
    ) -> None:
        """``held``: the claims (NAMESPACE/NAME) that containers of the node have; None: that is not known."""
        self._claims = claims
        self._node = node
        self._get_claim = get_claim
        self._held = held
        self._log = log

    async def run(self) -> None:
        """Sweeps again and again, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """Looks at each claim once. While something is not known nothing is forgotten."""
        held = self._held()
        if held is None:
            return
        for record in tuple(self._claims.records.values()):
            if record.full_name in held:
                continue
            try:
                if await self._is_over(record):
                    self._log.warning(
                        "a claim is over that kubelet did not end", claim=record.full_name, uid=record.uid
                    )
                    await self._claims.unprepare(record.uid)
            except (ApiError, ClaimError) as error:
                self._log.warning("what is left of claims can't be swept: trying again later", reason=str(error))
                return

    async def _is_over(self, record: Record) -> bool:
        try:
            document = await self._get_claim(record.namespace, record.name)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return True
            raise
        return not is_of(document, record.uid, self._node)


def held_in(status: admin_pb2.Status | None) -> frozenset[str] | None:
    """The claims that containers have, as kubelet told a scheduler; None: it does not say."""
    if status is None or not status.knows_allocations:
        return None
    return frozenset(each.claim for device in status.devices for each in device.allocations if each.claim)
