"""Which devices NVML shows: GPUs in its order, and the MIG devices of a GPU. Everything here may block."""

from __future__ import annotations

from typing import Any

import pynvml  # type: ignore[import-untyped]


def gpus() -> list[Any]:
    """The handle of every GPU; a GPU's place in the list is its index. Raises NVMLError when NVML fails."""
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def mig_devices(gpu: Any) -> dict[int, Any] | None:
    """The handles of a GPU's MIG devices by place; None: it is not in MIG mode. Raises NVMLError when NVML fails."""
    try:
        current, _pending = pynvml.nvmlDeviceGetMigMode(gpu)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return None
    found = {}
    for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            found[place] = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        except pynvml.NVMLError_NotFound:
            continue
    return found
