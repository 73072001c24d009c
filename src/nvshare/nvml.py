"""Which devices NVML shows: GPUs in its order, and the MIG devices of a GPU. Everything here may block."""

from __future__ import annotations

from typing import Any

import pynvml  # type: ignore[import-untyped]


def gpus() -> list[Any]:
    """The handle of every GPU; a GPU's place in the list is its index. Raises NVMLError when NVML fails."""
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def mig_places(gpu: Any) -> range | None:
    """Where a GPU may have MIG devices; None: it is not in MIG mode. Raises NVMLError when NVML fails."""
    try:
        current, _pending = pynvml.nvmlDeviceGetMigMode(gpu)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return None
    return range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu))


def mig_device(gpu: Any, place: int) -> Any | None:
    """The handle of the MIG device at a place; None: the place is empty. Raises NVMLError when NVML fails."""
    try:
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
    except pynvml.NVMLError_NotFound:
        return None
