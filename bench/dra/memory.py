"""What the device plugin's program has in memory while it counts, and while claims are made of it.

    PYTHONPATH=src:. python -m bench.dra.memory [--pods COUNT]

from the root of the project, after ``make libs``. The program runs as a process of its own on two simulated GPUs;
kubelet, the scheduler and the API server are the tests'. Each way runs twice: the first run compiles the modules.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc

from nvshare import paths, simgpu
from nvshare.admin.admin_pb2_grpc import add_AdminServicer_to_server
from nvshare.kubelet.dra_v1_pb2 import Claim
from tests.deviceplugin.claims.bench import claim, result
from tests.deviceplugin.claims.driver_bench import CLAIMS, Scheduler
from tests.deviceplugin.claims.fake_kubelet import FakeKubelet
from tests.deviceplugin.fake_kubelet import FakeKubelet as FakePluginKubelet
from tests.deviceplugin.process import Node, PluginProcess
from tests.kubernetes.documents import NODE, node_document
from tests.kubernetes.fake_api import Cluster, make_account, serving
from tests.polling import until
from tests.resident_memory import keeping_bytecode

_AT_ONCE: Final = 4
"""So many pods have claims at a time."""
_SECONDS: Final = 60.0
_PROGRAM: Final = """
import sys
from pathlib import Path
from nvshare import paths
paths.SERVICE_ACCOUNT_DIR = Path(sys.argv.pop(1))
from nvshare.deviceplugin.__main__ import main
main()
"""


class Machine:
    """A node's folders, and who is there beside the program."""

    def __init__(self, root: Path, compiled: Path) -> None:
        self.node = Node(root / "node")
        self.node.root.mkdir()
        self.node.create()
        self.scheduler = Scheduler()
        self.cluster = Cluster()
        self.cluster.put("/api/v1/nodes", node_document())
        self.cluster.objects[CLAIMS] = {}
        self._account = make_account(root / "account")
        self._environment = os.environ | keeping_bytecode(compiled) | simgpu.environment(root / "gpus", "2x1GiB")
        self._environment |= {paths.NVIDIA_VISIBLE_DEVICES: "all"}

    @asynccontextmanager
    async def runs(self, *options: str) -> AsyncIterator[PluginProcess]:
        """The program, with these options, beside a scheduler and an API server."""
        admin = self.node.run_dir.admin_socket
        admin.parent.mkdir(parents=True, exist_ok=True)
        server = grpc.aio.server()
        add_AdminServicer_to_server(self.scheduler, server)
        server.add_insecure_port(f"unix:{admin}")
        await server.start()
        with serving(self.cluster, self._account.folder) as found, self.node.scheduler_socket():
            environment = self._environment | {
                paths.KUBERNETES_SERVICE_HOST: found.host,
                paths.KUBERNETES_SERVICE_PORT: str(found.port),
            }
            command = (sys.executable, "-c", _PROGRAM, str(found.folder))
            plugin = PluginProcess(self.node, environment, *options, command=command)
            try:
                yield plugin
            finally:
                await asyncio.to_thread(plugin.terminate)
                await server.stop(None)
                self.node.run_dir.client_socket.unlink()


async def counting(machine: Machine, pods: int) -> list[str]:
    """Pods are given virtual devices."""
    kubelet = FakePluginKubelet(machine.node.kubelet_dir)
    await kubelet.start()
    async with machine.runs() as plugin:
        await until(lambda: kubelet.healthy == 20, "the devices are known", _SECONDS)
        machine.scheduler.has(*{each.partition("__")[0] for each in kubelet.devices})
        before = resident(plugin)
        for number in range(pods):
            await kubelet.allocate([sorted(kubelet.devices)[number % 20]])
        rows = [f"| counting: at first | {before} |", f"| after {pods} pods | {resident(plugin)} |"]
    await kubelet.stop()
    return rows


async def claiming(machine: Machine, pods: int) -> list[str]:
    """Pods have claims, a few of them at a time."""
    kubelet = FakeKubelet(machine.node.root)
    kubelet.start()
    folder = f"--cdi-spec-dir={machine.node.root / 'cdi'}"
    (machine.node.root / "cdi").mkdir(exist_ok=True)
    async with machine.runs("--allocation=dra", f"--node-name={NODE}", folder) as plugin:
        await until(lambda: len(kubelet.health) == 2, "the driver serves", _SECONDS)
        machine.scheduler.has(*(f"GPU{name[3:]}" for _, name in kubelet.health))
        await until(machine.cluster.slices, "the GPUs can be claimed", _SECONDS)
        (uuid, *_) = (each["attributes"]["uuid"]["string"] for each in machine.cluster.slice()["spec"]["devices"])
        before = resident(plugin)
        for first in range(0, pods, _AT_ONCE):
            claims = [
                Claim(uid=f"u{number}", namespace="team", name=f"u{number}")
                for number in range(first, first + _AT_ONCE)
            ]
            for each in claims:
                given = result(uuid, memory="64Mi", pool=NODE)
                machine.cluster.put(CLAIMS, claim(each.uid, given, name=each.name))
            answers = await asyncio.gather(*(kubelet.prepare(each) for each in claims))
            assert not any(each.error for answer in answers for each in answer.values()), answers
            await until(lambda: len(machine.scheduler.claims) == _AT_ONCE, "the scheduler knows them")
            for each in claims:
                await kubelet.unprepare(each)
                machine.cluster.delete(CLAIMS, each.uid)
        rows = [f"| claims: at first | {before} |", f"| after {pods} pods | {resident(plugin)} |"]
    await kubelet.stop()
    return rows


def resident(plugin: PluginProcess) -> str:
    """In megabytes: all, and as far as it is not shared with others."""
    folder = Path("/proc") / str(plugin.process.pid)
    found = _kibibytes(folder / "status") | _kibibytes(folder / "smaps_rollup")
    return " | ".join(f"{found[key] * 1024 / 1e6:.1f}" for key in ("VmRSS", "Pss", "RssAnon"))


def _kibibytes(file: Path) -> Mapping[str, int]:
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}


async def measure(pods: int) -> list[str]:
    """The rows of the table."""
    rows = []
    with tempfile.TemporaryDirectory() as compiled:
        for way in (counting, claiming):
            for count in (_AT_ONCE, pods):
                with tempfile.TemporaryDirectory(prefix="n-") as root:
                    found = await way(Machine(Path(root), Path(compiled)), count)
            rows += found
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pods", type=int, default=40, metavar="COUNT")
    rows = asyncio.run(measure(parser.parse_args().pods))
    print("| MB | resident | its part of what is shared (Pss) | its own (anonymous) |\n|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
