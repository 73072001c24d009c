"""What NVML is asked: the node's GPUs and what is in their memory. Everything here may block: call it in a worker."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml  # type: ignore[import-untyped]

from nvshare import nvml
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.gpus.names import device_bytes


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or a MIG device of one."""

    uuid: str
    product: str
    total_bytes: int
    index: str = ""
    """As nvidia-smi counts: ``0``, or ``0:1`` for MIG device 1 of GPU 0."""

    def place(self) -> tuple[int, ...]:
        """The index as numbers, which can be compared."""
        return tuple(int(part) for part in self.index.split(":") if part)


def discover() -> tuple[Gpu, ...] | None:
    """Every GPU, a split one as its MIG devices; None where there is no NVML."""
    try:
        pynvml.nvmlInit()
        return tuple(gpu for index, handle in enumerate(nvml.gpus()) for gpu in _gpus_of(handle, index))
    except pynvml.NVMLError:
        return None


def usage(uuid: str) -> Usage | None:
    """The memory of a device, by ``Gpu.uuid``; None where NVML does not say it. ``discover`` has found it before."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        return None
    return Usage(memory.total, memory.used, {process.pid: process.usedGpuMemory for process in running})


def _gpus_of(handle: Any, index: int) -> list[Gpu]:
    return [_gpu(mig, f"{index}:{place}") for place, mig in _mig_devices(handle)] or [_gpu(handle, str(index))]


def _mig_devices(handle: Any) -> list[tuple[int, Any]]:
    found = []
    with suppress(pynvml.NVMLError):
        for place in nvml.mig_places(handle) or ():
            # One that fails concerns no other.
            with suppress(pynvml.NVMLError):
                found.append((place, nvml.mig_device(handle, place)))
    return [(place, mig) for place, mig in found if mig is not None]


def _gpu(handle: Any, index: str) -> Gpu:
    return Gpu(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        product=_text(pynvml.nvmlDeviceGetName(handle)),
        total_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        index=index,
    )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def by_bytes(gpus: Iterable[Gpu]) -> dict[bytes, Gpu]:
    """The GPUs by the 16 bytes by which clients name them; one whose UUID has another form is left out."""
    found = {}
    for gpu in gpus:
        try:
            found[device_bytes(gpu.uuid)] = gpu
        except ValueError:
            continue
    return found
