"""The command with a strategy that names CDI devices: who writes the file, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.process import Node, PluginProcess
from tests.polling import until

ALL = 20


@pytest.fixture
def folder(node: Node) -> Path:
    """Where the kubelet is: beside the node's other folders."""
    return node.kubelet_dir


@pytest.fixture
def cdi_dir(node: Node) -> Path:
    folder = node.root / "cdi"
    folder.mkdir()
    return folder


def described(cdi_dir: Path) -> dict[str, str]:
    """The devices in the file, with the host's folder of each one's library."""
    devices = json.loads((cdi_dir / "nvshare.com-gpu.json").read_text())["devices"]
    return {device["name"]: device["containerEdits"]["mounts"][0]["hostPath"] for device in devices}


def written(cdi_dir: Path) -> list[Path]:
    return list(cdi_dir.iterdir())


async def test_described_before_offered(
    node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess], cdi_dir: Path
) -> None:
    """No device is unhealthy at first; each answer names devices that the file has; it comes back when removed."""
    seen: list[set[str]] = []

    async def look() -> None:
        seen.append(set(described(cdi_dir)))

    kubelet.before_answer = look
    with node.scheduler_socket():
        plugin = start("--device-list-strategy=cdi-cri", f"--cdi-spec-dir={cdi_dir}")
        await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
        assert seen == [{"GPU-1a", "GPU-1b", "all"}]
        assert all(set(update.values()) == {"Healthy"} for update in kubelet.updates)
        container = await kubelet.allocate(["GPU-1a__1"])
        assert [device.name for device in container.cdi_devices] == ["nvidia.com/gpu=GPU-1a", "nvshare.com/gpu=GPU-1a"]
        (cdi_dir / "nvshare.com-gpu.json").unlink()
        await until((cdi_dir / "nvshare.com-gpu.json").exists, "the file is there again")
        assert kubelet.healthy == ALL
        assert await asyncio.to_thread(plugin.terminate) == 0
    assert set(described(cdi_dir)) == {"GPU-1a", "GPU-1b", "all"}


async def test_without_cdi_nothing_is_written(
    node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess], cdi_dir: Path
) -> None:
    """The default strategy needs neither the folder nor the file."""
    start(f"--cdi-spec-dir={cdi_dir}")
    await until(lambda: len(kubelet.devices) == ALL, "all devices are known", timeout=30)
    assert written(cdi_dir) == []


async def test_the_file_is_of_the_one_that_serves(
    node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess], cdi_dir: Path
) -> None:
    """One that waits does not write it; one that follows does; the former one does not take it back or remove it."""
    options = ("--device-list-strategy=cdi-annotations", f"--cdi-spec-dir={cdi_dir}")
    newer = str(node.root / "newer")
    with node.scheduler_socket():
        first = start(*options)
        await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
        second = start(*options, f"--library-dir={newer}")
        await until(lambda: second.said("waiting for another instance"), "it waits", timeout=30)
        assert (await asyncio.to_thread(second.get, "/readyz"))[0] == 200
        assert all(path.startswith(str(node.library_dir)) for path in described(cdi_dir).values())
        assert await asyncio.to_thread(first.terminate) == 0
        await until(lambda: len(kubelet.registrations) == 3, "the second one serves alone")
        assert all(path.startswith(newer) for path in described(cdi_dir).values())
        assert all(set(update.values()) == {"Healthy"} for update in kubelet.updates)


async def test_a_folder_that_is_not_mounted(
    node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """One that waits is not ready, so a rollout stops before it serves; one that serves offers nothing and says why."""
    missing = f"--cdi-spec-dir={node.root / 'missing'}"
    with node.scheduler_socket():
        first = start()
        await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
        second = start("--device-list-strategy=cdi-cri", missing)
        await until(lambda: second.said("waiting for another instance"), "it waits", timeout=30)
        status, reasons = await asyncio.to_thread(second.get, "/readyz")
        assert status == 503
        assert "must be there, and be mounted into this container" in reasons
        assert await asyncio.to_thread(first.terminate) == 0
        await until(lambda: kubelet.healthy == 0, "nothing is offered")
        (node.root / "missing").mkdir()
        await until(lambda: kubelet.healthy == ALL, "all devices are healthy")
