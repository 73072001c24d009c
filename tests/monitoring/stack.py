"""A scheduler and a device plugin on simulated GPUs, programs in pods, and a real Prometheus that scrapes them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from nvshare import paths, scheduler_process, simgpu
from nvshare.kubelet import deviceplugin_v1beta1_pb2 as api
from nvshare.kubelet.deviceplugin_v1beta1_pb2_grpc import DevicePluginStub
from tests.conftest import SOURCE_ROOT, Libraries
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.process import Node as PluginNode
from tests.deviceplugin.process import PluginProcess
from tests.polling import poll_until
from tests.scheduler.kubelet import Kubelet, Node, answering
from tests.scheduler.swapping_programs import PROGRAM
from tests.scheduler.wire_client import Scheduler

DEVICES = "2x512MiB/16MiB"
NAMESPACE = "team"
UNUSED = "notebook"
"""A pod that was given a GPU and does not use it."""
_SCHEDULER = (
    "--metrics-address=127.0.0.1:0",
    "--quantum=0.5",
    "--host-memory=2GiB",
    "--reserve=16MiB",
    "--sleep-after=1",
)
_STARTED_LATER = (
    """
import sys, time
class Rest:
    def readline(self):
        time.sleep(float(sys.argv[4]))
sys.stdin.readline()
sys.stdin = Rest()
"""
    + PROGRAM
)
_ROUNDS = 100000


@dataclass(frozen=True, slots=True)
class Job:
    """What one pod runs, and what its environment says."""

    pod: str
    mebibytes: int
    ordinal: int
    terms: dict[str, str]
    rest_seconds: float = 0
    """Before each round."""


JOBS = [
    Job(
        "trainer",
        300,
        0,
        {paths.WEIGHT: "2", paths.MEMORY_LIMIT: "400Mi", paths.MEMORY_REQUEST: "64Mi", paths.COMPUTE_LIMIT: "90%"},
    ),
    Job("batch", 300, 0, {}),
    Job("serving", 60, 1, {}),
    Job("experiment", 60, 1, {}),
    Job("chat", 60, 0, {paths.SLEEP: "idle"}, rest_seconds=3),
]
"""The first two don't fit their GPU together, the next two do; the last one sleeps between its rounds."""


class Prometheus:
    """One that is running."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def get(self, page: str, **arguments: str) -> Any:
        """The data of an answer of its API."""
        url = f"{self._address}/api/v1/{page}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=20) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression gives now, without what is no number."""
        return [each for each in self.get("query", query=expression)["result"] if each["value"][1] != "NaN"]


@dataclass(frozen=True, slots=True)
class Stack:
    """All of it."""

    scheduler: Scheduler
    plugin: PluginProcess
    prometheus: Prometheus
    gpu: str
    """One of them."""
    ask_plugin: Callable[[str], None]
    """For one virtual device, as kubelet does."""

    def make_mistakes(self) -> None:
        """A peer that talks nonsense, and a request for what there is not; and one that is right."""
        self.scheduler.client().raw.send(b"nonsense" * 64)
        self.ask_plugin(f"{self.gpu}__1")
        with pytest.raises(grpc.RpcError):
            self.ask_plugin("none__1")

    def pages(self) -> list[str]:
        """The metrics of scheduler and plugin."""
        return [self._page(self.scheduler_port), self._page(self.plugin.port)]

    @property
    def scheduler_port(self) -> int:
        (line,) = self.scheduler.logged("metrics")
        return int(str(line["port"]))

    def _page(self, port: int) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as response:
            return str(response.read().decode())


@contextmanager
def running(libraries: Libraries, root: Path, prometheus: str, alerts: Path) -> Iterator[Stack]:
    """All of it until the context's end; ``prometheus``: the program."""
    with ExitStack() as stack:
        seen = simgpu.environment(root / "simgpu", DEVICES)
        plugin_node = PluginNode(root / "node")
        plugin_node.root.mkdir()
        plugin_node.create()
        node = Node(root)
        kubelet = Kubelet()
        stack.enter_context(answering(kubelet, root / "kubelet.sock"))
        stack.enter_context(_on(node))
        options = (*_SCHEDULER, f"--pod-resources={root / 'kubelet.sock'}")
        scheduler = stack.enter_context(Scheduler(plugin_node.run_dir.root, *options, environment=seen))
        ask_plugin = stack.enter_context(_kubelet(plugin_node.kubelet_dir))
        inherited = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}"}
        plugin = PluginProcess(plugin_node, inherited | seen)
        stack.callback(plugin.kill)
        variables = inherited | seen
        variables |= {paths.LD_PRELOAD: str(libraries.shim), paths.RUN_DIR: str(plugin_node.run_dir.root)}
        for job in JOBS:
            _start(stack, node, job, variables | {paths.MEMORY: "swap"})
        gpus = poll_until(lambda: _gpus(scheduler, len(JOBS)), "all programs are clients", 60)
        kubelet.held[NAMESPACE, UNUSED, "main"] = [f"{gpus[0]}__1"]
        kubelet.others["other", "given-twice", "main"] = {"nvidia.com/gpu": [gpus[0]]}
        scraping = _prometheus(stack, root, prometheus, alerts, scheduler, plugin)
        made = Stack(scheduler, plugin, scraping, gpus[0], ask_plugin)
        poll_until(lambda: len(scraping.query("up == 1")) == 2, "both are scraped", 60, interval=0.1)
        yield made


def _gpus(scheduler: Scheduler, clients: int) -> list[str]:
    """The GPUs, once there are so many clients that have held one."""
    devices = scheduler.status().devices
    there = [client for device in devices for client in device.clients if client.grants and client.identity.pod]
    return [device.uuid for device in devices] if len(there) == clients else []


@contextmanager
def _on(node: Node) -> Iterator[None]:
    command = scheduler_process.command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
        yield


def _start(stack: ExitStack, node: Node, job: Job, variables: dict[str, str]) -> None:
    """A program in a pod; it begins when the node knows in which."""
    arguments = (job.mebibytes, _ROUNDS, job.ordinal, job.rest_seconds)
    command = [sys.executable, "-c", _STARTED_LATER, *map(str, arguments)]
    process = stack.enter_context(
        subprocess.Popen(
            command, env=variables | job.terms, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
    )
    stack.callback(process.kill)
    node.put(process.pid, NAMESPACE, job.pod, "main")
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@contextmanager
def _kubelet(folder: Path) -> Iterator[Callable[[str], None]]:
    """A kubelet in a thread; asks the plugin for one virtual device."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    kubelet = FakeKubelet(folder)

    def wait(done: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(done, loop).result(30)

    def ask(device: str) -> None:
        poll_until(lambda: kubelet.devices, "the plugin has told its devices", 60)
        with grpc.insecure_channel(f"unix:{folder / kubelet.registrations[-1].endpoint}") as channel:
            asked = api.ContainerAllocateRequest(devices_ids=[device])
            DevicePluginStub(channel).Allocate(api.AllocateRequest(container_requests=[asked]), timeout=20)

    wait(kubelet.start())
    try:
        yield ask
    finally:
        wait(kubelet.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _prometheus(
    stack: ExitStack, root: Path, program: str, alerts: Path, scheduler: Scheduler, plugin: PluginProcess
) -> Prometheus:
    """Scrapes as docs/monitoring.md says, but each second, with the labels that a PodMonitor gives."""
    of_pod = {"node": "node-1", "namespace": "nvshare-system", "container": "main"}
    (line,) = scheduler.logged("metrics")
    ports = {"nvshare-scheduler": line["port"], "nvshare-device-plugin": plugin.port}
    jobs = [
        {
            "job_name": name,
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"pod": f"{name}-x1y2z", **of_pod}}],
        }
        for name, port in ports.items()
    ]
    each = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = root / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": each, "rule_files": [str(alerts)], "scrape_configs": jobs}))
    log = root / "prometheus.log"
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={root / 'data'}"]
    with log.open("w") as file:
        process = stack.enter_context(
            subprocess.Popen([*command, "--web.listen-address=127.0.0.1:0"], stdout=file, stderr=file)
        )
    stack.callback(process.kill)

    def port() -> int:
        assert process.poll() is None, log.read_text()
        said = log.read_text()
        found = re.search(r'"Listening on" address=127\.0\.0\.1:([0-9]+)', said)
        return int(found[1]) if found and "Server is ready" in said else 0

    return Prometheus(poll_until(port, "Prometheus answers", 60))
