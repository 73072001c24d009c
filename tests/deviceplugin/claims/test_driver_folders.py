"""Folders of the node that are removed while the driver serves."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.deviceplugin.host.problems import DeadFolderError
from nvshare.deviceplugin.settings.configuration import AllocationMode
from nvshare.kubernetes.account import Account
from nvshare.log import Log, LogLines
from tests.deviceplugin.claims.driver_bench import Node
from tests.kubernetes.fake_api import Cluster
from tests.polling import until

pytestmark = pytest.mark.usefixtures("quick_mirror")


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, because a socket's path must be."""
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder)


@pytest.fixture(params=["plugins/gpu.nvshare.com", "plugins_registry"])
def folder(request: pytest.FixtureRequest, root: Path) -> Path:
    """One that the driver's container has mounted."""
    made = root / request.param
    made.mkdir(parents=True)
    return made


def remove(folder: Path) -> int:
    """On the node, while it is mounted; the descriptor that stands for the mount."""
    mount = os.open(folder, os.O_RDONLY)
    shutil.rmtree(folder)
    folder.symlink_to(f"/proc/self/fd/{mount}")
    return mount


async def test_a_mount_that_is_dead(reached: Account, cluster: Cluster, log: Log, root: Path, folder: Path) -> None:
    """The driver ends and names the folder: nothing can be made in it. A new container has what is there then."""
    node = Node(root, reached, cluster, log, LogLines(os.open(os.devnull, os.O_WRONLY)))
    serving = asyncio.create_task(node.make(AllocationMode.DRA).run())
    await until(lambda: cluster.asked != [], "it runs")
    mount = remove(folder)
    with pytest.raises(DeadFolderError, match=str(folder)):
        async with asyncio.timeout(20):
            await serving
    os.close(mount)
