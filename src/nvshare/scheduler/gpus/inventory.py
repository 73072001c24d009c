"""The node's GPUs, and those that NVML shows only later: its driver may be installed after the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nvshare.log import Log
from nvshare.scheduler.core.events import DeviceSeen
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import names, queries
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Discovery, Gpu

_SHORTEST_SECONDS = 5.0
"""Between two looks, whoever asks: clients can invent devices."""
_LONGEST_SECONDS = 60.0
"""Between two looks while NVML shows nothing, or some GPU is lost."""

Discover = Callable[[bool], Discovery]
"""See ``queries.discover``."""


@dataclass(frozen=True, slots=True)
class KnownGpus:
    """The GPUs that NVML has shown so far; an inventory adds to them."""

    by_bytes: dict[bytes, Gpu]
    """By the 16 bytes by which clients name them."""
    by_uuid: dict[str, Gpu]
    """By the name under which the scheduler knows them."""

    @staticmethod
    def of(found: Mapping[bytes, Gpu]) -> KnownGpus:
        """Those that were there from the start."""
        return KnownGpus(dict(found), {gpu.uuid: gpu for gpu in found.values()})

    def cpus_near(self, name: str) -> frozenset[int]:
        """See ``Gpu.cpus``; by the name under which the scheduler knows it, if it is one of these."""
        gpu = self.by_uuid.get(name)
        return frozenset() if gpu is None else gpu.cpus


class Inventory:
    """Asks NVML again: every minute while a GPU may be missing, and soon when a client names one that it never showed.

    NVML is asked in a worker; while an answer is outstanding nothing more is asked.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        nvml: NvmlWatch,
        dispatcher: Dispatcher,
        known: KnownGpus,
        log: Log,
        discover: Discover = queries.discover,
    ) -> None:
        self._loop = loop
        self._nvml = nvml
        self._dispatcher = dispatcher
        self._known = known
        self._log = log
        self._discover = discover
        self._asking = False
        self._wanted = False
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def find(self, device_uuid: bytes) -> Gpu | None:
        """The GPU with these bytes; if NVML has not shown it, it is asked again soon."""
        gpu = self._known.by_bytes.get(device_uuid)
        if gpu is None and not self._wanted:
            self._wanted = True
            if not self._asking:
                self._wait()
        return gpu

    def shows(self, name: str) -> bool:
        """Whether NVML has shown a GPU that the scheduler knows by this name."""
        return name in self._known.by_uuid

    def all(self) -> list[Gpu]:
        """Every GPU that NVML has shown."""
        return list(self._known.by_bytes.values())

    def stop(self) -> None:
        """Asks no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = _SHORTEST_SECONDS if self._wanted else _LONGEST_SECONDS
        self._timer = self._loop.call_later(seconds, self._ask)

    def _ask(self) -> None:
        self._timer = None
        anew = self._nvml.lacks_gpus
        if not (self._wanted or anew):
            self._wait()
            return
        self._asking, self._wanted = True, False
        self._nvml.submit(lambda: self._discover(anew), self._answered)

    def _answered(self, found: Discovery) -> None:
        self._asking = False
        self._nvml.heard(found)
        for device_uuid, gpu in queries.by_bytes(found.gpus).items():
            if device_uuid not in self._known.by_bytes:
                self._add(device_uuid, gpu)
        self._wait()

    def _add(self, device_uuid: bytes, gpu: Gpu) -> None:
        devices = self._dispatcher.devices
        if gpu.uuid not in devices and names.gpu_name(device_uuid) in devices:
            # One device must not have two locks: its clients go on under the name that they made up for it.
            gpu = replace(gpu, uuid=names.gpu_name(device_uuid))
        self._known.by_bytes[device_uuid] = gpu
        self._known.by_uuid[gpu.uuid] = gpu
        self._log.info("NVML shows a GPU now", device=gpu.uuid, product=gpu.product)
        self._dispatcher.feed(DeviceSeen(gpu.uuid, gpu.total_bytes))
