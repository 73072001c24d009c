"""Two instances of the plugin beside one kubelet: one waits, and follows the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import grpc
import pytest

from nvshare.deviceplugin.kubelet.instance_lock import InstanceLock
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.instances import NEXT_LOCK, QUICK, Instance
from tests.polling import until


class Admissions:
    """Pods that kubelet admits one after another, as fast as it can."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.failed: list[str] = []
        self._kubelet = kubelet
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stop.set()
        await self._task

    async def _run(self) -> None:
        while not self._stop.is_set():
            if self._kubelet.healthy != 20:
                self.failed.append(f"{self._kubelet.healthy} devices are healthy")
            try:
                await self._kubelet.allocate(["GPU-a__1"])
            except grpc.aio.AioRpcError as error:
                self.failed.append(str(error.details()))
            await asyncio.sleep(0)


async def noted(notes: list[tuple[bool, bool]], note: tuple[bool, bool]) -> None:
    """Keeps what was so at that moment."""
    notes.append(note)


async def test_two_instances_overlap(kubelet: FakeKubelet, instance: Instance, begin: Callable[..., Instance]) -> None:
    """The newer one waits until the older one has ended, so that kubelet has the devices in the end."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    second = begin("pod-two")
    await until(lambda: second.said("waiting for another instance to end"), "the second waits")
    assert second.said("one")
    assert len(kubelet.registrations) == 1
    assert kubelet.healthy == 20
    await instance.stop()
    await until(lambda: kubelet.healthy == 20 and len(kubelet.registrations) == 2, "the second took over")


@pytest.mark.parametrize("tells_apart", [False, True], ids=["1.36", "1.37"])
async def test_one_follows_the_other_without_a_gap(
    kubelet: FakeKubelet, begin: Callable[..., Instance], tells_apart: bool
) -> None:
    """As in rollouts: the next one is ready while it waits, and kubelet is answered at every moment."""
    kubelet.tells_apart = tells_apart
    kubelet.slowness = 0.3
    timing = replace(QUICK, settle=0.5)
    serving = begin("pod-0", timing)
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    admissions = Admissions(kubelet)
    for number in range(1, 4):
        following = begin(f"pod-{number}", timing)
        await following.is_ready()
        assert serving.lifecycle.state == "registered"
        await serving.stop()
        await following.has_followed()
        await until(lambda number=number: kubelet.ends == 2 * number - 1, "kubelet has noted all ends")
        serving = following
    await admissions.stop()
    assert admissions.failed == []
    assert serving.lifecycle.ready
    await serving.stop()
    await until(lambda: kubelet.healthy == 0, "kubelet notices the end of the last one")


async def test_who_serves(kubelet: FakeKubelet, instance: Instance, begin: Callable[..., Instance]) -> None:
    """One at a time, for what only that one may write: not who waits, and not who was told to end and hands over."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    following = begin("pod-two")
    await following.is_ready()
    assert (instance.lifecycle.serves, following.lifecycle.serves) == (True, False)
    before_second = []
    kubelet.before_answer = lambda: noted(before_second, (instance.lifecycle.serves, following.lifecycle.serves))
    await instance.stop()
    await following.has_followed()
    assert before_second[0] == (False, True)
    assert (instance.lifecycle.serves, following.lifecycle.serves) == (False, True)


async def test_the_end_of_one_that_followed_is_noticed(
    kubelet: FakeKubelet, instance: Instance, begin: Callable[..., Instance]
) -> None:
    """However it ends: kubelet knows again who serves, and that its streams belong to it."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    following = begin("pod-two")
    await following.is_ready()
    await instance.stop()
    await following.has_followed()
    assert len(following.sockets()) == 2
    await kubelet.close_streams()
    assert kubelet.healthy == 0
    await until(lambda: kubelet.healthy == 20, "it registers again")
    assert len(following.sockets()) == 1


async def test_one_that_waits_and_does_nothing(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """It is waited for some time only, and kubelet hears of the end."""
    instance = begin(timing=replace(QUICK, hand_over=0.1))
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    hanging = InstanceLock(kubelet.folder / NEXT_LOCK, "pod-two")
    assert hanging.try_acquire()
    await instance.stop()
    await until(lambda: kubelet.healthy == 0, "kubelet notices the end")
    assert instance.said("does not register")
    hanging.release()


async def test_no_lock_is_left(kubelet: FakeKubelet, instance: Instance, begin: Callable[..., Instance]) -> None:
    """When the last one ends; before that the one that follows has its own."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    following = begin("pod-two")
    await following.is_ready()
    await instance.stop()
    await following.has_followed()
    assert [path.name for path in kubelet.folder.glob("*.lock")] == [NEXT_LOCK.replace(".next", "")]
    await following.stop()
    assert not list(kubelet.folder.glob("*.lock"))


async def test_killed_while_another_waits(kubelet: FakeKubelet, begin: Callable[..., Instance]) -> None:
    """Without a word the devices are lost for a moment, until the next one has the lock and kubelet saw the end."""
    timing = replace(QUICK, settle=1.0)
    instance = begin(timing=timing)
    kubelet.slowness = 0.05
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    following = begin("pod-two", timing)
    await following.is_ready()
    instance.task.cancel()
    await asyncio.wait({instance.task})
    await until(lambda: following.lifecycle.state == "registered", "the next one is registered")
    await until(lambda: kubelet.lost == 1 and kubelet.healthy == 20, "all devices are known again")
    assert len(kubelet.registrations) == 2


async def test_overlap_while_kubelet_restarts(
    kubelet: FakeKubelet, instance: Instance, begin: Callable[..., Instance]
) -> None:
    """kubelet deletes the lock's file too: still one of the two serves, and never both."""
    await until(lambda: kubelet.healthy == 20, "all devices are known")
    second = begin("pod-two")
    await until(lambda: second.said("waiting for another instance to end"), "the second waits")
    await kubelet.kill()
    await kubelet.start()
    await until(lambda: kubelet.healthy == 20, "all devices are known again")
    assert [one.lifecycle.state for one in (instance, second)].count("registered") == 1
    assert len(instance.sockets()) == 1
    await second.stop()
    await until(lambda: kubelet.healthy == 20, "the one that is left serves")
