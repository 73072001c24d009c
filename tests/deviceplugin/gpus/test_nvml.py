"""What the plugin makes of NVML's answers, those of drivers included that no test machine has."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml  # type: ignore[import-untyped]
import pytest

import nvshare.nvml
from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus import nvml
from nvshare.deviceplugin.gpus.health import Xid
from nvshare.deviceplugin.gpus.nvml import Nvml, NvmlError
from nvshare.nvml_state import NvmlState

WHOLE = 0xFFFFFFFF
NODE = (
    Gpu("GPU-a", "0"),
    Gpu("GPU-b", "1"),
    Gpu("MIG-0", "2:0", "GPU-c", 1, 0, mig_profile="1g.10gb"),
    Gpu("MIG-2", "2:2", "GPU-c", 5, 1, mig_profile="1g.10gb"),
)
"""What ``driver`` has."""


@dataclass
class FakeMig:
    """One MIG device."""

    uuid: str
    gpu_instance: int
    compute_instance: int
    error: int | None = None
    """What NVML answers in its place."""
    name: str | None = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    """None: NVML does not say it."""


@dataclass
class FakeGpu:
    """One GPU as a driver shows it."""

    uuid: str
    migs: list[FakeMig | None] | None = None
    """None: this GPU knows no MIG. A list with gaps: its MIG devices by place."""
    has_events: bool = True
    memory_error: int | None = None
    processes_error: int | None = None
    lost: int | None = None
    """What NVML answers in place of its handle, and to whatever concerns it."""
    bus_id: str = ""
    """Empty: NVML does not say it."""
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
        return self._alive(self.devices[index])

    def _alive(self, gpu: FakeGpu) -> FakeGpu:
        if gpu.lost is not None:
            raise pynvml.NVMLError(gpu.lost)
        return gpu

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu | FakeMig:  # noqa: N802
        for gpu in self.devices:
            # NVML asks each GPU for its UUID, and gives up at the first one that is lost.
            self._alive(gpu)
        known: dict[str, FakeGpu | FakeMig] = {gpu.uuid: gpu for gpu in self.devices}
        known |= {mig.uuid: mig for gpu in self.devices for mig in gpu.migs or () if mig is not None}
        if uuid in known:
            return known[uuid]
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, device: FakeGpu | FakeMig | None) -> str:  # noqa: N802
        if device is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if isinstance(device, FakeGpu):
            self._alive(device)
        return device.uuid

    def nvmlDeviceGetPciInfo(self, device: FakeGpu | None) -> Any:  # noqa: N802
        if device is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if not device.bus_id:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(busId=device.bus_id)

    def nvmlDeviceGetMinorNumber(self, gpu: FakeGpu) -> int:  # noqa: N802
        if gpu.minor is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return gpu.minor

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:  # noqa: N802
        self._alive(gpu)
        if gpu.migs is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(bool(gpu.migs)), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:  # noqa: N802
        return len(gpu.migs or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, place: int) -> FakeMig:  # noqa: N802
        mig = (gpu.migs or [])[place]
        if mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        if mig.error is not None:
            raise pynvml.NVMLError(mig.error)
        return mig

    def nvmlDeviceGetGpuInstanceId(self, mig: FakeMig) -> int:  # noqa: N802
        return mig.gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, mig: FakeMig) -> int:  # noqa: N802
        return mig.compute_instance

    def nvmlDeviceGetName(self, mig: FakeMig) -> str:  # noqa: N802
        if mig.name is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return mig.name

    def nvmlDeviceGetMemoryInfo(self, device: FakeGpu | FakeMig) -> None:  # noqa: N802
        if isinstance(device, FakeGpu) and device.memory_error is not None:
            raise pynvml.NVMLError(device.memory_error)

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device: FakeGpu | FakeMig) -> list[Any]:  # noqa: N802
        if isinstance(device, FakeGpu) and device.processes_error is not None:
            raise pynvml.NVMLError(device.processes_error)
        return []

    nvmlDeviceGetComputeRunningProcesses_v2 = nvmlDeviceGetComputeRunningProcesses_v3  # noqa: N815

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
    # Its handles are no pointers.
    monkeypatch.setattr(nvshare.nvml, "address", id)
    return fake


def test_gpus_and_mig_devices(driver: FakePynvml) -> None:
    """A GPU in MIG mode is its MIG devices; others are themselves, whether they know MIG or not."""
    assert Nvml().scan() == (NODE, {})


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 2c.4g.40gb+me", "2c.4g.40gb+me"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 4g.96gb+gfx", "4g.96gb+gfx"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb+me.all", "1g.24gb+me.all"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb-me", "1g.24gb-me"),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb, in part", None),
        (None, None),
    ],
)
def test_profiles_of_mig_devices(driver: FakePynvml, name: str | None, profile: str | None) -> None:
    """The driver's name says it. Where it does not, the MIG device is found all the same."""
    assert driver.devices[2].migs is not None
    driver.devices[2].migs[0] = FakeMig("MIG-0", 1, 0, name=name)
    assert [gpu.mig_profile for gpu in Nvml().scan()[0]] == [None, None, profile, "1g.10gb"]


def test_numbers_of_device_nodes(driver: FakePynvml) -> None:
    """A GPU's own, which need not be its index; a MIG device has its GPU's."""
    driver.devices[0].minor, driver.devices[2].minor = 3, 0
    assert [gpu.minor for gpu in Nvml().scan()[0]] == [3, None, 0, 0]


def test_places_on_the_bus(driver: FakePynvml) -> None:
    """MIG devices are where their GPU is."""
    driver.devices[0].bus_id, driver.devices[2].bus_id = "00000000:01:00.0", "00000000:41:00.0"
    expected = ["00000000:01:00.0", None, "00000000:41:00.0", "00000000:41:00.0"]
    assert [gpu.bus_id for gpu in Nvml().scan()[0]] == expected


@pytest.mark.parametrize(
    ("place", "left", "failed"), [(0, NODE[1:], "0"), (1, (NODE[0], *NODE[2:]), "1"), (2, NODE[:2], "2")]
)
def test_a_lost_gpu_concerns_no_other(driver: FakePynvml, place: int, left: tuple[Gpu, ...], failed: str) -> None:
    """Those beside it are found, are well, and report events, though NVML finds none by its UUID; it is named."""
    driver.devices[place].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    library = Nvml()
    assert library.scan() == (left, {failed: "GPU is lost"})
    assert {library.probe(gpu) for gpu in left} == {None}
    assert library.watch(left).silent == []
    assert library.probe(Gpu("GPU-a", "0")) == (None if place else "lost: NVML: GPU is lost")


def test_a_lost_mig_device_concerns_no_other(driver: FakePynvml) -> None:
    """It is named by its own index; those beside it are found."""
    assert driver.devices[2].migs is not None
    driver.devices[2].migs[0] = FakeMig("MIG-0", 1, 0, error=pynvml.NVML_ERROR_UNKNOWN)
    assert Nvml().scan() == ((*NODE[:2], NODE[3]), {"2:0": "Unknown Error"})


@pytest.mark.parametrize(
    ("code", "words", "state"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "Library Not Found", NvmlState.LIBRARY_NOT_FOUND),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded", NvmlState.DRIVER_NOT_LOADED),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "version mismatch", NvmlState.VERSION_MISMATCH),
        (pynvml.NVML_ERROR_UNKNOWN, "Unknown Error", NvmlState.ERROR),
    ],
)
def test_no_nvml(driver: FakePynvml, code: int, words: str, state: NvmlState) -> None:
    """NVML's own words say why, and its code what kind of trouble that is."""
    driver.init_error = code
    with pytest.raises(NvmlError, match=words) as caught:
        Nvml()
    assert caught.value.state is state


def test_closing_after_the_driver_went(driver: FakePynvml) -> None:
    """A shutdown that fails matters to nobody."""
    Nvml().close()


def test_probe(driver: FakePynvml) -> None:
    """Well, lost, or in need of a repair that the driver names; a MIG device needs what its GPU needs."""
    library = Nvml()
    plain, _, mig, _ = NODE
    assert library.probe(plain) is None
    assert library.probe(mig) is None
    driver.devices[0].recovery_action = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    assert library.probe(plain) is None
    driver.devices[0].recovery_action = pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET
    driver.devices[2].recovery_action = pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT
    assert library.probe(plain) == "the driver asks for: GPU reset"
    assert library.probe(mig) == "the driver asks for: node reboot"
    driver.devices[0].memory_error = pynvml.NVML_ERROR_GPU_IS_LOST
    assert library.probe(plain) == "lost: NVML: GPU is lost"
    driver.devices.clear()
    assert library.probe(plain) == "NVML: Not Found"


def test_a_gpu_without_memory_of_its_own_is_well(driver: FakePynvml) -> None:
    """Where memory is not supported the GPU is asked for something else; that may be unsupported as well."""
    gpu = driver.devices[0]
    gpu.memory_error = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert Nvml().probe(NODE[0]) is None
    gpu.processes_error = pynvml.NVML_ERROR_GPU_IS_LOST
    assert Nvml().probe(NODE[0]) == "lost: NVML: GPU is lost"
    gpu.processes_error = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert Nvml().probe(NODE[0]) is None


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
    events = Nvml().watch(NODE)
    assert [events.wait(1.5) for _ in range(5)] == [
        Xid(79, "GPU-a"),
        Xid(94, "GPU-c", 5, 1),
        Xid(79, None),
        None,
        None,
    ]
    events.close()


def test_events_of_a_gpu_that_just_fell_off_the_bus(driver: FakePynvml) -> None:
    """NVML has no UUID for it any more: it is known by its handle, or else by its place on the bus."""
    gone, again = driver.devices[:2]
    gone.bus_id, again.bus_id = "00000000:01:00.0", "00000000:02:00.0"
    other_handle = FakeGpu("", bus_id=again.bus_id, lost=pynvml.NVML_ERROR_GPU_IS_LOST)
    driver.events = [event(gone, 79), event(other_handle, 79)]
    events = Nvml().watch(NODE)
    gone.lost, gone.bus_id = pynvml.NVML_ERROR_GPU_IS_LOST, ""
    assert [events.wait(1.5) for _ in range(2)] == [Xid(79, "GPU-a"), Xid(79, "GPU-b")]


def test_handles_of_one_gpu_are_the_same() -> None:
    """NVML gives the same address again, in an object of its own."""
    one, again, other = (ctypes.cast(address, pynvml.c_nvmlDevice_t) for address in (0x1000, 0x1000, 0x2000))
    assert nvshare.nvml.address(one) == nvshare.nvml.address(again) != nvshare.nvml.address(other)


def test_each_gpu_is_registered_once(driver: FakePynvml) -> None:
    """MIG devices report through their GPU; who can't report at all is named."""
    driver.devices[1].has_events = False
    events = Nvml().watch(NODE)
    assert driver.registered == ["GPU-a", "GPU-c"]
    assert events.silent == ["GPU-b"]


def test_events_that_end(driver: FakePynvml) -> None:
    """Anything but a time-out is an error of NVML."""
    driver.events = [pynvml.NVML_ERROR_GPU_IS_LOST]
    events = Nvml().watch(NODE)
    with pytest.raises(NvmlError, match="GPU is lost"):
        events.wait(1.5)
