"""NVML, as much of it as the plugin needs: which GPUs there are, whether each answers, and their error events.

Not safe for use from several threads at once: one thread owns an instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pynvml  # type: ignore[import-untyped]

from nvshare import nvml
from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.health import Xid

# How NVML says "the whole GPU" where it could name a MIG instance.
_NO_INSTANCE = 0xFFFFFFFF
_RECOVERY_ACTIONS = {1: "GPU reset", 2: "node reboot", 3: "drain of peer-to-peer traffic", 4: "drain and GPU reset"}


class NvmlError(Exception):
    """NVML is not there or does not work any more."""


class Nvml:
    """An initialized NVML."""

    def __init__(self) -> None:
        """Raises NvmlError when there is no NVML or no driver."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlError(str(error)) from error

    def close(self) -> None:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            # The driver went away before us: nothing is left to be released.
            return

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU in NVML's order, one in MIG mode as its MIG devices; raises NvmlError when NVML fails."""
        try:
            return tuple(gpu for index, handle in enumerate(nvml.gpus()) for gpu in _gpus_of(index, handle))
        except pynvml.NVMLError as error:
            raise NvmlError(str(error)) from error

    def probe(self, gpu: Gpu) -> str | None:
        """None when the GPU answers and its driver asks for no repair, else what is wrong."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            pynvml.nvmlDeviceGetMemoryInfo(handle)
            whole = pynvml.nvmlDeviceGetHandleByUUID(gpu.parent_uuid) if gpu.parent_uuid else handle
        except pynvml.NVMLError as error:
            return f"NVML: {error}"
        return _wanted_repair(whole)

    def watch(self, gpus: Iterable[Gpu]) -> XidEvents:
        """The error events of these GPUs; raises NvmlError when NVML can't give any."""
        return XidEvents({gpu.parent_uuid or gpu.uuid for gpu in gpus})


class XidEvents:
    """NVML's critical XID events of some GPUs."""

    def __init__(self, uuids: Iterable[str]) -> None:
        self.silent: list[str] = []
        """GPUs that can't report events: their health is known by probes only."""
        try:
            self._set = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            raise NvmlError(str(error)) from error
        for uuid in sorted(uuids):
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
            except pynvml.NVMLError:
                self.silent.append(uuid)

    def close(self) -> None:
        try:
            pynvml.nvmlEventSetFree(self._set)
        except pynvml.NVMLError:
            # As with nvmlShutdown: it went with the driver.
            return

    def wait(self, seconds: float) -> Xid | None:
        """The next event, None when none came in time; raises NvmlError when NVML fails."""
        try:
            data = pynvml.nvmlEventSetWait_v2(self._set, int(seconds * 1000))
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            raise NvmlError(str(error)) from error
        if data.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return None
        return Xid(
            number=int(data.eventData),
            uuid=_uuid_or_none(data.device),
            gpu_instance=_instance(data.gpuInstanceId),
            compute_instance=_instance(data.computeInstanceId),
        )


def _gpus_of(index: int, handle: Any) -> Iterator[Gpu]:
    uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    places = nvml.mig_places(handle)
    if places is None:
        yield Gpu(uuid, str(index), minor=_minor(handle))
        return
    for place in places:
        mig = nvml.mig_device(handle, place)
        if mig is None:
            continue
        yield Gpu(
            uuid=str(pynvml.nvmlDeviceGetUUID(mig)),
            index=f"{index}:{place}",
            parent_uuid=uuid,
            gpu_instance=int(pynvml.nvmlDeviceGetGpuInstanceId(mig)),
            compute_instance=int(pynvml.nvmlDeviceGetComputeInstanceId(mig)),
            minor=_minor(handle),
        )


def _minor(handle: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetMinorNumber(handle))
    except pynvml.NVMLError:
        return None


def _wanted_repair(handle: Any) -> str | None:
    """The repair that the driver asks for; None: none, or the driver is too old to say."""
    try:
        (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    except pynvml.NVMLError:
        return None
    if value.nvmlReturn != pynvml.NVML_SUCCESS or value.value.uiVal == pynvml.NVML_GPU_RECOVERY_ACTION_NONE:
        return None
    action = _RECOVERY_ACTIONS.get(value.value.uiVal, f"recovery action {value.value.uiVal}")
    return f"the driver asks for: {action}"


def _uuid_or_none(handle: Any) -> str | None:
    try:
        return str(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None


def _instance(number: int) -> int | None:
    return None if number == _NO_INSTANCE else int(number)
