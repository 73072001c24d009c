"""What the scheduler makes of NVML's answers: GPUs, MIG devices, memory, and answers that are missing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml  # type: ignore[import-untyped]
import pytest

from nvshare.nvml_state import NvmlState
from nvshare.scheduler.gpus import queries
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.gpus.queries import Discovery, Gpu, Unmeasured

GIB = 1 << 30
GPU_UUID = "GPU-6e767368-6172-6500-0000-000000000001"
OTHER_UUID = "GPU-6e767368-6172-6500-0000-000000000003"
MIG_UUID = "MIG-6e767368-6172-6500-0000-000000000002"
PROCESSES = "nvmlDeviceGetComputeRunningProcesses"


@dataclass(frozen=True, slots=True)
class FakeDevice:
    """A device, or a slot that holds none when its UUID is empty."""

    uuid: str
    used_bytes: int = 0
    processes: dict[int, int | None] = field(default_factory=dict)
    mig_slots: tuple[FakeDevice, ...] | None = None
    error: int | None = None
    """What NVML answers instead of this device."""
    memory_error: int | None = None
    cpus: tuple[int, ...] | None = None
    """Near it; None: NVML can't say it, nor of a MIG device."""


def cpus_near(device: FakeDevice, words: int) -> list[int]:
    """As NVML says them, in words of 64 bits."""
    if device.cpus is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    found = sum(1 << cpu for cpu in device.cpus)
    return [found >> 64 * word & (1 << 64) - 1 for word in range(words)]


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

    def gpu(index: int) -> FakeDevice:
        if (error := devices[index].error) is not None:
            raise pynvml.NVMLError(error)
        return devices[index]

    def by_uuid(uuid: str) -> FakeDevice:
        # NVML asks each GPU for its UUID, and gives up at the first one that is lost.
        for device in map(gpu, range(len(devices))):
            for candidate in (device, *(device.mig_slots or ())):
                if candidate.uuid == uuid:
                    return candidate
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def processes(device: FakeDevice) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in device.processes.items()]

    def memory(device: FakeDevice) -> SimpleNamespace:
        if device.memory_error is not None:
            raise pynvml.NVMLError(device.memory_error)
        return SimpleNamespace(total=16 * GIB, used=device.used_bytes)

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(devices),
        "nvmlDeviceGetHandleByIndex": gpu,
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetUUID": lambda device: device.uuid,
        "nvmlDeviceGetName": lambda _device: b"A GPU",
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetMigMode": mig_mode,
        "nvmlDeviceGetMaxMigDeviceCount": lambda device: len(device.mig_slots),
        "nvmlDeviceGetMigDeviceHandleByIndex": mig_device,
        PROCESSES + "_v3": processes,
        "nvmlDeviceGetCpuAffinity": cpus_near,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return devices


def test_gpus_are_named(nvml: list[FakeDevice]) -> None:
    """Each GPU has UUID, product and memory, and is found by the bytes that a client sends."""
    nvml.append(FakeDevice(GPU_UUID))
    found = queries.discover()
    assert found == Discovery(NvmlState.OK, (Gpu(GPU_UUID, "A GPU", 16 * GIB, "0"),))
    assert queries.by_bytes(found.gpus) == {bytes.fromhex("6e767368617265000000000000000001"): found.gpus[0]}


def test_cpus_near_a_gpu_are_known(nvml: list[FakeDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a MIG device those of its GPU, which alone NVML can be asked for; none where NVML does not say it."""
    monkeypatch.setattr(os, "sysconf", {"SC_NPROCESSORS_CONF": 96}.__getitem__)
    nvml.append(FakeDevice(GPU_UUID, cpus=(0, 63, 64, 95)))
    nvml.append(FakeDevice(OTHER_UUID, mig_slots=(FakeDevice(MIG_UUID),), cpus=(1,)))
    nvml.append(FakeDevice(OTHER_UUID))
    assert [gpu.cpus for gpu in queries.discover().gpus] == [{0, 63, 64, 95}, {1}, frozenset()]


def test_a_split_gpu_is_its_mig_devices(nvml: list[FakeDevice]) -> None:
    """MIG devices stand in the place of their GPU, empty slots are passed over; one without any is a GPU."""
    nvml.append(FakeDevice(GPU_UUID, mig_slots=(FakeDevice(""), FakeDevice(MIG_UUID, 2 * GIB), FakeDevice(""))))
    assert [(gpu.uuid, gpu.index) for gpu in queries.discover().gpus] == [(MIG_UUID, "0:1")]
    assert queries.usage(MIG_UUID) == Usage(16 * GIB, 2 * GIB, {})
    nvml[:] = [FakeDevice(GPU_UUID, mig_slots=())]
    assert [gpu.uuid for gpu in queries.discover().gpus] == [GPU_UUID]


def test_more_used_than_there_is(nvml: list[FakeDevice]) -> None:
    """All of it is used, and others have no more than that."""
    nvml.append(FakeDevice(GPU_UUID, (1 << 64) - 1))
    assert queries.usage(GPU_UUID) == Usage(16 * GIB, 16 * GIB, {})


def test_a_mig_device_that_fails_concerns_no_other(nvml: list[FakeDevice]) -> None:
    """One slot for which NVML has an error hides neither the MIG devices beside it nor the other GPUs."""
    lost = FakeDevice("", error=pynvml.NVML_ERROR_GPU_IS_LOST)
    nvml += [FakeDevice(GPU_UUID, mig_slots=(lost, FakeDevice(MIG_UUID))), FakeDevice(OTHER_UUID)]
    found = queries.discover()
    assert [gpu.uuid for gpu in found.gpus] == [MIG_UUID, OTHER_UUID]
    assert found.failed == {"0:0": "GPU is lost"}


@pytest.mark.parametrize("place", [0, 1])
def test_a_lost_gpu_concerns_no_other(nvml: list[FakeDevice], place: int) -> None:
    """The other one is found and measured, though NVML finds none by its UUID; the lost one is named."""
    nvml += [FakeDevice(OTHER_UUID, error=pynvml.NVML_ERROR_GPU_IS_LOST)]
    nvml.insert(1 - place, FakeDevice(GPU_UUID, GIB))
    found = queries.discover()
    assert [gpu.uuid for gpu in found.gpus] == [GPU_UUID]
    assert (found.state, found.failed) == (NvmlState.OK, {str(place): "GPU is lost"})
    assert queries.usage(GPU_UUID) == Usage(16 * GIB, GIB, {})
    assert queries.usage(OTHER_UUID) == Unmeasured("GPU is lost", NvmlState.ERROR)


def test_each_look_is_one_of_an_nvml_that_began_anew(nvml: list[FakeDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes on does not show a GPU that is back; it does where nothing is missing."""
    calls: list[str] = []
    for name in ("nvmlInit", "nvmlShutdown"):
        monkeypatch.setattr(pynvml, name, lambda name=name: calls.append(name))
    for anew in (True, True, False):
        queries.discover(anew)
    assert calls == ["nvmlShutdown", "nvmlInit"] * 2


def test_a_gpu_without_memory_of_its_own(nvml: list[FakeDevice]) -> None:
    """It is there, with no size, and not taken for lost; a size is what its clients say."""
    nvml.append(FakeDevice(GPU_UUID, memory_error=pynvml.NVML_ERROR_NOT_SUPPORTED))
    assert queries.discover() == Discovery(NvmlState.OK, (Gpu(GPU_UUID, "A GPU", 0, "0"),))
    assert queries.usage(GPU_UUID) == Unmeasured("Not Supported", NvmlState.OK)


def test_processes_without_a_value_are_listed(nvml: list[FakeDevice]) -> None:
    """NVML lists a process whose memory it cannot tell: no value is not 0."""
    nvml.append(FakeDevice(GPU_UUID, 3 * GIB, {10: GIB, 11: None, 12: 0}))
    assert queries.usage(GPU_UUID) == Usage(16 * GIB, 3 * GIB, {10: GIB, 11: None, 12: 0})


@pytest.mark.parametrize(
    ("known", "answer"),
    [(("_v2",), Usage(16 * GIB, 3 * GIB, {10: GIB})), ((), Unmeasured("Function Not Found", NvmlState.OK))],
)
def test_an_older_driver(
    nvml: list[FakeDevice], monkeypatch: pytest.MonkeyPatch, known: tuple[str, ...], answer: Usage | Unmeasured
) -> None:
    """One that lacks the newest question for processes is asked an older one; that it has none is no loss of a GPU."""
    nvml.append(FakeDevice(GPU_UUID, 3 * GIB, {10: GIB}))

    def lacking(_device: FakeDevice) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    answers = {"_v2": getattr(pynvml, PROCESSES + "_v3")}
    for version in ("_v3", "_v2"):
        monkeypatch.setattr(pynvml, PROCESSES + version, answers[version] if version in known else lacking)
    assert queries.usage(GPU_UUID) == answer


def test_a_device_that_is_gone(nvml: list[FakeDevice]) -> None:
    """What NVML does not know has no usage."""
    assert queries.usage(GPU_UUID) == Unmeasured("Not Found", NvmlState.OK)


@pytest.mark.parametrize(
    ("code", "state", "reason"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, NvmlState.LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, NvmlState.DRIVER_NOT_LOADED, "Driver Not Loaded"),
        (pynvml.NVML_ERROR_UNKNOWN, NvmlState.ERROR, "Unknown Error"),
    ],
)
def test_no_nvml(monkeypatch: pytest.MonkeyPatch, code: int, state: NvmlState, reason: str) -> None:
    """Without the library, or with a driver that does not answer, there is only a reason."""

    def fail() -> None:
        raise pynvml.NVMLError(code)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert queries.discover() == Discovery(state, reason=reason)


def test_nvml_without_gpus(nvml: list[FakeDevice]) -> None:
    """Nothing is wrong with it."""
    assert queries.discover() == Discovery(NvmlState.NO_GPU)


def test_uuid_of_another_form() -> None:
    """An old MIG name cannot be what a client sends; it is left out."""
    assert queries.by_bytes([Gpu("MIG-GPU-6e767368-6172-6500-0000-000000000001/1/0", "A GPU", GIB)]) == {}


def test_places_are_in_the_order_of_nvml() -> None:
    """By number, MIG devices after the ones before them on their GPU; an index that is not known comes first."""
    indices = ["10", "2", "0:10", "0:2", ""]
    assert sorted(indices, key=lambda index: Gpu("", "", 0, index).place()) == ["", "0:2", "0:10", "2", "10"]
