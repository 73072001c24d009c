"""A kubelet, and instances of the plugin beside it, in tasks of the test or as processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from nvshare.deviceplugin.kubelet.lifecycle import Timing
from tests.conftest import SOURCE_ROOT, Libraries
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.instances import QUICK, Instance
from tests.deviceplugin.process import GPUS, Node, PluginProcess


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kubelet-%41-") as path:
        yield Path(path)


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[FakeKubelet]:
    fake = FakeKubelet(folder)
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def begin(folder: Path) -> AsyncIterator[Callable[..., Instance]]:
    """Starts instances beside the same kubelet; all end with the test, however that ends."""
    started: list[Instance] = []

    def start(name: str = "one", timing: Timing = QUICK) -> Instance:
        started.append(Instance(folder, name, timing))
        return started[-1]

    yield start
    for one in started:
        await one.stop()


@pytest.fixture
async def instance(begin: Callable[..., Instance]) -> Instance:
    return begin()


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="node-") as root:
        made = Node(Path(root))
        made.create()
        yield made


@pytest.fixture
def surroundings(libraries: Libraries) -> dict[str, str]:
    """A process's environment on a node whose GPUs are named and that has no NVML."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE_ROOT), "NVIDIA_VISIBLE_DEVICES": GPUS}


@pytest.fixture
def start(node: Node, surroundings: dict[str, str]) -> Iterator[Callable[..., PluginProcess]]:
    """Starts the command on the node; all end with the test, however that ends."""
    started: list[PluginProcess] = []

    def begin(*options: str, **variables: str) -> PluginProcess:
        started.append(PluginProcess(node, surroundings | variables, *options))
        return started[-1]

    yield begin
    for plugin in started:
        if plugin.process.poll() is None:
            plugin.kill()
