"""Forgets claims that kubelet never said were over, as one whose node lost its state does not.

A claim is over that the API server does not have any more, or that is allocated elsewhere, and that no container of the
node has. A damaged record does not say whose it is: it stays for a day, and while a container has a claim without a
record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.claim import ClaimError, Document, Record, is_of
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.kubernetes.api_server import NOT_FOUND, ApiError
from nvshare.log import Log

_SWEEP_SECONDS = 180.0
_DAMAGED_STAYS = timedelta(days=1)


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
        try:
            for record in tuple(self._claims.records.values()):
                if record.full_name not in held and await self._is_over(record):
                    self._log.warning(
                        "a claim is over that kubelet did not end", claim=record.full_name, uid=record.uid
                    )
                    await self._claims.unprepare(record.uid)
            if {record.full_name for record in self._claims.records.values()}.issuperset(held):
                await asyncio.to_thread(self._claims.forget_damaged, datetime.now(UTC) - _DAMAGED_STAYS)
        except (ApiError, ClaimError, OSError) as error:
            self._log.warning("what is left of claims can't be swept: trying again later", reason=str(error))

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
