"""What the running scheduler makes of kubelet's word on who holds virtual devices."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.kubelet import Kubelet, answering
from tests.scheduler.wire_client import DEVICE, GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]
TWICE = "another device plugin gave a GPU that nvshare shares to a pod, and neither knows of the other"
GPU = "GPU-6e767368-6172-6500-0000-000000000001"


@pytest.fixture
def address(run_dir: RunDir) -> Path:
    """Where the test's kubelet listens."""
    return run_dir.root / "kubelet.sock"


def unused(scheduler: Scheduler) -> dict[str, list[tuple[str, str, str]]]:
    """The containers without a client by device, of every device."""
    return {
        device.uuid: [
            (entry.identity.namespace, entry.identity.pod, entry.identity.container)
            for entry in device.allocations_without_client
        ]
        for device in scheduler.status().devices
    }


def test_containers_without_a_client(serve: Serve, address: Path) -> None:
    """They show on their GPU, also if it has had no client, and no longer than kubelet says that they hold it."""
    kubelet = Kubelet()
    kubelet.held["vision", "own-preload", "c"] = [f"{GPU}__3", f"{GPU}__1"]
    kubelet.held["vision", "other-plugin", "c"] = ["GPU-1::2"]
    with answering(kubelet, address):
        scheduler = serve("--pod-resources", str(address), "--metrics-address=127.0.0.1:0")
        poll_until(lambda: unused(scheduler) == {GPU: [("vision", "own-preload", "c")]}, "it shows", TIMEOUT_SECONDS)
        assert figures(scheduler)[f'nvshare_allocations_without_client{{gpu="{GPU}"}}'] == 1
        (device,) = scheduler.status().devices
        assert device.allocations_without_client[0] == admin_pb2.Allocation(
            identity=admin_pb2.Identity(namespace="vision", pod="own-preload", container="c", source="kubelet"),
            virtual_device_ids=[f"{GPU}__1", f"{GPU}__3"],
        )
        scheduler.client().register()
        assert scheduler.status().devices[0].total_bytes == 16 * GIB
        kubelet.held.clear()
        poll_until(lambda: unused(scheduler) == {GPU: []}, "it is gone", TIMEOUT_SECONDS)


def test_what_is_held(serve: Serve, address: Path) -> None:
    """All virtual devices that containers hold are told, with and without a client, while there is a kubelet."""
    kubelet = Kubelet()
    kubelet.held["n", "p", "c"] = [f"{GPU}__3", f"{GPU}__1"]
    kubelet.held["n", "q", "c"] = [f"{GPU}__7"]
    scheduler = serve("--pod-resources", str(address))
    scheduler.client().register(device_uuid=DEVICE)
    assert not scheduler.status().knows_allocations
    with answering(kubelet, address):
        poll_until(lambda: scheduler.status().knows_allocations, "kubelet was heard", TIMEOUT_SECONDS)
        (device,) = scheduler.status().devices
        assert {each.identity.pod: list(each.virtual_device_ids) for each in device.allocations} == {
            "p": [f"{GPU}__1", f"{GPU}__3"],
            "q": [f"{GPU}__7"],
        }
    address.unlink(missing_ok=True)
    poll_until(lambda: not scheduler.status().knows_allocations, "there is no kubelet any more", TIMEOUT_SECONDS)


def test_a_gpu_that_two_plugins_gave_out(serve: Serve, address: Path) -> None:
    """The status and a metric show to whom the other one gave it, and the log has said so."""
    kubelet = Kubelet()
    kubelet.held["n", "ours", "c"] = [f"{GPU}__3"]
    kubelet.others["n", "theirs", "c"] = {"nvidia.com/gpu": [f"{GPU}::1"]}
    with answering(kubelet, address):
        scheduler = serve("--pod-resources", str(address), "--metrics-address=127.0.0.1:0")
        [line] = scheduler.logged(TWICE)
        assert (line["pod"], line["device"], line["resource"]) == ("theirs", GPU, "nvidia.com/gpu")
        (device,) = scheduler.status().devices
        assert list(device.allocations_by_others) == [
            admin_pb2.Allocation(
                identity=admin_pb2.Identity(namespace="n", pod="theirs", container="c", source="kubelet"),
                virtual_device_ids=[f"{GPU}::1"],
                resource="nvidia.com/gpu",
            )
        ]
        assert figures(scheduler)[f'nvshare_allocations_by_others{{gpu="{GPU}"}}'] == 1


def test_watchers_hear_of_it(serve: Serve, address: Path) -> None:
    """Who watches the status sees an allocation come without asking again."""
    kubelet = Kubelet()
    with answering(kubelet, address):
        scheduler = serve("--pod-resources", str(address))
        scheduler.client().register(device_uuid=DEVICE)
        stream = scheduler.admin.WatchStatus(admin_pb2.WatchStatusRequest())
        assert not next(stream).devices[0].allocations_without_client
        kubelet.held["n", "p", "c"] = [f"{GPU}__1"]
        seen = next(status for status in stream if status.devices[0].allocations_without_client)
        assert seen.devices[0].allocations_without_client[0].identity.pod == "p"
        stream.cancel()


def test_kubelet_comes_goes_and_refuses(serve: Serve, address: Path) -> None:
    """Without a kubelet there is nothing to say; what it said last counts while it refuses, which is logged once."""
    scheduler = serve("--pod-resources", str(address))
    kubelet = Kubelet()
    kubelet.held["n", "p", "c"] = [f"{GPU}__1"]
    with answering(kubelet, address):
        poll_until(lambda: unused(scheduler) == {GPU: [("n", "p", "c")]}, "it shows", TIMEOUT_SECONDS)
        kubelet.refuses = True
        asked = kubelet.asked
        poll_until(lambda: kubelet.asked >= asked + 2, "it was asked twice more", TIMEOUT_SECONDS)
        assert unused(scheduler) == {GPU: [("n", "p", "c")]}
        (line,) = [line for line in scheduler.log() if line["level"] == "warning"]
        assert (line["socket"], line["reason"]) == (str(address), "RESOURCE_EXHAUSTED: not now")
    address.unlink(missing_ok=True)
    poll_until(lambda: unused(scheduler) == {GPU: []}, "nothing is known any more", TIMEOUT_SECONDS)


def test_kubelet_that_hangs(serve: Serve, address: Path) -> None:
    """Clients are served and described meanwhile, and the scheduler ends when it is told to."""
    with listening(os.fspath(address)) as hanging:
        scheduler = serve("--pod-resources", os.fspath(address))
        with hanging.accept()[0]:
            client = scheduler.client().register()
            client.send(wire.LockReleased(client.lock()))
            assert scheduler.logged("client registered")
            assert scheduler.terminate() == 0


@contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """A socket whose connections nobody answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(TIMEOUT_SECONDS)
        yield server


def test_pods_that_end(serve: Serve, address: Path) -> None:
    """What they hold is marked while the node agent says so, and watchers hear of it."""
    kubelet = Kubelet()
    kubelet.held["n", "p", "c"] = [f"{GPU}__1"]
    kubelet.held["other", "p", "c"] = [f"{GPU}__2"]

    def ending(status: admin_pb2.Status) -> dict[str, bool]:
        return {each.identity.namespace: each.ending for device in status.devices for each in device.allocations}

    with answering(kubelet, address):
        scheduler = serve("--pod-resources", str(address))
        poll_until(lambda: scheduler.status().knows_allocations, "kubelet was heard", TIMEOUT_SECONDS)
        stream = scheduler.admin.WatchStatus(admin_pb2.WatchStatusRequest())
        assert ending(next(stream)) == {"n": False, "other": False}
        told = admin_pb2.SetAnnotatedTermsRequest(ending=[admin_pb2.PodName(namespace="n", pod="p")])
        scheduler.admin.SetAnnotatedTerms(told, timeout=TIMEOUT_SECONDS)
        assert ending(next(stream)) == {"n": True, "other": False}
        stream.cancel()
        scheduler.admin.SetAnnotatedTerms(admin_pb2.SetAnnotatedTermsRequest(), timeout=TIMEOUT_SECONDS)
        assert ending(scheduler.status()) == {"n": False, "other": False}
