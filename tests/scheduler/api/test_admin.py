"""The admin API of a real scheduler."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc
import pytest

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.admin_channel import LARGEST_ANSWER
from nvshare.protocol import wire
from nvshare.scheduler.descriptors import MOST_CLIENTS
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]

DEVICE_NAME = "GPU-6e767368-6172-6500-0000-000000000001"
OWN_COMMAND = " ".join(Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0"))
OTHER_NAME = "GPU-6e767368-6172-6500-0000-000000000002"


def test_status_names_everything(serve: Serve) -> None:
    """What a client said and did, and what the kernel says of it, is in the status."""
    scheduler = serve("--policy", "exclusive", "--quantum", "600")
    client = scheduler.client().register(
        footprint_bytes=3 * GIB, backend=wire.Backend.MANAGED, command="not this", name_hint="no-pod"
    )
    client.lock()
    waiter = scheduler.client().register()
    waiter.send(wire.ReqLock())
    client.expect(wire.Waiters)
    described: list[admin_pb2.Status] = []

    def is_described() -> bool:
        described.append(scheduler.status())
        return all(shown.command == OWN_COMMAND for shown in described[-1].devices[0].clients)

    poll_until(is_described, "what the kernel says of both is there", TIMEOUT_SECONDS)
    status = described[-1]
    assert status.scheduler_pid == scheduler.process.pid
    assert 0 < status.uptime_seconds < 60
    [device] = status.devices
    assert (device.uuid, device.total_bytes, device.policy) == (DEVICE_NAME, 16 * GIB, "exclusive")
    assert device.quantum_seconds == 600
    assert 0 < device.quantum_left_seconds <= 600
    assert not device.recovering
    shown = device.clients[0]
    assert (shown.id, shown.pid, shown.state) == (client.client_id, os.getpid(), "holding")
    assert (shown.footprint_bytes, shown.backend, shown.protocol_version) == (3 * GIB, "managed", 2)
    assert (shown.grants, shown.waited_seconds < 1, shown.held_seconds > 0) == (1, True, True)
    assert shown.identity == admin_pb2.Identity()
    assert device.clients[1].state == "waiting"


def test_watch_follows_changes(serve: Serve) -> None:
    """The present state at once, then after a change the new one, and nothing while nothing changes."""
    scheduler = serve()
    stream = scheduler.admin.WatchStatus(admin_pb2.WatchStatusRequest(), timeout=TIMEOUT_SECONDS)
    assert not next(stream).devices
    client = scheduler.client().register()
    while not (devices := next(stream).devices) or devices[0].clients[0].command != OWN_COMMAND:
        pass
    client.lock()
    while next(stream).devices[0].clients[0].state != "holding":
        pass
    client.close()
    while next(stream).devices[0].clients:
        pass
    stream.cancel()


def test_watch_is_limited(serve: Serve) -> None:
    """However fast things change, a status comes at most 20 times a second, or as rarely as was asked for."""
    scheduler = serve()
    client = scheduler.client().register()
    for interval, statuses, at_least in ((0.0, 6, 5 * 0.05), (0.3, 3, 2 * 0.3)):
        stream = scheduler.admin.WatchStatus(admin_pb2.WatchStatusRequest(min_interval_seconds=interval))
        began = time.monotonic()
        for _ in range(statuses):
            next(stream)
            for _ in range(10):
                client.send(wire.LockReleased(client.lock()))
        assert time.monotonic() - began >= at_least * 0.95
        stream.cancel()


def test_watch_ends_with_the_scheduler(serve: Serve) -> None:
    """A watcher sees the end of the stream when the scheduler stops."""
    scheduler = serve()
    stream = scheduler.admin.WatchStatus(admin_pb2.WatchStatusRequest())
    next(stream)
    assert scheduler.terminate() == 0
    with pytest.raises((StopIteration, grpc.RpcError)):
        next(stream)


def test_setting_one_device_and_all(serve: Serve) -> None:
    """A device is named in any case of letters; without one the setting is for all, those to come included."""
    scheduler = serve()
    scheduler.client().register()
    scheduler.client().register(device_uuid=bytes.fromhex("6e767368617265000000000000000002"))
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=3, device_uuid=OTHER_NAME.upper()))
    status = scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive", device_uuid=DEVICE_NAME))
    assert [(d.quantum_seconds, d.policy) for d in status.devices] == [(30, "exclusive"), (3, "auto")]
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=0.01))
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="off"))
    scheduler.client().register(device_uuid=bytes(16))
    assert {(d.quantum_seconds, d.policy) for d in scheduler.status().devices} == {(0.01, "off")}


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.009, 86400.5, math.inf, math.nan])
def test_quantum_that_is_not_allowed(serve: Serve, seconds: float) -> None:
    """INVALID_ARGUMENT names the value and what is allowed."""
    with pytest.raises(grpc.RpcError) as caught:
        serve().admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == f"quantum {seconds:g} s is not allowed; from 0.01 to 86400 s is"


def test_other_values_that_are_not_allowed(serve: Serve) -> None:
    """Policies, devices and intervals, too, are named together with what is allowed."""
    scheduler = serve()
    scheduler.client().register()
    admin = scheduler.admin
    with pytest.raises(grpc.RpcError) as caught:
        admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="fair"))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "policy 'fair' is not allowed; auto, exclusive, off are"
    for call in (
        partial(admin.SetPolicy, admin_pb2.SetPolicyRequest(policy="off", device_uuid="GPU-0")),
        partial(admin.SetQuantum, admin_pb2.SetQuantumRequest(seconds=1, device_uuid="GPU-0")),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert caught.value.details() == f"device 'GPU-0' is unknown; known devices: {DEVICE_NAME}"
    with pytest.raises(grpc.RpcError) as caught:
        next(admin.WatchStatus(admin_pb2.WatchStatusRequest(min_interval_seconds=-1)))
    assert caught.value.details() == "interval -1 s is not allowed; from 0 to 3600 s is"


def public(scheduler: Scheduler) -> admin_pb2_grpc.AdminStub:
    """What every user of the machine may use; for the life of the test."""
    return admin_pb2_grpc.AdminStub(grpc.insecure_channel(f"unix:{scheduler.run_dir.status_socket}"))


def test_everybody_may_look(serve: Serve) -> None:
    """At the socket for every user the status is shown and followed as at the other one."""
    scheduler = serve()
    client = scheduler.client().register(footprint_bytes=3 * GIB)
    client.lock()
    seen = public(scheduler).GetStatus(admin_pb2.GetStatusRequest(), timeout=TIMEOUT_SECONDS)
    assert [(each.state, each.pid) for each in seen.devices[0].clients] == [("holding", os.getpid())]
    stream = public(scheduler).WatchStatus(admin_pb2.WatchStatusRequest(), timeout=TIMEOUT_SECONDS)
    next(stream)
    client.close()
    while next(stream).devices[0].clients:
        pass
    stream.cancel()


def test_nobody_may_command_there(serve: Serve) -> None:
    """Every call that sets something is refused, and nothing is set."""
    scheduler = serve()
    scheduler.client().register()
    for call in (
        partial(public(scheduler).SetPolicy, admin_pb2.SetPolicyRequest(policy="off")),
        partial(public(scheduler).SetQuantum, admin_pb2.SetQuantumRequest(seconds=1)),
        partial(public(scheduler).SetScheduling, admin_pb2.SetSchedulingRequest(on=False)),
        partial(public(scheduler).SetClaims, admin_pb2.SetClaimsRequest()),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(timeout=TIMEOUT_SECONDS)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert [(each.policy, each.quantum_seconds) for each in scheduler.status().devices] == [("auto", 30)]


def test_watchers_are_few(serve: Serve) -> None:
    """A user who keeps very many streams open is refused the last of them; the owner is still answered."""
    scheduler = serve()
    watch = partial(public(scheduler).WatchStatus, admin_pb2.WatchStatusRequest(), timeout=TIMEOUT_SECONDS)
    streams = [watch() for _ in range(16)]
    for stream in streams:
        next(stream)
    with pytest.raises(grpc.RpcError) as caught:
        next(watch())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert scheduler.status().scheduler_pid == scheduler.process.pid
    for stream in streams:
        stream.cancel()


def test_only_the_owner_gets_near(serve: Serve) -> None:
    """The admin socket is 0600 in a 0700 folder; the clients' and the status's are open to everybody."""
    run_dir = serve().run_dir
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in (
            run_dir.admin_socket.parent,
            run_dir.admin_socket,
            run_dir.client_socket.parent,
            run_dir.client_socket,
            run_dir.legacy_socket,
            run_dir.status_socket.parent,
            run_dir.status_socket,
        )
    }
    assert list(modes.values()) == [0o700, 0o600, 0o755, 0o666, 0o666, 0o755, 0o666]


def test_very_long_command_lines(serve: Serve, environment: dict[str, str]) -> None:
    """1200 clients whose command lines have 4 KiB: each is cut, and nvshare-ctl shows all."""
    scheduler = serve()
    for _ in range(12):
        # Who does not register in ten seconds is sent away, and a busy machine takes that for all of them.
        for client in scheduler.clients_of_others(1, 100, *("argument" * 64 for _ in range(8))):
            client.register()

    def shown() -> list[admin_pb2.Client]:
        return list(scheduler.status().devices[0].clients)

    poll_until(lambda: all(client.command.endswith("…") for client in shown()), "everybody is described")
    assert len(shown()) == 1200
    assert max(len(client.command.encode()) for client in shown()) < 300
    command = [sys.executable, "-m", "nvshare.ctl", "status", "-o", "json", "--run-dir", scheduler.run_dir.root]
    answer = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=TIMEOUT_SECONDS)
    assert len(json.loads(answer.stdout)["devices"][0]["clients"]) == 1200


def test_the_largest_status_fits() -> None:
    """A client of which everything is as long as it can be, as often as there can be clients."""
    longest = "\N{REPLACEMENT CHARACTER}"
    client = admin_pb2.Client(
        id=2**64 - 1,
        pid=2**31,
        command=257 * longest,
        state="unresponsive",
        footprint_bytes=2**64 - 1,
        pinned_bytes=2**64 - 1,
        held_seconds=1,
        waited_seconds=1,
        grants=2**64 - 1,
        backend="managed",
        protocol_version=2,
        identity=admin_pb2.Identity(namespace=63 * "n", pod=253 * "p", container=63 * "c", source="kubelet"),
        swap=admin_pb2.Swap(**{field.name: 2**64 - 1 for field in admin_pb2.Swap.DESCRIPTOR.fields}),
    )
    assert client.ByteSize() * MOST_CLIENTS < LARGEST_ANSWER
