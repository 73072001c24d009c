"""Instances of the plugin beside a kubelet: each one's lifecycle, in a task of the test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from structlog.testing import CapturingLogger

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.answers.preference import AllocationPolicy
from nvshare.deviceplugin.answers.requests import Rules
from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.deviceplugin.kubelet.inventory import Inventory, Part
from nvshare.deviceplugin.kubelet.lifecycle import Lifecycle, Timing
from nvshare.deviceplugin.kubelet.servicer import Servicer
from nvshare.deviceplugin.metrics import Metrics
from tests.polling import until

QUICK = Timing(
    poll=0.05,
    quick_poll=0.01,
    no_stream=60.0,
    register=5.0,
    first_retry=0.1,
    longest_retry=0.4,
    stop_grace=0.5,
    settle=0.1,
)
"""A kubelet that is slow because the machine is busy is waited for."""
IMPATIENT = replace(QUICK, no_stream=0.2)
SNAPSHOT = Snapshot((Offer("GPU-a", 10), Offer("GPU-b", 10)))
RESOURCE = "nvshare.com/gpu"
LOCK = "nvshare.com-gpu.lock"
NEXT_LOCK = "nvshare.com-gpu.next.lock"


@dataclass
class Instance:
    """One plugin's lifecycle, running in a task."""

    folder: Path
    name: str = "one"
    timing: Timing = QUICK
    inventory: Inventory = field(default_factory=Inventory)
    logged: CapturingLogger = field(default_factory=CapturingLogger)
    servicers: list[Servicer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inventory.publish(SNAPSHOT)
        self.metrics = Metrics(int)
        self.lifecycle = Lifecycle(
            self.folder, RESOURCE, self.name, self.new_servicer, self.metrics, self.logged, timing=self.timing
        )
        self.task = asyncio.create_task(self.lifecycle.run())

    async def new_servicer(self) -> Servicer:
        injection = Injection(Path("/var/lib/nvshare/x"), Path("/var/run/nvshare/client"))
        servicer = Servicer(
            Part(self.inventory, RESOURCE),
            Rules(RESOURCE),
            injection,
            lambda: None,
            frozenset,
            AllocationPolicy.SPREAD,
            self.metrics,
            self.logged,
        )
        self.servicers.append(servicer)
        return servicer

    async def stop(self) -> None:
        self.lifecycle.stop()
        async with asyncio.timeout(10):
            await asyncio.wait({self.task})
        if not self.task.cancelled():
            self.task.result()

    def sockets(self) -> list[str]:
        return [path.name for path in self.folder.glob("nvshare-*.sock")]

    async def is_ready(self) -> None:
        await until(lambda: self.lifecycle.ready, f"{self.name} is ready")

    async def has_followed(self) -> None:
        """Waits until it has registered its second socket as well."""
        done = "registered with kubelet"
        await until(lambda: [call.args for call in self.logged.calls].count((done,)) == 2, f"{self.name} serves alone")

    def said(self, words: str) -> bool:
        return any(words in f"{call.args} {call.kwargs}" for call in self.logged.calls)
