"""Near which memory a GPU is, from what the kernel says in /sys, and what kubelet hears of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.deviceplugin.devices import Gpu, Offer, Snapshot
from nvshare.deviceplugin.gpus.numa import find_numa_node, no_numa_node
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.instances import Instance
from tests.polling import until


def on_bus(bus_id: str | None) -> Gpu:
    return Gpu("GPU-a", "0", bus_id=bus_id)


@pytest.fixture
def pci(tmp_path: Path) -> Path:
    """A machine with a device in each of three PCI domains."""
    for place, node in {"0000:65:00.0": "1", "10000:01:00.0": "3", "0000:0a:00.0": "-1"}.items():
        (tmp_path / place).mkdir()
        (tmp_path / place / "numa_node").write_text(f"{node}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("bus_id", "expected"),
    [
        ("00000000:65:00.0", 1),
        ("00010000:01:00.0", 3),
        ("00000000:0A:00.0", None),
        ("00000000:99:00.0", None),
        (None, None),
    ],
)
def test_what_the_kernel_says(pci: Path, bus_id: str | None, expected: int | None) -> None:
    """NVML's names of places become the kernel's; where there is one memory only, or no such place, it is not known."""
    assert find_numa_node(on_bus(bus_id), pci) == expected
    assert no_numa_node(on_bus(bus_id)) is None


def test_strange_content(pci: Path) -> None:
    """What is no number is as if it was not there."""
    (pci / "0000:65:00.0" / "numa_node").write_text("")
    assert find_numa_node(on_bus("00000000:65:00.0"), pci) is None


async def test_kubelet_hears_of_it(kubelet: FakeKubelet, instance: Instance) -> None:
    """Every virtual device of a GPU is near the GPU's memory; of a GPU whose place is not known nothing is said."""
    instance.inventory.publish(
        Snapshot((Offer("GPU-a", 2, numa_node=0), Offer("GPU-b", 1, numa_node=1), Offer("GPU-c", 1)))
    )
    await until(lambda: len(kubelet.devices) == 4, "all devices are known")
    assert kubelet.numa_nodes == {"GPU-a__1": [0], "GPU-a__2": [0], "GPU-b__1": [1], "GPU-c__1": []}
