"""A kubelet, and instances of the plugin beside it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from nvshare.deviceplugin.lifecycle import Timing
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.instances import QUICK, Instance


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kubelet-") as path:
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
