"""A cluster of made-up nodes: a control plane, nodes that say they are ready, and what has been placed on them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.dra import objects
from bench.dra.api import Api, asking
from bench.dra.control_plane import ControlPlane
from bench.dra.objects import Document, MadeUpNode
from nvshare.deviceplugin.claims import slices

CLAIMS: Final = f"/apis/{slices.API_VERSION}/namespaces/{objects.NAMESPACE}/resourceclaims"
_CLASSES: Final = f"/apis/{slices.API_VERSION}/deviceclasses"
_NODES: Final = "/api/v1/nodes"
_PODS: Final = f"/api/v1/namespaces/{objects.NAMESPACE}/pods"
_HEARTBEAT_SECONDS: Final = 300.0
"""How often each node says that it is ready, as a kubelet does of which nothing has changed."""
_LOOK_SECONDS: Final = 0.5
_IDLE_LOOKS: Final = 20
"""After so many looks at which nothing was to be done the scheduler does nothing more."""


@dataclass(frozen=True, slots=True)
class Look:
    """How far the scheduler is, and what was used of processors until then."""

    at: float
    placed: int
    waiting: int
    """Pods that it has not tried yet, or will soon try again."""
    scheduler_seconds: float
    api_seconds: float


class Cluster:
    """One that runs."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self.plane = plane
        self.api = api
        self._nodes: list[slices.Node] = []

    async def add_nodes(self, made: Sequence[MadeUpNode], driver: str) -> list[slices.Node]:
        """Nodes, and the class of their GPUs; not what is in their slices."""
        now = _now()
        stored = await self.api.create_all(_NODES, (objects.node(each.name, now) for each in made))
        await self.api.create_all(_CLASSES, [objects.device_class(driver)])
        self._nodes = [slices.Node(each["metadata"]["name"], each["metadata"]["uid"]) for each in stored]
        return self._nodes

    async def add_slices(self, documents: Sequence[Document]) -> list[Document]:
        """As the server keeps them."""
        return await self.api.create_all(slices.PATH, documents)

    async def add_pods(self, driver: str, sizes: Sequence[int]) -> None:
        """Each with a claim of its own, of so many GiB."""
        names = [f"pod-{number:05}" for number in range(len(sizes))]
        claims = (objects.claim(name, driver, size) for name, size in zip(names, sizes, strict=True))
        await self.api.create_all(CLAIMS, claims)
        await self.api.create_all(_PODS, map(objects.pod, names))

    async def keep_ready(self) -> None:
        """Until cancelled."""
        while True:
            for each in list(self._nodes):
                await self.api.merge(f"{_NODES}/{each.name}/status", {"status": objects.ready(_now())})
                await asyncio.sleep(_HEARTBEAT_SECONDS / len(self._nodes))
            await asyncio.sleep(_LOOK_SECONDS)

    async def schedule(self, rate: int, count: int, seconds: float) -> list[Look]:
        """Starts the scheduler, until it has placed so many pods, has nothing to do, or has had so many seconds."""
        await self.plane.start_scheduler(rate)
        looks = [await self._look()]
        while len(looks) < 2 or not _is_over(looks, count, seconds):
            await asyncio.sleep(_LOOK_SECONDS)
            looks.append(await self._look())
        return looks

    async def _look(self) -> Look:
        metrics = await self.plane.scheduler_metrics()
        return Look(
            asyncio.get_running_loop().time(),
            int(metrics.sum("scheduler_schedule_attempts_total", {"result": "scheduled"})),
            int(metrics.sum("scheduler_pending_pods", {"queue": "active|backoff"})),
            self.plane.processor_seconds("kube-scheduler"),
            self.plane.processor_seconds("kube-apiserver"),
        )


@asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    """An empty cluster, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="nvshare-dra-") as folder:
        plane = ControlPlane(Path(folder))
        try:
            await plane.start()
            async with asking(plane) as api:
                cluster = Cluster(plane, api)
                ready = asyncio.create_task(cluster.keep_ready())
                try:
                    yield cluster
                finally:
                    ready.cancel()
                    with suppress(asyncio.CancelledError):
                        await ready
        finally:
            await asyncio.to_thread(plane.stop)


def _is_over(looks: Sequence[Look], count: int, seconds: float) -> bool:
    last = looks[-1]
    if last.placed >= count or last.at - looks[0].at >= seconds:
        return True
    recent = looks[-_IDLE_LOOKS:]
    still = all(each.waiting == 0 and each.placed == last.placed for each in recent)
    return still and len(recent) == _IDLE_LOOKS and last.placed > 0


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
