"""What is left of GPUs when no more claims of memory can be placed, and what their slices cost meanwhile."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from bench.dra.cluster import CLAIMS, Cluster, Look, running
from bench.dra.objects import GIB, Document, MadeUpNode
from bench.dra.packing import Bin, Left, best_fit, left
from nvshare.deviceplugin.claims import slices
from nvshare.deviceplugin.claims.capacities import Capacities
from nvshare.deviceplugin.claims.publisher import Publisher
from nvshare.deviceplugin.claims.quantity import whole
from nvshare.dra import DRIVER
from nvshare.kubernetes.api_server import ApiServer
from nvshare.log import Log, LogFormat, LogLevel, opened_log
from tests.polling import until

_OFFER_SECONDS: Final = 0.5
"""As often as the driver looks at what it offers."""
_PUBLISH_SECONDS: Final = 120.0
_WRITES: Final = {"resource": "resourceslices", "verb": "POST|PUT|PATCH|DELETE|APPLY"}


@dataclass(frozen=True, slots=True)
class Filled:
    """Nodes that were filled."""

    gpus: int
    memory_bytes: int
    looks: Sequence[Look]
    left: Left
    best: Left
    """What best fit leaves of the same GPUs, by the same claims in the same order."""
    first_writes: int
    """Of slices, until all were there."""
    more_writes: int
    """Since then, by nobody: nothing that they say has changed."""
    seconds: float
    """For which that was counted."""


async def filled(made: Sequence[MadeUpNode], sizes: Sequence[int], rate: int, seconds: float, still: float) -> Filled:
    """Places claims of so many GiB until none fits, and waits ``still`` seconds more; RuntimeError where all fit."""
    async with running() as cluster:
        await cluster.add_nodes(made, DRIVER)
        async with _publishing(cluster, made):
            published, began = await _writes(cluster), time.monotonic()
            documents = await cluster.api.list_all(slices.PATH)
            await cluster.add_pods(DRIVER, sizes)
            looks = await cluster.schedule(rate, len(sizes), seconds)
            await asyncio.sleep(still)
            writes, ended = await _writes(cluster), time.monotonic()
            claims = await cluster.api.list_all(CLAIMS)
    bins = _bins(documents)
    memory = sum(each.free_bytes for each in bins.values())
    best = best_fit(list(_bins(documents).values()), [size * GIB for size in sizes])
    pending = _place(bins, claims)
    if not pending or not best.pending:
        raise RuntimeError("all claims fit: take more, or fewer nodes")
    found = left(list(bins.values()), len(claims) - len(pending), pending)
    return Filled(len(bins), memory, looks, found, best, published, writes - published, ended - began)


@asynccontextmanager
async def _publishing(cluster: Cluster, made: Sequence[MadeUpNode]) -> AsyncIterator[None]:
    """The driver's own publisher for each node, from when all slices are there."""
    with opened_log(LogFormat.TEXT, LogLevel.WARNING, sys.stderr) as (log, _):
        ready = [asyncio.Event() for _ in made]
        tasks = [
            asyncio.create_task(_publish(cluster, each, log, event)) for each, event in zip(made, ready, strict=True)
        ]
        try:
            await until(lambda: all(event.is_set() for event in ready), "all slices are there", _PUBLISH_SECONDS)
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [each for each in ended if isinstance(each, Exception)]
        if failed:
            raise failed[0]


async def _publish(cluster: Cluster, made: MadeUpNode, log: Log, ready: asyncio.Event) -> None:
    """As the driver does it, by a scheduler that says something else each time that makes no difference."""
    dice = random.Random(made.name)
    capacities = Capacities(lambda: made.status(dice), 1.0, time.monotonic)
    publisher = Publisher(ApiServer(cluster.plane.account, lambda _: None), made.name, log, lambda _: None)
    running_publisher = asyncio.create_task(publisher.run())
    try:
        while not running_publisher.done():
            capacities.bring_up_to_date(made.shares)
            publisher.offer(made.devices(capacities))
            if publisher.published:
                ready.set()
            await asyncio.sleep(_OFFER_SECONDS)
        running_publisher.result()
    finally:
        running_publisher.cancel()
        with suppress(asyncio.CancelledError):
            await running_publisher


async def _writes(cluster: Cluster) -> int:
    """How many writes of slices there were."""
    return int((await cluster.plane.api_metrics()).sum("apiserver_request_total", _WRITES))


def _bins(documents: Sequence[Document]) -> dict[tuple[str, str], Bin]:
    """The GPUs of slices, empty, by pool and name."""
    return {
        (document["spec"]["pool"]["name"], device["name"]): Bin(
            whole(device["capacity"]["memory"]["value"]), whole(device["capacity"]["shares"]["value"])
        )
        for document in documents
        for device in document["spec"]["devices"]
    }


def _place(bins: dict[tuple[str, str], Bin], claims: Sequence[Document]) -> list[int]:
    """Puts claims where Kubernetes has put them; the sizes of those that are nowhere. ValueError: one does not fit."""
    pending = []
    for claim in claims:
        [request] = claim["spec"]["devices"]["requests"]
        allocation = claim.get("status", {}).get("allocation")
        if allocation is None:
            pending.append(whole(request["exactly"]["capacity"]["requests"]["memory"]))
            continue
        [result] = allocation["devices"]["results"]
        bins[result["pool"], result["device"]].take(whole(result["consumedCapacity"]["memory"]))
    return pending
