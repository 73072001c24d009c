"""Allocate: what a container gets, from the ids alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nvshare.deviceplugin.answers.allocation import DeviceListStrategy, DeviceNode, Injection, Mount, allocate
from nvshare.deviceplugin.answers.requests import Fault, RequestError, Rules
from nvshare.deviceplugin.devices import Offer, Snapshot

SNAPSHOT = Snapshot((Offer("GPU-b", 10), Offer("GPU-a", 5)))
RULES = Rules("nvshare.com/gpu")
LIBRARY = Path("/var/lib/nvshare/0.2.0-abc")
CLIENT = Path("/var/run/nvshare/client")
INJECTION = Injection(LIBRARY, CLIENT)
OWN_MOUNTS = (Mount(LIBRARY, Path("/usr/lib/nvshare")), Mount(CLIENT, Path("/var/run/nvshare/client")))


def with_strategy(*strategies: DeviceListStrategy) -> Injection:
    return replace(INJECTION, strategies=frozenset(strategies))


def test_what_a_container_gets() -> None:
    """The library and the socket as read-only folders, the preload, the run directory and its GPU."""
    allocation = allocate(["GPU-a__5"], SNAPSHOT, RULES, INJECTION)
    assert allocation.environment == {
        "LD_PRELOAD": "/usr/lib/nvshare/libnvshare.so",
        "NVSHARE_RUN_DIR": "/var/run/nvshare",
        "NVIDIA_VISIBLE_DEVICES": "GPU-a",
    }
    assert allocation.mounts == OWN_MOUNTS
    assert all(mount.read_only for mount in allocation.mounts)
    assert not allocation.annotations
    assert not allocation.cdi_devices


def test_each_gpu_is_named_once() -> None:
    """Several virtual devices of a GPU are one GPU to the container, in the order of the node."""
    allocation = allocate(["GPU-a__1", "GPU-b__3", "GPU-a__2"], SNAPSHOT, RULES, INJECTION)
    assert allocation.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"


def test_the_same_ids_get_the_same_answer() -> None:
    """Nothing is remembered and nothing is random, for any strategy."""
    injection = with_strategy(*DeviceListStrategy)
    ids = ["GPU-a__1", "GPU-b__3"]
    assert allocate(ids, SNAPSHOT, RULES, injection) == allocate(ids, SNAPSHOT, RULES, injection)


def test_volume_mounts() -> None:
    """The variable names the folder, and a mount of /dev/null in it each GPU."""
    allocation = allocate(["GPU-a__1"], SNAPSHOT, RULES, with_strategy(DeviceListStrategy.VOLUME_MOUNTS))
    folder = Path("/var/run/nvidia-container-devices")
    assert allocation.environment["NVIDIA_VISIBLE_DEVICES"] == str(folder)
    assert allocation.mounts == (*OWN_MOUNTS, Mount(Path("/dev/null"), folder / "GPU-a", read_only=False))


def test_cdi_annotations() -> None:
    """One annotation names NVIDIA's CDI devices and ours; the runtime needs no variable for the GPUs."""
    injection = with_strategy(DeviceListStrategy.CDI_ANNOTATIONS)
    allocation = allocate(["GPU-a__1", "GPU-b__1"], SNAPSHOT, RULES, injection)
    ((key, value),) = allocation.annotations.items()
    assert key.startswith("cdi.k8s.io/nvshare-device-plugin_")
    assert len(key.partition("/")[2]) <= 63
    assert value == "nvidia.com/gpu=GPU-b,nvidia.com/gpu=GPU-a,nvshare.com/gpu=GPU-b,nvshare.com/gpu=GPU-a"
    assert "NVIDIA_VISIBLE_DEVICES" not in allocation.environment
    assert allocation.environment["LD_PRELOAD"]


def test_cdi_cri() -> None:
    """The CDI devices by their qualified names, of the kinds that were set."""
    injection = replace(
        with_strategy(DeviceListStrategy.CDI_CRI), cdi_kind="example.com/accelerator", cdi_own_kind="example.com/shared"
    )
    allocation = allocate(["GPU-a__1"], SNAPSHOT, RULES, injection)
    assert allocation.cdi_devices == ("example.com/accelerator=GPU-a", "example.com/shared=GPU-a")
    assert not allocation.annotations
    assert "NVIDIA_VISIBLE_DEVICES" not in allocation.environment


@pytest.mark.parametrize("strategy", DeviceListStrategy)
def test_the_library_comes_without_cdi(strategy: DeviceListStrategy) -> None:
    """A runtime that knows no CDI must not start a container unshared: the answer itself has all of it, every way."""
    allocation = allocate(["GPU-a__1"], SNAPSHOT, RULES, with_strategy(strategy))
    assert allocation.environment["LD_PRELOAD"] == "/usr/lib/nvshare/libnvshare.so"
    assert allocation.mounts[:2] == OWN_MOUNTS


def test_several_strategies_together() -> None:
    """Each adds its own; with the list as mounts the variable names the folder."""
    allocation = allocate(["GPU-a__1"], SNAPSHOT, RULES, with_strategy(*DeviceListStrategy))
    assert allocation.environment["NVIDIA_VISIBLE_DEVICES"] == "/var/run/nvidia-container-devices"
    assert len(allocation.mounts) == 3
    assert allocation.annotations
    assert allocation.cdi_devices


def test_device_nodes() -> None:
    """Those of its GPUs, each once, from where the host has them; without any the runtime sees to them alone."""
    control, first, second = Path("/dev/nvidiactl"), Path("/dev/nvidia0"), Path("/dev/nvidia1")
    offers = (Offer("GPU-b", 10, nodes=(control, first)), Offer("GPU-a", 5, nodes=(control, second)))
    injection = replace(INJECTION, dev_root=Path("/run/nvidia/driver"))
    allocation = allocate(["GPU-a__1", "GPU-b__3"], Snapshot(offers), RULES, injection)
    assert allocation.nodes == tuple(
        DeviceNode(Path(f"/run/nvidia/driver{path}"), path) for path in (control, first, second)
    )
    assert allocate(["GPU-b__1"], Snapshot(offers), RULES, INJECTION).nodes == (
        DeviceNode(control, control),
        DeviceNode(first, first),
    )
    assert allocate(["GPU-b__1"], SNAPSHOT, RULES, INJECTION).nodes == ()


def test_operators_additions() -> None:
    """More variables and mounts go to every container and never replace the plugin's own."""
    driver = Mount(Path("/opt/driver"), Path("/opt/driver"))
    injection = replace(
        INJECTION, environment={"NVSHARE_MEMORY": "native", "LD_PRELOAD": "/tmp/other.so"}, mounts=(driver,)
    )
    allocation = allocate(["GPU-a__1"], SNAPSHOT, RULES, injection)
    assert allocation.environment["NVSHARE_MEMORY"] == "native"
    assert allocation.environment["LD_PRELOAD"] == "/usr/lib/nvshare/libnvshare.so"
    assert allocation.mounts == (*OWN_MOUNTS, driver)


@pytest.mark.parametrize(
    ("device_id", "fault", "message"),
    [
        (
            "GPU-a__6",
            Fault.UNKNOWN_DEVICE,
            r"GPU-a__6 is unknown: GPU GPU-a has virtual devices 1 to 5 only.*chart virtualD",
        ),
        (
            "GPU-z__1",
            Fault.UNKNOWN_DEVICE,
            r"GPU-z__1 is unknown: this node has no GPU GPU-z .*GPU-b, GPU-a.*delete",
        ),
        ("0", Fault.MALFORMED, r"'0' is not of the form UUID__ORDINAL"),
    ],
)
def test_unknown_and_stale_ids(device_id: str, fault: Fault, message: str) -> None:
    """The refusal, which kubelet shows in the pod's events, names the id, the reason and the remedy."""
    with pytest.raises(RequestError, match=message) as error:
        allocate(["GPU-a__1", device_id], SNAPSHOT, RULES, INJECTION)
    assert error.value.fault is fault


def test_distinct_or_nothing() -> None:
    """kubelet does not always ask for a preference: the rule holds in Allocate too."""
    rules = Rules("nvshare.com/gpu", require_distinct=True)
    allocation = allocate(["GPU-a__1", "GPU-b__1"], SNAPSHOT, rules, INJECTION)
    assert allocation.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    with pytest.raises(RequestError, match=r"2 requested.*--require-distinct.*1 of this node's 2 GPUs") as error:
        allocate(["GPU-a__1", "GPU-a__2"], SNAPSHOT, rules, INJECTION)
    assert error.value.fault is Fault.AGAINST_RULES


def test_no_more_than_one() -> None:
    """--fail-requests-greater-than-one, as NVIDIA's plugin has it."""
    rules = Rules("nvshare.com/gpu", fail_requests_greater_than_one=True)
    with pytest.raises(RequestError, match=r"nvshare.com/gpu: 2 requested.*at most 1"):
        allocate(["GPU-a__1", "GPU-b__1"], SNAPSHOT, rules, INJECTION)
