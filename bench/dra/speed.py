"""How fast pods are placed whose claims all fit."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from bench.dra import objects
from bench.dra.cluster import Cluster, Look, running
from bench.dra.objects import WHOLE, Document, MadeUpNode
from nvshare.deviceplugin.claims import slices
from nvshare.deviceplugin.claims.capacities import Capacities
from nvshare.dra import DRIVER

_SPARE: Final = 1.1
"""So many times as many whole devices as there are claims: the last ones are not hard to find either."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How pods of one driver's claims were placed."""

    looks: Sequence[Look]
    devices: int
    slice_bytes: Sequence[int]
    """Of each node's slice, as the server answers with it."""

    @property
    def placed(self) -> int:
        return self.looks[-1].placed

    def rate(self, first: int, last: int) -> float:
        """Pods a second, from this many to that many."""
        return (last - first) / (self._when(last) - self._when(first))

    def scheduler_seconds(self, last: int) -> float:
        """Of processor time for each pod, up to this many; start-up counts."""
        end = self._at(last)
        return end.scheduler_seconds / end.placed

    def api_seconds(self, last: int) -> float:
        """The API server's for each pod, without what making the objects took."""
        end = self._at(last)
        return (end.api_seconds - self.looks[0].api_seconds) / end.placed

    def _when(self, count: int) -> float:
        """Pods are taken for placed evenly between two looks; the first comes after the last look without any."""
        before, after = next(
            (before, after) for before, after in pairwise(self.looks) if after.placed > 0 and after.placed >= count
        )
        return before.at + (after.at - before.at) * (count - before.placed) / (after.placed - before.placed)

    def _at(self, count: int) -> Look:
        return next(look for look in self.looks if look.placed >= count)


async def of_memory(made: Sequence[MadeUpNode], sizes: Sequence[int], rate: int, seconds: float) -> Speed:
    """Claims of memory, with the driver's slices."""
    async with running() as cluster:
        nodes = await cluster.add_nodes(made, DRIVER)
        documents = [_of_driver(node, each) for node, each in zip(nodes, made, strict=True)]
        return await _speed(cluster, DRIVER, documents, sizes, rate, seconds)


async def of_whole_devices(made: Sequence[MadeUpNode], sizes: Sequence[int], rate: int, seconds: float) -> Speed:
    """Claims of a device each, on the same nodes with enough devices."""
    gpus = sum(len(each.gpus) for each in made)
    times = math.ceil(len(sizes) * _SPARE / gpus)
    async with running() as cluster:
        nodes = await cluster.add_nodes(made, WHOLE)
        documents = [
            objects.whole_slice(node, each.gpus, each.kind, times) for node, each in zip(nodes, made, strict=True)
        ]
        return await _speed(cluster, WHOLE, documents, sizes, rate, seconds)


async def _speed(
    cluster: Cluster, driver: str, documents: Sequence[Document], sizes: Sequence[int], rate: int, seconds: float
) -> Speed:
    stored = await cluster.add_slices(documents)
    await cluster.add_pods(driver, sizes)
    looks = await cluster.schedule(rate, len(sizes), seconds)
    devices = sum(len(each["spec"]["devices"]) for each in documents)
    return Speed(looks, devices, [objects.size(each) for each in stored])


def _of_driver(node: slices.Node, made: MadeUpNode) -> Document:
    """What the driver publishes after it has heard the node's scheduler once."""
    status = made.status(random.Random(0))
    capacities = Capacities(lambda: status, 1.0, time.monotonic)
    capacities.bring_up_to_date(made.shares)
    return slices.resource_slice(node, made.devices(capacities), 1, None)
