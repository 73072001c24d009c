"""NVML as a test sets it: which GPUs there are, how they answer, which errors they report."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.health import Xid
from nvshare.deviceplugin.gpus.nvml import NvmlError
from nvshare.nvml_state import NvmlState, lost


class FakeNvml:
    """Stands for the driver; ``open`` gives the library, as often as it is asked for."""

    def __init__(self, *uuids: str) -> None:
        self.uuids = list(uuids)
        self.absent: str | None = None
        self.absent_state = NvmlState.DRIVER_NOT_LOADED
        self.lost: dict[str, str] = {}
        """GPUs that it does not give, and what it says of them."""
        self.sick: dict[str, str] = {}
        self.events: queue.Queue[Xid | NvmlError] = queue.Queue()
        self.events_supported = True
        # While it is not set, a probe hangs in the driver; ``hangs`` is set when one does.
        self.answers = threading.Event()
        self.answers.set()
        self.hangs = threading.Event()
        # While it is not set, NVML does not open.
        self.opens = threading.Event()
        self.opens.set()
        self.opened = 0
        self.closed = 0

    def open(self) -> FakeLibrary:
        self.opens.wait()
        if self.absent is not None:
            raise NvmlError(self.absent, self.absent_state)
        self.opened += 1
        return FakeLibrary(self)


class FakeLibrary:
    """As ``nvml.Nvml``."""

    def __init__(self, driver: FakeNvml) -> None:
        self._driver = driver

    def scan(self) -> tuple[tuple[Gpu, ...], Mapping[str, str]]:
        if self._driver.absent is not None:
            raise NvmlError(self._driver.absent, self._driver.absent_state)
        absent, all_gpus = dict(self._driver.lost), [Gpu(uuid, str(at)) for at, uuid in enumerate(self._driver.uuids)]
        found = tuple(gpu for gpu in all_gpus if gpu.uuid not in absent)
        return found, {gpu.index: absent[gpu.uuid] for gpu in all_gpus if gpu.uuid in absent}

    def probe(self, gpu: Gpu) -> str | None:
        if not self._driver.answers.is_set():
            self._driver.hangs.set()
            self._driver.answers.wait()
        if (reason := self._driver.lost.get(gpu.uuid)) is not None:
            return lost(reason)
        return self._driver.sick.get(gpu.uuid)

    def watch(self, gpus: Sequence[Gpu]) -> FakeEvents:
        if not self._driver.events_supported:
            raise NvmlError("Not Supported")
        return FakeEvents(self._driver)

    def close(self) -> None:
        self._driver.closed += 1


class FakeEvents:
    """As ``nvml.XidEvents``."""

    silent: Sequence[str] = ()

    def __init__(self, driver: FakeNvml) -> None:
        self._driver = driver

    def wait(self, seconds: float) -> Xid | None:
        try:
            event = self._driver.events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, NvmlError):
            raise event
        return event

    def close(self) -> None:
        """Nothing is held."""
