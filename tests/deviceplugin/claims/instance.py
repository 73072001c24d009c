"""A driver as kubelet sees it: its sockets are served in a task of the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nvshare.deviceplugin.answers.allocation import DeviceListStrategy, Injection
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.claims.health import Health
from nvshare.deviceplugin.claims.registration import Registration, Timing
from nvshare.deviceplugin.claims.service import Service
from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.deviceplugin.metrics import Metrics
from tests.deviceplugin.claims.bench import GPU_A, NODE, NodeOfClaims

QUICK = Timing(poll=0.02, retry=0.02, stop_grace=1.0)


class Instance:
    """A driver that serves, in a task of the test."""

    def __init__(self, node: NodeOfClaims, root: Path, wait_seconds: float = 0.0) -> None:
        self.claims: Claims = node.start()
        self.metrics = Metrics(lambda: 0)
        self.inventory = Inventory()
        self.inventory.publish(Snapshot((Offer(GPU_A, 10),)))
        log = self.claims._log
        injection = Injection(Path("/lib"), Path("/client"), frozenset({DeviceListStrategy.CDI_CRI}))
        self.registration = Registration(
            root,
            lambda: Service(self.claims, NODE, injection, self.metrics, log),
            lambda: Health(self.inventory, NODE),
            self.metrics,
            log,
            QUICK,
            wait_seconds,
        )
        self.task = asyncio.create_task(self.registration.run())

    async def stop(self) -> None:
        self.registration.stop()
        await self.task
