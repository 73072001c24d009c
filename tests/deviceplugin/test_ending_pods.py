"""The plugin as a process: pods that end take no GPU from those that come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.process import Node, PluginProcess
from tests.deviceplugin.test_scheduler_watch import allocation, serve
from tests.polling import until

ALL = 20


@pytest.fixture
def folder(node: Node) -> Path:
    """Where the kubelet is: beside the node's other folders."""
    return node.kubelet_dir


async def test_four_follow_four(node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess]) -> None:
    """One on a GPU and three on the other were deleted and end still; each GPU gets two of the next four."""
    node.run_dir.admin_socket.parent.mkdir()
    server, admin = await serve(node.run_dir.admin_socket)
    held = [allocation("one", "GPU-1a__1", ending=True)]
    held += [allocation(f"other-{number}", f"GPU-1b__{number}", ending=True) for number in (1, 2, 3)]
    free = [f"{gpu}__{number}" for gpu in ("GPU-1a", "GPU-1b") for number in range(4, 11)]
    free += ["GPU-1a__2", "GPU-1a__3"]
    with node.scheduler_socket():
        start()
        await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
        assert (await kubelet.prefer(free, 1))[0].startswith("GPU-1a")
        devices = [admin_pb2.Device(uuid=gpu, allocations=held) for gpu in ("GPU-1a", "GPU-1b")]
        admin.status = admin_pb2.Status(devices=devices)
        asked = admin.asked
        await until(lambda: admin.asked > asked + 1, "the plugin has heard it")
        chosen = []
        for _ in range(4):
            (device,) = await kubelet.prefer(free, 1)
            free.remove(device)
            chosen.append(device.partition("__")[0])
        assert sorted(chosen) == ["GPU-1a", "GPU-1a", "GPU-1b", "GPU-1b"]
    await server.stop(None)
