"""NVML, as much of it as the plugin needs: which GPUs there are, whether each answers, and their error events.

Not safe for use from several threads at once: one thread owns an instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pynvml  # type: ignore[import-untyped]

from nvshare import nvml
from nvshare.deviceplugin.devices import Gpu, GpuFacts
from nvshare.deviceplugin.gpus.health import Xid
from nvshare.deviceplugin.gpus.nvml_facts import facts_of
from nvshare.nvml_state import NvmlState, lost

# How NVML says "the whole GPU" where it could name a MIG instance.
_NO_INSTANCE = 0xFFFFFFFF
# "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", or with 1c. before it where a GPU instance is divided once more.
_MIG_NAME = re.compile(r".* MIG ((?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z]+(?:\.[a-z]+)*)?)")
_RECOVERY_ACTIONS = {1: "GPU reset", 2: "node reboot", 3: "drain of peer-to-peer traffic", 4: "drain and GPU reset"}


class NvmlError(Exception):
    """NVML is not there or does not work any more."""

    def __init__(self, text: str, state: NvmlState = NvmlState.ERROR) -> None:
        super().__init__(text)
        self.state = state


class Nvml:
    """An initialized NVML."""

    def __init__(self) -> None:
        """Raises NvmlError when there is no NVML or no driver."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlError(str(error), nvml.state_of(error)) from error

    def close(self) -> None:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            # The driver went away before us: nothing is left to be released.
            return

    def scan(self) -> tuple[tuple[Gpu, ...], Mapping[str, str]]:
        """Every GPU in NVML's order, one in MIG mode as its MIG devices; and by index what NVML says of those it lost.

        Raises NvmlError when NVML as a whole fails.
        """
        try:
            gpus, failed = nvml.scan(_gpus_of)
        except pynvml.NVMLError as error:
            raise NvmlError(str(error), nvml.state_of(error)) from error
        return tuple(gpus), failed

    def probe(self, gpu: Gpu) -> str | None:
        """None when the GPU answers and its driver asks for no repair, else what is wrong."""
        try:
            handle = nvml.handle(gpu.uuid)
            _ask(handle)
            whole = nvml.handle(gpu.parent_uuid) if gpu.parent_uuid else handle
        except pynvml.NVMLError_GpuIsLost as error:
            return lost(str(error))
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
        self._by_address: dict[int | None, str] = {}
        self._by_bus_id: dict[str | None, str] = {}
        for uuid in sorted(uuids):
            try:
                handle = nvml.handle(uuid)
                self._by_address[nvml.address(handle)] = uuid
                if (bus_id := _bus_id(handle)) is not None:
                    self._by_bus_id[bus_id] = uuid
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
            uuid=self._uuid(data.device),
            gpu_instance=_instance(data.gpuInstanceId),
            compute_instance=_instance(data.computeInstanceId),
        )

    def _uuid(self, handle: Any) -> str | None:
        """Whose handle it is; of a GPU that just fell off the bus NVML may not say that any more."""
        try:
            return str(pynvml.nvmlDeviceGetUUID(handle))
        except pynvml.NVMLError:
            return self._by_address.get(nvml.address(handle)) or self._by_bus_id.get(_bus_id(handle))


def _gpus_of(number: int, handle: Any, failed: dict[str, str]) -> list[Gpu]:
    uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    places = nvml.mig_places(handle)
    if places is None:
        return [Gpu(uuid, str(number), minor=_minor(handle), bus_id=_bus_id(handle), facts=facts_of(handle))]
    minor, bus_id, facts = _minor(handle), _bus_id(handle), facts_of(handle)
    found = []
    for place in places:
        index = f"{number}:{place}"
        try:
            mig = nvml.mig_device(handle, place)
            if mig is not None:
                found.append(_mig_device(mig, index, uuid, minor, bus_id, facts))
        except pynvml.NVMLError as error:
            failed[index] = str(error)
    return found


def _mig_device(
    handle: Any, index: str, parent_uuid: str, minor: int | None, bus_id: str | None, facts: GpuFacts
) -> Gpu:
    return Gpu(
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        index=index,
        parent_uuid=parent_uuid,
        gpu_instance=int(pynvml.nvmlDeviceGetGpuInstanceId(handle)),
        compute_instance=int(pynvml.nvmlDeviceGetComputeInstanceId(handle)),
        minor=minor,
        bus_id=bus_id,
        mig_profile=_mig_profile(handle),
        facts=facts,
    )


def _mig_profile(handle: Any) -> str | None:
    """By its name, in which the driver writes the profile: its numbers would have to be rounded as the driver does."""
    try:
        match = _MIG_NAME.fullmatch(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return None
    return None if match is None else match[1]


def _ask(handle: Any) -> None:
    """Asks the GPU for something that only it knows; raises NVMLError when it does not answer."""
    for question in (pynvml.nvmlDeviceGetMemoryInfo, nvml.running):
        try:
            question(handle)
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
            # A GPU without memory of its own (GB10) is well.
            continue
        return


def _bus_id(handle: Any) -> str | None:
    try:
        return str(pynvml.nvmlDeviceGetPciInfo(handle).busId)
    except pynvml.NVMLError:
        return None


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


def _instance(number: int) -> int | None:
    return None if number == _NO_INSTANCE else int(number)
