"""What NVML is asked: the node's GPUs and what is in their memory. Everything here may block: call it in a worker."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml  # type: ignore[import-untyped]

from nvshare import nvml
from nvshare.device_uuid import device_bytes
from nvshare.nvml_state import NvmlState
from nvshare.scheduler.gpus.memory import Usage

_WORD_BITS: Final = 8 * ctypes.sizeof(ctypes.c_ulong)
"""Of the words in which NVML says a set of CPUs."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or a MIG device of one."""

    uuid: str
    product: str
    total_bytes: int
    """0: it has none of its own."""
    index: str = ""
    """As nvidia-smi counts: ``0``, or ``0:1`` for MIG device 1 of GPU 0."""
    cpus: frozenset[int] = frozenset()
    """Those of the NUMA node that it hangs on; none: nobody says it."""

    def place(self) -> tuple[int, ...]:
        """The index as numbers, which can be compared."""
        return tuple(int(part) for part in self.index.split(":") if part)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What NVML answered when it was asked for the GPUs."""

    state: NvmlState
    gpus: tuple[Gpu, ...] = ()
    reason: str = ""
    """Why there is no NVML."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """What it says of GPUs that it does not give, by index."""


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """NVML does not say a device's memory."""

    reason: str
    state: NvmlState
    """OK: the device has no memory of its own, or NVML does not know it by this name. ERROR: it is lost."""


def discover(anew: bool = True) -> Discovery:
    """Every GPU, a split one as its MIG devices.

    ``anew``: NVML begins anew, which may take seconds; only then it finds a GPU that was lost and is back. It has to
    the first time, and until it has shown GPUs.
    """
    try:
        if anew:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
            pynvml.nvmlInit()
        gpus, failed = nvml.scan(_gpus_of)
    except pynvml.NVMLError as error:
        return Discovery(nvml.state_of(error), reason=str(error))
    return Discovery(NvmlState.OK if gpus or failed else NvmlState.NO_GPU, tuple(gpus), failed=failed)


def usage(uuid: str) -> Usage | Unmeasured:
    """The memory of a device, by ``Gpu.uuid``. ``discover`` has found it before."""
    try:
        handle = nvml.handle(uuid)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        running = nvml.running(handle)
    except (
        pynvml.NVMLError_NotSupported,
        pynvml.NVMLError_NotFound,
        pynvml.NVMLError_FunctionNotFound,
    ) as error:
        return Unmeasured(str(error), NvmlState.OK)
    except pynvml.NVMLError as error:
        return Unmeasured(str(error), nvml.state_of(error))
    # Whatever the driver says, nobody has more than there is.
    used = min(memory.used, memory.total)
    return Usage(memory.total, used, {process.pid: process.usedGpuMemory for process in running})


def _gpus_of(number: int, handle: Any, failed: dict[str, str]) -> list[Gpu]:
    split = False
    found = []
    for place in nvml.mig_places(handle) or ():
        index = f"{number}:{place}"
        try:
            mig = nvml.mig_device(handle, place)
            if mig is not None:
                split = True
                found.append(_gpu(mig, index, handle))
        except pynvml.NVMLError as error:
            split = True
            failed[index] = str(error)
    return found if split else [_gpu(handle, str(number), handle)]


def _gpu(handle: Any, index: str, whole: Any) -> Gpu:
    """``whole``: the GPU itself, where this is a MIG device."""
    return Gpu(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        product=_text(pynvml.nvmlDeviceGetName(handle)),
        total_bytes=_total_bytes(handle),
        index=index,
        cpus=_cpus_near(whole),
    )


def _cpus_near(handle: Any) -> frozenset[int]:
    try:
        words = pynvml.nvmlDeviceGetCpuAffinity(handle, -(-os.sysconf("SC_NPROCESSORS_CONF") // _WORD_BITS))
    except pynvml.NVMLError:
        return frozenset()
    return frozenset(cpu for cpu in range(len(words) * _WORD_BITS) if words[cpu // _WORD_BITS] >> cpu % _WORD_BITS & 1)


def _total_bytes(handle: Any) -> int:
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError_NotSupported:
        # What its clients say counts, as where there is no NVML.
        return 0


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
