"""What the scheduler makes of NVML's answers: GPUs, MIG devices, memory, and answers that are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml  # type: ignore[import-untyped]
import pytest

from nvshare.scheduler.gpus import queries
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.gpus.queries import Gpu

GIB = 1 << 30
GPU_UUID = "GPU-6e767368-6172-6500-0000-000000000001"
OTHER_UUID = "GPU-6e767368-6172-6500-0000-000000000003"
MIG_UUID = "MIG-6e767368-6172-6500-0000-000000000002"


@dataclass(frozen=True, slots=True)
class FakeDevice:
    """A device, or a slot that holds none when its UUID is empty."""

    uuid: str
    used_bytes: int = 0
    processes: dict[int, int | None] = field(default_factory=dict)
    mig_slots: tuple[FakeDevice, ...] | None = None
    error: int | None = None
    """What NVML answers instead of this MIG device."""


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> list[FakeDevice]:
    """An NVML that has the devices which the test puts into this list."""
    devices: list[FakeDevice] = []

    def mig_mode(device: FakeDevice) -> list[int]:
        if device.mig_slots is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE]

    def mig_device(device: FakeDevice, slot: int) -> FakeDevice:
        assert device.mig_slots is not None
        found = device.mig_slots[slot]
        if found.error is not None or not found.uuid:
            raise pynvml.NVMLError(found.error or pynvml.NVML_ERROR_NOT_FOUND)
        return found

    def by_uuid(uuid: str) -> FakeDevice:
        for device in devices:
            for candidate in (device, *(device.mig_slots or ())):
                if candidate.uuid == uuid:
                    return candidate
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def processes(device: FakeDevice) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in device.processes.items()]

    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(devices),
        "nvmlDeviceGetHandleByIndex": lambda index: devices[index],
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetUUID": lambda device: device.uuid,
        "nvmlDeviceGetName": lambda _device: b"A GPU",
        "nvmlDeviceGetMemoryInfo": lambda device: SimpleNamespace(total=16 * GIB, used=device.used_bytes),
        "nvmlDeviceGetMigMode": mig_mode,
        "nvmlDeviceGetMaxMigDeviceCount": lambda device: len(device.mig_slots),
        "nvmlDeviceGetMigDeviceHandleByIndex": mig_device,
        "nvmlDeviceGetComputeRunningProcesses": processes,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return devices


def test_gpus_are_named(nvml: list[FakeDevice]) -> None:
    """Each GPU has UUID, product and memory, and is found by the bytes that a client sends."""
    nvml.append(FakeDevice(GPU_UUID))
    found = queries.discover()
    assert found == (Gpu(GPU_UUID, "A GPU", 16 * GIB, "0"),)
    assert queries.by_bytes(found) == {bytes.fromhex("6e767368617265000000000000000001"): found[0]}


def test_a_split_gpu_is_its_mig_devices(nvml: list[FakeDevice]) -> None:
    """MIG devices stand in the place of their GPU, empty slots are passed over; one without any is a GPU."""
    nvml.append(FakeDevice(GPU_UUID, mig_slots=(FakeDevice(""), FakeDevice(MIG_UUID, 2 * GIB), FakeDevice(""))))
    assert [(gpu.uuid, gpu.index) for gpu in queries.discover() or ()] == [(MIG_UUID, "0:1")]
    assert queries.usage(MIG_UUID) == Usage(16 * GIB, 2 * GIB, {})
    nvml[:] = [FakeDevice(GPU_UUID, mig_slots=())]
    assert [gpu.uuid for gpu in queries.discover() or ()] == [GPU_UUID]


def test_a_mig_device_that_fails_concerns_no_other(nvml: list[FakeDevice]) -> None:
    """One slot for which NVML has an error hides neither the MIG devices beside it nor the other GPUs."""
    lost = FakeDevice("", error=pynvml.NVML_ERROR_GPU_IS_LOST)
    nvml += [FakeDevice(GPU_UUID, mig_slots=(lost, FakeDevice(MIG_UUID))), FakeDevice(OTHER_UUID)]
    assert [gpu.uuid for gpu in queries.discover() or ()] == [MIG_UUID, OTHER_UUID]


def test_processes_without_a_value_are_listed(nvml: list[FakeDevice]) -> None:
    """NVML lists a process whose memory it cannot tell: no value is not 0."""
    nvml.append(FakeDevice(GPU_UUID, 3 * GIB, {10: GIB, 11: None, 12: 0}))
    assert queries.usage(GPU_UUID) == Usage(16 * GIB, 3 * GIB, {10: GIB, 11: None, 12: 0})


def test_a_device_that_is_gone(nvml: list[FakeDevice]) -> None:
    """What NVML does not know has no usage."""
    assert queries.usage(GPU_UUID) is None


def test_no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, or with a driver that does not answer, there is nothing to know."""

    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert queries.discover() is None


def test_uuid_of_another_form() -> None:
    """An old MIG name cannot be what a client sends; it is left out."""
    assert queries.by_bytes([Gpu("MIG-GPU-6e767368-6172-6500-0000-000000000001/1/0", "A GPU", GIB)]) == {}


def test_places_are_in_the_order_of_nvml() -> None:
    """By number, MIG devices after the ones before them on their GPU; an index that is not known comes first."""
    indices = ["10", "2", "0:10", "0:2", ""]
    assert sorted(indices, key=lambda index: Gpu("", "", 0, index).place()) == ["", "0:2", "0:10", "2", "10"]
