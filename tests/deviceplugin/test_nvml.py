"""What the plugin makes of NVML's answers, those of drivers included that no test machine has."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml  # type: ignore[import-untyped]
import pytest

import nvshare.nvml
from nvshare.deviceplugin import nvml
from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.health import Xid
from nvshare.deviceplugin.nvml import Nvml, NvmlError

WHOLE = 0xFFFFFFFF


@dataclass
class FakeMig:
    """One MIG device."""

    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass
class FakeGpu:
    """One GPU as a driver shows it."""

    uuid: str
    migs: list[FakeMig | None] | None = None
    """None: this GPU knows no MIG. A list with gaps: its MIG devices by place."""
    has_events: bool = True
    memory_error: int | None = None
    recovery_action: int | None = None
    """None: an older driver, which has no such field."""
    minor: int | None = None
    """None: NVML does not say it."""


@dataclass
class FakePynvml:
    """The functions of pynvml that the plugin calls; all else is the real module's."""

    devices: list[FakeGpu]
    init_error: int | None = None
    events: list[Any] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and not name.startswith("nvmlEventType"):
            raise AssertionError(f"{name} is not expected")
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)

    def nvmlShutdown(self) -> None:  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu | FakeMig:  # noqa: N802
        known: dict[str, FakeGpu | FakeMig] = {gpu.uuid: gpu for gpu in self.devices}
        known |= {mig.uuid: mig for gpu in self.devices for mig in gpu.migs or () if mig is not None}
        if uuid in known:
            return known[uuid]
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, device: FakeGpu | FakeMig | None) -> str:  # noqa: N802
        if device is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return device.uuid

    def nvmlDeviceGetMinorNumber(self, gpu: FakeGpu) -> int:  # noqa: N802
        if gpu.minor is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return gpu.minor

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:  # noqa: N802
        if gpu.migs is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(bool(gpu.migs)), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:  # noqa: N802
        return len(gpu.migs or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, place: int) -> FakeMig:  # noqa: N802
        mig = (gpu.migs or [])[place]
        if mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return mig

    def nvmlDeviceGetGpuInstanceId(self, mig: FakeMig) -> int:  # noqa: N802
        return mig.gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, mig: FakeMig) -> int:  # noqa: N802
        return mig.compute_instance

    def nvmlDeviceGetMemoryInfo(self, device: FakeGpu | FakeMig) -> None:  # noqa: N802
        if isinstance(device, FakeGpu) and device.memory_error is not None:
            raise pynvml.NVMLError(device.memory_error)

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: list[int]) -> list[Any]:  # noqa: N802
        assert fields == [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        code = pynvml.NVML_ERROR_NOT_SUPPORTED if gpu.recovery_action is None else pynvml.NVML_SUCCESS
        return [SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=gpu.recovery_action or 0))]

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlEventSetFree(self, events: str) -> None:  # noqa: N802
        assert events == "events"

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, kinds: int, events: str) -> None:  # noqa: N802
        assert (kinds, events) == (pynvml.nvmlEventTypeXidCriticalError, "events")
        if not gpu.has_events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self.registered.append(gpu.uuid)

    def nvmlEventSetWait_v2(self, events: str, milliseconds: int) -> Any:  # noqa: N802
        assert (events, milliseconds) == ("events", 1500)
        event = self.events.pop(0)
        if isinstance(event, int):
            raise pynvml.NVMLError(event)
        return event


def event(device: FakeGpu | None, number: int, gpu_instance: int = WHOLE, compute_instance: int = WHOLE) -> Any:
    return SimpleNamespace(
        eventType=pynvml.nvmlEventTypeXidCriticalError,
        device=device,
        eventData=number,
        gpuInstanceId=gpu_instance,
        computeInstanceId=compute_instance,
    )


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakePynvml:
    """A node with a plain GPU, one that could do MIG, and one in MIG mode with a gap."""
    fake = FakePynvml(
        [
            FakeGpu("GPU-a"),
            FakeGpu("GPU-b", []),
            FakeGpu("GPU-c", [FakeMig("MIG-0", 1, 0), None, FakeMig("MIG-2", 5, 1)]),
        ]
    )
    for module in (nvml, nvshare.nvml):
        monkeypatch.setattr(module, "pynvml", fake)
    return fake


def test_gpus_and_mig_devices(driver: FakePynvml) -> None:
    """A GPU in MIG mode is its MIG devices; others are themselves, whether they know MIG or not."""
    assert Nvml().gpus() == (
        Gpu("GPU-a", "0"),
        Gpu("GPU-b", "1"),
        Gpu("MIG-0", "2:0", "GPU-c", 1, 0),
        Gpu("MIG-2", "2:2", "GPU-c", 5, 1),
    )


def test_numbers_of_device_nodes(driver: FakePynvml) -> None:
    """A GPU's own, which need not be its index; a MIG device has its GPU's."""
    driver.devices[0].minor, driver.devices[2].minor = 3, 0
    assert [gpu.minor for gpu in Nvml().gpus()] == [3, None, 0, 0]


def test_no_driver(driver: FakePynvml) -> None:
    """NVML's own words say why."""
    driver.init_error = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    with pytest.raises(NvmlError, match="Driver Not Loaded"):
        Nvml()


def test_closing_after_the_driver_went(driver: FakePynvml) -> None:
    """A shutdown that fails matters to nobody."""
    Nvml().close()


def test_probe(driver: FakePynvml) -> None:
    """Well, lost, or in need of a repair that the driver names; a MIG device needs what its GPU needs."""
    library = Nvml()
    plain, _, mig, _ = library.gpus()
    assert library.probe(plain) is None
    assert library.probe(mig) is None
    driver.devices[0].recovery_action = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    assert library.probe(plain) is None
    driver.devices[0].recovery_action = pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET
    driver.devices[2].recovery_action = pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT
    assert library.probe(plain) == "the driver asks for: GPU reset"
    assert library.probe(mig) == "the driver asks for: node reboot"
    driver.devices[0].memory_error = pynvml.NVML_ERROR_GPU_IS_LOST
    assert library.probe(plain) == "NVML: GPU is lost"
    driver.devices.clear()
    assert library.probe(plain) == "NVML: Not Found"


def test_events_name_whom_they_concern(driver: FakePynvml) -> None:
    """A GPU, one of its MIG devices, or nobody that NVML could name; quiet and other events are none."""
    other = event(driver.devices[0], 1)
    other.eventType = pynvml.nvmlEventTypeClock
    driver.events = [
        event(driver.devices[0], 79),
        event(driver.devices[2], 94, 5, 1),
        event(None, 79),
        pynvml.NVML_ERROR_TIMEOUT,
        other,
    ]
    library = Nvml()
    events = library.watch(library.gpus())
    assert [events.wait(1.5) for _ in range(5)] == [
        Xid(79, "GPU-a"),
        Xid(94, "GPU-c", 5, 1),
        Xid(79, None),
        None,
        None,
    ]
    events.close()


def test_each_gpu_is_registered_once(driver: FakePynvml) -> None:
    """MIG devices report through their GPU; who can't report at all is named."""
    driver.devices[1].has_events = False
    library = Nvml()
    events = library.watch(library.gpus())
    assert driver.registered == ["GPU-a", "GPU-c"]
    assert events.silent == ["GPU-b"]


def test_events_that_end(driver: FakePynvml) -> None:
    """Anything but a time-out is an error of NVML."""
    driver.events = [pynvml.NVML_ERROR_GPU_IS_LOST]
    library = Nvml()
    events = library.watch(library.gpus())
    with pytest.raises(NvmlError, match="GPU is lost"):
        events.wait(1.5)
