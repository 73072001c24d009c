"""Which device nodes a container is given, from what is in /dev."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.device_nodes import Nodes, find_nodes

GPU = Gpu("GPU-a", "0", minor=3)
MIG = Gpu("MIG-a", "0:1", parent_uuid="GPU-a", gpu_instance=1, compute_instance=0, minor=3)
MINORS = "config 1\nmonitor 2\ngpu3/gi1/access 12\ngpu3/gi1/ci0/access 13\ngpu3/gi11/access 40\n"


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    (folder / "nvidia-caps").mkdir(parents=True)
    for name in ("nvidiactl", "nvidia0", "nvidia3", "nvidia-uvm", "nvidia-caps/nvidia-cap12"):
        (folder / name).touch()
    return folder


@pytest.fixture
def minors(tmp_path: Path) -> Path:
    path = tmp_path / "mig-minors"
    path.write_text(MINORS)
    return path


def names(nodes: Nodes) -> list[str]:
    assert nodes.problem is None
    return [str(path) for path in nodes.paths]


def test_nodes_of_a_gpu(dev: Path, minors: Path) -> None:
    """The GPU's own by its minor number, the driver's, and of the others those that exist; no other GPU's."""
    assert names(find_nodes(GPU, dev, minors)) == ["/dev/nvidiactl", "/dev/nvidia3", "/dev/nvidia-uvm"]
    (dev / "nvidia-modeset").touch()
    assert names(find_nodes(GPU, dev, minors))[-1] == "/dev/nvidia-modeset"


def test_nodes_of_a_mig_device(dev: Path, minors: Path) -> None:
    """Those of its instances too, whose numbers the driver lists."""
    assert find_nodes(MIG, dev, minors).problem == (
        f"compat_with_cpu_manager: {dev}/nvidia-caps/nvidia-cap13 is not in this container: run it privileged"
    )
    (dev / "nvidia-caps/nvidia-cap13").touch()
    assert names(find_nodes(MIG, dev, minors)) == [
        "/dev/nvidiactl",
        "/dev/nvidia3",
        "/dev/nvidia-caps/nvidia-cap12",
        "/dev/nvidia-caps/nvidia-cap13",
        "/dev/nvidia-uvm",
    ]
    minors.write_text("")
    assert "has no line for gpu3/gi1" in str(find_nodes(MIG, dev, minors).problem)
    assert "has no line for gpu3/gi1" in str(find_nodes(MIG, dev, dev / "missing").problem)


@pytest.mark.parametrize("missing", ["nvidiactl", "nvidia3"])
def test_a_node_that_is_not_seen(dev: Path, minors: Path, missing: str) -> None:
    """A container that names a node which does not exist can't start: it is said what to do."""
    (dev / missing).unlink()
    nodes = find_nodes(GPU, dev, minors)
    assert nodes.problem == (f"compat_with_cpu_manager: {dev}/{missing} is not in this container: run it privileged")
    assert nodes.paths == ()


def test_a_gpu_without_a_number(dev: Path, minors: Path) -> None:
    """Without its number no node is guessed."""
    assert "NVML does not say" in str(find_nodes(Gpu("GPU-a", "0"), dev, minors).problem)
