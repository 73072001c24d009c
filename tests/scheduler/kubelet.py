"""A kubelet that says what containers were given, and a node with pods, for tests of the scheduler."""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import grpc

from nvshare.kubelet import podresources_v1_pb2 as api
from nvshare.kubelet.podresources_v1_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)

OURS = "nvshare.com/gpu"

_SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from nvshare.scheduler import server
from nvshare.scheduler.__main__ import main
proc, logs = map(Path, sys.argv[1:3])
del sys.argv[1:3]
server.describe = partial(server.describe, proc=proc, logs=logs)
main()
"""


class Kubelet(PodResourcesListerServicer):
    """Says that these containers hold these devices, or refuses, or keeps everybody waiting."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str, str], list[str]] = {}
        """The ids of nvshare's devices by namespace, pod and container; none: it is listed all the same."""
        self.others: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        """The ids of other plugins' devices, by resource."""
        self.claims: dict[tuple[str, str, str], str] = {}
        """The drivers of those with a claim."""
        self.claimed: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
        """What containers have by claims of their namespace: the claim, its driver, and the device."""
        self.refuses = False
        self.asked = 0
        self.may_answer = Event()
        self.may_answer.set()

    def List(self, request: api.ListPodResourcesRequest, context: Any) -> api.ListPodResourcesResponse:  # noqa: N802
        self.asked += 1
        self.may_answer.wait()
        if self.refuses:
            _refuse(context)
        places = {**self.held, **self.others, **self.claims, **self.claimed}
        return api.ListPodResourcesResponse(pod_resources=[self._pod(*place) for place in places])

    def _pod(self, *place: str) -> api.PodResources:
        namespace, pod, container = place
        resources = {OURS: self.held.get((namespace, pod, container), [])}
        resources |= self.others.get((namespace, pod, container), {})
        driver = self.claims.get((namespace, pod, container))
        claims = [api.ClaimResource(driver_name=driver)] if driver else []
        return api.PodResources(
            namespace=namespace,
            name=pod,
            containers=[
                api.ContainerResources(
                    name=container,
                    devices=[
                        api.ContainerDevices(resource_name=resource, device_ids=ids)
                        for resource, ids in resources.items()
                    ],
                    dynamic_resources=[
                        api.DynamicResource(claim_resources=claims),
                        *(
                            api.DynamicResource(
                                claim_name=claim,
                                claim_namespace=namespace,
                                claim_resources=[
                                    api.ClaimResource(driver_name=of, pool_name="worker-1", device_name=device)
                                ],
                            )
                            for claim, of, device in self.claimed.get((namespace, pod, container), ())
                        ),
                    ],
                )
            ],
        )


def _refuse(context: Any) -> NoReturn:
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "not now")
    raise AssertionError("abort raises")


@contextmanager
def answering(kubelet: Kubelet, address: Path) -> Iterator[None]:
    """A kubelet from start to stop."""
    server = grpc.server(ThreadPoolExecutor(1))
    add_PodResourcesListerServicer_to_server(kubelet, server)
    server.add_insecure_port(f"unix:{address}")
    server.start()
    try:
        yield
    finally:
        kubelet.may_answer.set()
        server.stop(None).wait()


class Node:
    """Where the kernel and kubelet's folders say what a test wants, of the processes that it names."""

    def __init__(self, root: Path) -> None:
        self._proc, self._logs = root / "proc", root / "log"
        (self._logs / "containers").mkdir(parents=True)

    def command(self, scheduler: list[str]) -> list[str]:
        """The command line of a scheduler on this node."""
        python, option, _module, *arguments = scheduler
        assert (python, option) == (sys.executable, "-m")
        return [python, "-c", _SCRIPT, os.fspath(self._proc), os.fspath(self._logs), *arguments]

    def put(self, pid: int, namespace: str, pod: str, container: str) -> None:
        """A process is in this container now."""
        uid = uuid.uuid5(uuid.NAMESPACE_DNS, f"{pod}.{namespace}")
        container_id = hashlib.sha256(f"{uid} {container}".encode()).hexdigest()
        folder = self._logs / "pods" / f"{namespace}_{pod}_{uid}" / container
        folder.mkdir(parents=True, exist_ok=True)
        link = self._logs / "containers" / f"{pod}_{namespace}_{container}-{container_id}.log"
        if not link.is_symlink():
            link.symlink_to(f"/var/log/pods/{namespace}_{pod}_{uid}/{container}/0.log")
        process = self._proc / str(pid)
        process.mkdir(parents=True, exist_ok=True)
        (process / "cmdline").write_bytes(pod.encode())
        (process / "status").write_text(f"NSpid:\t{pid}\t1\n")
        (process / "cgroup").write_text(f"0::/kubepods/burstable/pod{uid}/{container_id}\n")

    def hide(self, pid: int) -> Path:
        """Whoever looks at a process is kept waiting until somebody writes to this file."""
        status = self._proc / str(pid) / "status"
        status.unlink()
        os.mkfifo(status)
        return status

    def put_on_the_host(self, pid: int) -> None:
        """A process is in no container."""
        process = self._proc / str(pid)
        process.mkdir(parents=True, exist_ok=True)
        (process / "cmdline").write_bytes(b"host")
        (process / "status").write_text(f"NSpid:\t{pid}\n")
        (process / "cgroup").write_text("0::/user.slice/session-1.scope\n")
