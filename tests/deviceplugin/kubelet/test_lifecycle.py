"""The plugin beside kubelet, in every order of events."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.deviceplugin.kubelet.instance_lock import InstanceLock
from nvshare.deviceplugin.kubelet.servicer import Servicer
from nvshare.unix_sockets import listening_pid
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.instances import IMPATIENT, LOCK, QUICK, RESOURCE, SNAPSHOT, Instance
from tests.polling import until


async def test_registers_and_is_watched(kubelet: FakeKubelet, instance: Instance) -> None:
    """kubelet gets every virtual device, healthy, and knows that it may ask for a preference."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    (registration,) = kubelet.registrations
    assert registration.version == "v1beta1"
    assert registration.resource_name == RESOURCE
    assert registration.options.get_preferred_allocation_available
    assert not registration.options.pre_start_required
    assert registration.endpoint in instance.sockets()
    await until(lambda: instance.lifecycle.ready, "the plugin says that it is ready")


async def test_serves_while_register_is_pending(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """kubelet calls back before it answers, and may take its time: the plugin answers meanwhile."""
    let_go = asyncio.Event()

    async def call_back() -> None:
        assert await kubelet.prefer(["GPU-a__1", "GPU-b__1"], 1) == ["GPU-a__1"]
        await let_go.wait()

    kubelet.before_answer = call_back
    instance = begin()
    await until(lambda: kubelet.registrations, "kubelet was asked")
    assert (await kubelet.allocate(["GPU-a__1"])).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"
    assert not instance.lifecycle.ready
    let_go.set()
    await until(lambda: kubelet.healthy == 20, "all devices are known")


async def test_a_socket_that_can_not_be_made(
    kubelet: FakeKubelet, begin: Callable[..., Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the plugin says so, and tries again until it works."""
    too_long, real = ["x" * 100, "x" * 100], secrets.token_hex
    monkeypatch.setattr(secrets, "token_hex", lambda size: too_long.pop() if too_long else real(size))
    instance = begin()
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    assert instance.said("the socket can't be made")
    assert len(instance.sockets()) == 1


async def test_a_socket_that_can_not_be_removed(
    kubelet: FakeKubelet, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that became read-only: the plugin does not end."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        await kubelet.close_streams()
        await until(lambda: len(kubelet.registrations) == 2, "it has registered again")
    await until(lambda: kubelet.healthy == 20, "all devices are known again")


async def test_a_lock_that_can_not_be_looked_at(
    kubelet: FakeKubelet, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that fails: the plugin serves on by its lock, and ends in order."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    looks, stat = [0], Path.stat

    def fail(path: Path, **more: bool) -> os.stat_result:
        if path.name != LOCK:
            return stat(path, **more)
        looks[0] += 1
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", fail)
        patch.setattr(Path, "unlink", refuse)
        await until(lambda: looks[0] > 3, "it looks at its lock")
        assert (kubelet.healthy, len(kubelet.registrations)) == (20, 1)
        await instance.stop()
    assert InstanceLock(instance.folder / LOCK, "another").try_acquire()


async def test_register_is_refused(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """An error from kubelet is logged in its words, and the plugin tries again with a new socket until it works."""
    kubelet.refusal = "failed to dial device plugin: out of luck"
    instance = begin()
    await until(lambda: len(kubelet.registrations) >= 3, "it tries again")
    assert instance.said("out of luck")
    kubelet.refusal = None
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    endpoints = [registration.endpoint for registration in kubelet.registrations]
    assert len(set(endpoints)) == len(endpoints)


async def test_registered_but_not_watched(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """Success of Register means nothing without a ListAndWatch stream: the plugin registers again."""
    kubelet.watches = False
    instance = begin(timing=IMPATIENT)
    await until(lambda: len(kubelet.registrations) == 2, "it registers again")
    assert instance.said("does not watch our devices")
    kubelet.watches = True
    await until(lambda: kubelet.healthy == 20, "all devices are known")


async def test_stream_is_closed(kubelet: FakeKubelet, instance: Instance) -> None:
    """kubelet never opens a stream again by itself: the plugin registers again."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await kubelet.close_streams()
    assert kubelet.healthy == 0
    await until(lambda: kubelet.healthy == 20, "all devices are known again")
    assert len(kubelet.registrations) == 2


async def test_stream_ends_early(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """A stream that has ended does not come again: nothing is waited for."""
    begin()
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await kubelet.close_streams()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")


async def test_stream_ends_after_some_time(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """All was well until now: the pauses between vain attempts do not count."""
    timing = replace(QUICK, no_stream=2.0, first_retry=60.0, longest_retry=60.0)
    begin(timing=timing)
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await asyncio.sleep(timing.no_stream)
    await kubelet.close_streams()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")


async def test_kubelet_that_is_slow_to_watch(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """It gets more time each time, until its stream comes before the plugin has given up."""

    async def slowly() -> None:
        await asyncio.sleep(3 * IMPATIENT.no_stream)

    kubelet.before_watch = slowly
    instance = begin(timing=IMPATIENT)
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await until(lambda: instance.lifecycle.ready, "the plugin says that it is ready")
    assert instance.said("does not watch our devices")


async def test_nothing_is_waited_for_when_kubelet_is_back(
    kubelet: FakeKubelet, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubelet fails pods that it admits before it knows devices: it is looked for often, and then asked at once."""
    waits: list[tuple[float, bool]] = []
    wait = instance.lifecycle._stopped_within

    async def recorded(seconds: float, sooner: asyncio.Event | None = None) -> bool:
        if len(kubelet.registrations) == 1:
            waits.append((seconds, listening_pid(kubelet.socket) is not None))
        return await wait(seconds, sooner)

    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await kubelet.kill()
    await until(lambda: "nobody listens" in instance.lifecycle.state, "it waits for kubelet")
    monkeypatch.setattr(instance.lifecycle, "_stopped_within", recorded)
    await until(lambda: waits, "it looks again")
    await kubelet.start()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")
    assert {seconds for seconds, _ in waits} == {QUICK.quick_poll}
    assert sum(listening for _, listening in waits) <= 1
    assert not instance.said("kubelet refused the registration")


async def test_kubelet_restarts(kubelet: FakeKubelet, instance: Instance) -> None:
    """A new kubelet empties its folder and knows nobody: the plugin is back with a socket of another name."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    first = kubelet.registrations[0].endpoint
    await kubelet.kill()
    await kubelet.start()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")
    assert kubelet.registrations[-1].endpoint != first
    assert instance.sockets() == [kubelet.registrations[-1].endpoint]


async def test_kubelet_is_away_for_long(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """While kubelet is dead its socket's file stays: the plugin waits long, and is back at once when kubelet is."""
    instance = begin(timing=replace(QUICK, first_retry=60.0, longest_retry=60.0))
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await kubelet.kill()
    await until(lambda: not instance.lifecycle.ready, "the plugin says that it is not ready")
    await kubelet.start()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")


async def test_own_socket_is_deleted(kubelet: FakeKubelet, instance: Instance) -> None:
    """Without its file nobody can reach the socket: it is made anew under another name."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    (socket,) = instance.sockets()
    (kubelet.folder / socket).unlink()
    await until(lambda: len(kubelet.registrations) == 2, "it registers again")
    await until(lambda: kubelet.healthy == 20, "all devices are known again")
    assert socket not in instance.sockets()


async def test_never_two_servers_at_once(kubelet: FakeKubelet, instance: Instance) -> None:
    """Through many losses of kubelet, a server is only made when the one before has ended."""
    alive: list[int] = []
    make = instance.new_servicer

    def counting() -> Servicer:
        alive.append(len(instance.sockets()))
        return make()

    instance.lifecycle._new_servicer = counting
    for _ in range(5):
        await until(lambda: kubelet.healthy == 20, "all devices are known")
        await kubelet.close_streams()
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    assert len(alive) >= 5
    assert set(alive) == {0}


async def test_only_changes_are_sent(kubelet: FakeKubelet, instance: Instance) -> None:
    """Unhealthy and back: a full list each time, all replicas of the GPU, and none for another wording."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    instance.inventory.publish(Snapshot((Offer("GPU-a", 10, "XID 79"), Offer("GPU-b", 10))))
    await until(lambda: kubelet.healthy == 10, "ten are unhealthy")
    assert {id_ for id_, health in kubelet.devices.items() if health == "Unhealthy"} == {
        f"GPU-a__{ordinal}" for ordinal in range(1, 11)
    }
    instance.inventory.publish(Snapshot((Offer("GPU-a", 10, "XID 79 again"), Offer("GPU-b", 10))))
    # An answer from the plugin: its stream had its turn as well.
    await kubelet.prefer(["GPU-b__1"], 1)
    instance.inventory.publish(SNAPSHOT)
    await until(lambda: kubelet.healthy == 20, "all are healthy")
    assert [len(update) for update in kubelet.updates] == [20, 20, 20]
    assert len(kubelet.registrations) == 1


async def test_stop_leaves_nothing(kubelet: FakeKubelet, folder: Path, begin: Callable[..., Instance]) -> None:
    """The streams end, the socket is gone, and the next instance may begin."""
    instance = begin()
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    await instance.stop()
    await until(lambda: kubelet.healthy == 0, "kubelet lost the devices")
    assert instance.sockets() == []
    lock = InstanceLock(folder / LOCK, "next")
    assert lock.try_acquire()
    lock.release()


async def test_stop_while_register_hangs(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """A kubelet that never answers does not keep the plugin from ending."""
    kubelet.before_answer = asyncio.Event().wait  # type: ignore[assignment]
    instance = begin(timing=replace(QUICK, register=600.0))
    await until(lambda: kubelet.registrations, "kubelet was asked")
    await instance.stop()


async def test_no_kubelet_yet(folder: Path, begin: Callable[..., Instance]) -> None:
    """Before kubelet has a socket the plugin waits, says for what once, and begins when it is there."""
    instance = begin()
    await until(lambda: instance.said("kubelet-dir"), "it says what it waits for")
    kubelet = FakeKubelet(folder)
    await kubelet.start()
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    assert sum("waiting for kubelet" in str(call.args) for call in instance.logged.calls) == 1
    await kubelet.stop()


async def test_sockets_of_a_killed_instance_are_removed(
    kubelet: FakeKubelet, folder: Path, begin: Callable[..., Instance]
) -> None:
    """A killed plugin leaves its socket's file; the next one of the same resource clears it away, nobody else's."""
    instance = begin()
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    prefix = instance.sockets()[0].rpartition("-")[0]
    await instance.stop()
    await until(lambda: kubelet.healthy == 0, "kubelet lost the devices")
    (folder / f"{prefix}-dead.sock").touch()
    (folder / "nvidia-gpu.sock").touch()
    following = begin()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")
    assert f"{prefix}-dead.sock" not in following.sockets()
    assert (folder / "nvidia-gpu.sock").exists()


async def test_device_nodes_reach_kubelet(kubelet: FakeKubelet, instance: Instance) -> None:
    """As devices that the container may read and write."""
    instance.inventory.publish(Snapshot((Offer("GPU-a", 10, nodes=(Path("/dev/nvidia0"),)), Offer("GPU-b", 10))))
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    (device,) = (await kubelet.allocate(["GPU-a__1"])).devices
    assert (device.host_path, device.container_path, device.permissions) == ("/dev/nvidia0", "/dev/nvidia0", "rw")
    assert not (await kubelet.allocate(["GPU-b__1"])).devices


@pytest.mark.parametrize(
    ("ids", "code", "words"),
    [
        (["GPU-a__11"], grpc.StatusCode.NOT_FOUND, "GPU-a__11"),
        (["GPU-x__1"], grpc.StatusCode.NOT_FOUND, "delete the pod"),
        (["bogus"], grpc.StatusCode.INVALID_ARGUMENT, "UUID__ORDINAL"),
    ],
)
async def test_errors_reach_kubelet(
    kubelet: FakeKubelet, instance: Instance, ids: list[str], code: grpc.StatusCode, words: str
) -> None:
    """kubelet shows code and text in the pod's events; the plugin goes on."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await kubelet.allocate(ids)
    assert error.value.code() is code
    assert words in str(error.value.details())
    assert instance.said(words)
    assert (await kubelet.allocate(["GPU-a__1"])).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"


def test_lock_on_a_deleted_file_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubelet may empty its folder between opening and locking: then the lock would keep nobody out."""
    lock = InstanceLock(folder / LOCK, "one")
    flock = fcntl.flock

    def late(file: int, operation: int) -> None:
        (folder / LOCK).unlink()
        flock(file, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", late)
        assert not lock.try_acquire()
    assert lock.try_acquire()
    lock.release()
