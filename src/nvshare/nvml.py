"""Which devices NVML shows: GPUs in its order, and the MIG devices of a GPU. Everything here may block.

One that fails concerns no other: a GPU may fall off the bus while the others work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]

from nvshare.device_uuid import device_bytes
from nvshare.nvml_state import NvmlState

Found = TypeVar("Found")

_STATES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: NvmlState.LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: NvmlState.DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: NvmlState.VERSION_MISMATCH,
}


def state_of(error: Any) -> NvmlState:
    """What an NVMLError says about NVML as a whole."""
    return _STATES.get(error.value, NvmlState.ERROR)


def scan(look: Callable[[int, Any, dict[str, str]], list[Found]]) -> tuple[list[Found], dict[str, str]]:
    """What ``look`` makes of each GPU, by its number and handle; and what NVML said where that failed, by index.

    ``look`` may add to these failures those of MIG devices. Raises NVMLError when NVML as a whole fails.
    """
    found: list[Found] = []
    failed: dict[str, str] = {}
    for number in range(pynvml.nvmlDeviceGetCount()):
        try:
            found += look(number, pynvml.nvmlDeviceGetHandleByIndex(number), failed)
        except pynvml.NVMLError as error:
            failed[str(number)] = str(error)
    return found, failed


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


def devices() -> dict[bytes, str]:
    """The UUID of each device that programs can use, a split GPU's MIG devices in its place, by the UUID's bytes.

    None where there is no NVML.
    """
    found: dict[bytes, str] = {}
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for uuid in scan(_uuids)[0]:
            with suppress(ValueError):
                found[device_bytes(uuid)] = uuid
    return found


def _uuids(_number: int, gpu: Any, _failed: dict[str, str]) -> list[str]:
    placed = [mig_device(gpu, place) for place in mig_places(gpu) or ()]
    return [str(pynvml.nvmlDeviceGetUUID(device)) for device in [mig for mig in placed if mig is not None] or [gpu]]


def handle(uuid: str) -> Any:
    """The handle of a GPU or MIG device; raises NVMLError when NVML does not give it."""
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        # While any GPU is lost, NVML may answer so for each of them.
        for candidate in _handles():
            if _uuid(candidate) == uuid:
                return candidate
        raise


def running(device: Any) -> list[Any]:
    """The processes that have a context on a device: of each its ``pid`` and ``usedGpuMemory``. Raises NVMLError.

    Drivers before 510 lack the third version of the question. pynvml's name without a version raises then what is no
    NVMLError.
    """
    try:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(device))
    except pynvml.NVMLError_FunctionNotFound:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses_v2(device))


def address(device: Any) -> int | None:
    """By what a handle is the same as another one."""
    return ctypes.cast(device, ctypes.c_void_p).value


def _handles() -> Iterator[Any]:
    gpus, _failed = scan(lambda _number, gpu, _failed: [gpu])
    for gpu in gpus:
        yield gpu
        try:
            places = mig_places(gpu) or ()
        except pynvml.NVMLError:
            continue
        for place in places:
            try:
                mig = mig_device(gpu, place)
            except pynvml.NVMLError:
                continue
            if mig is not None:
                yield mig


def _uuid(device: Any) -> str | None:
    try:
        return str(pynvml.nvmlDeviceGetUUID(device))
    except pynvml.NVMLError:
        return None
