"""How fast the device plugin answers kubelet, and what it costs while nothing happens.

    PYTHONPATH=src:. python bench/device_plugin.py [--idle SECONDS]

from the root of the project. The plugin runs as a process of its own; kubelet's side is the tests' fake. Exit status 1
when a figure is not what it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from nvshare.kubelet import deviceplugin_v1beta1_pb2 as api
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.process import COMMAND, Node, PluginProcess
from tests.polling import until

GPUS = [f"GPU-{number:08x}-1111-2222-3333-444444444444" for number in range(8)]
CALLS = 2000
LIMIT_SECONDS = 0.005
LIMIT_BYTES = 4 * 1024 * 1024
LIMIT_RESIDENT_BYTES = 80 * 1000 * 1000
LIMIT_IDLE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the result."""

    what: str
    value: str
    limit: str
    good: bool


def install(node: Node, environment: dict[str, str]) -> None:
    """Puts the library on the node, without which all devices would be unhealthy."""
    command = [*COMMAND, "install-library", f"--library-dir={node.library_dir}"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


@asynccontextmanager
async def running(virtual_devices: int) -> AsyncIterator[tuple[FakeKubelet, PluginProcess]]:
    """A plugin with 8 GPUs on a node of its own, registered with a kubelet."""
    with tempfile.TemporaryDirectory(prefix="node-") as root:
        node = Node(Path(root))
        node.create()
        environment = os.environ | {"NVIDIA_VISIBLE_DEVICES": ",".join(GPUS)}
        await asyncio.to_thread(install, node, environment)
        kubelet = FakeKubelet(node.kubelet_dir)
        await kubelet.start()
        with node.scheduler_socket():
            plugin = PluginProcess(node, environment, f"--virtual-devices={virtual_devices}")
            try:
                await until(lambda: kubelet.healthy == len(GPUS) * virtual_devices, "all devices are known", 30)
                yield kubelet, plugin
            finally:
                await asyncio.to_thread(plugin.terminate)
                await kubelet.stop()


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started


def latency(what: str, seconds: list[float]) -> Figure:
    """Median, 99th percentile and the longest of the calls."""
    p99 = statistics.quantiles(seconds, n=100)[98]
    text = f"p50 {statistics.median(seconds) * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, longest {max(seconds) * 1e3:.2f} ms"
    return Figure(f"{what}, 8 GPUs x 100, {len(seconds)} calls", text, "p99 < 5 ms", p99 < LIMIT_SECONDS)


async def answers() -> list[Figure]:
    """Both calls of an admission, from nodes that are empty to full, for containers that want one to eight."""
    dice = random.Random(1)
    async with running(100) as (kubelet, _):
        everything = sorted(kubelet.devices)
        preferred, allocated = [], []
        for _ in range(CALLS):
            size = dice.randint(1, 8)
            available = dice.sample(everything, dice.randint(size, len(everything)))
            preferred.append(await timed(lambda: kubelet.prefer(available, size)))  # noqa: B023
            allocated.append(await timed(lambda: kubelet.allocate(available[:size])))  # noqa: B023
        return [latency("GetPreferredAllocation", preferred), latency("Allocate", allocated)]


async def listing() -> list[Figure]:
    """The size of what kubelet gets when there are very many virtual devices."""
    async with running(1000) as (kubelet, plugin):
        devices = [api.Device(ID=device_id, health=health) for device_id, health in kubelet.devices.items()]
        size = api.ListAndWatchResponse(devices=devices).ByteSize()
        return [
            Figure("ListAndWatch, 8 GPUs x 1000", f"{size / 1024:.0f} KiB", "well under 4 MiB", size < LIMIT_BYTES / 4),
            resident("8 GPUs x 1000", plugin),
        ]


def resident(what: str, plugin: PluginProcess) -> Figure:
    used = psutil.Process(plugin.process.pid).memory_info().rss
    return Figure(f"resident memory, {what}", f"{used / 1e6:.1f} MB", "< 80 MB", used < LIMIT_RESIDENT_BYTES)


async def idle(seconds: float) -> list[Figure]:
    """What the plugin uses while nothing changes, probes of its health every 5 seconds included."""
    async with running(10) as (_, plugin):
        process = psutil.Process(plugin.process.pid)
        before = process.cpu_times()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.to_thread(plugin.get, "/readyz")
            await asyncio.sleep(min(5.0, left))
        after = process.cpu_times()
        share = (after.user + after.system - before.user - before.system) / seconds
        return [
            Figure(f"CPU while idle, {seconds:.0f} s", f"{share:.2%} of a core", "< 1 %", share < LIMIT_IDLE_SHARE),
            resident("8 GPUs x 10", plugin),
        ]


async def measure(idle_seconds: float) -> list[Figure]:
    return [*await answers(), *await listing(), *await idle(idle_seconds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--idle", type=float, default=30.0, metavar="SECONDS", help="how long idleness is watched")
    figures = asyncio.run(measure(parser.parse_args().idle))
    print("| what | measured | must be |\n|---|---|---|")
    for figure in figures:
        print(f"| {figure.what} | {figure.value} | {figure.limit}{'' if figure.good else ' (missed)'} |")
    sys.exit(not all(figure.good for figure in figures))


if __name__ == "__main__":
    main()
