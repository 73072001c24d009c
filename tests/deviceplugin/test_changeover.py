"""The command while its node's label, and the file that it names, change."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from nvshare import simgpu
from nvshare.deviceplugin.kubelet.instance_lock import InstanceLock
from tests.conftest import Libraries
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.instances import NEXT_LOCK
from tests.deviceplugin.process import COMMAND, Node, PluginProcess
from tests.polling import poll_until, until

pytestmark = pytest.mark.soak

Start = Callable[..., PluginProcess]


@pytest.fixture
def folder(node: Node) -> Path:
    """Where the kubelet is: beside the node's other folders."""
    return node.kubelet_dir


class Configurations:
    """A ConfigMap's volume, as kubelet makes it, and the node's label, as the node agent writes it."""

    def __init__(self, node: Node) -> None:
        self.folder = node.root / "configurations"
        self.folder.mkdir()
        self._label = node.run_dir.node_config
        self._label.parent.mkdir(parents=True)
        self._versions = 0

    def write(self, **contents: str) -> None:
        """Replaces all files at once."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir()
        for name, content in contents.items():
            (version / f"{name}.yaml").write_text(content)
            if not (self.folder / f"{name}.yaml").is_symlink():
                (self.folder / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
        (self.folder / "..data_tmp").symlink_to(version.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")

    def label(self, value: str | None) -> None:
        if value is None:
            self._label.unlink()
            return
        temporary = self._label.with_name(".config")
        temporary.write_text(value)
        temporary.rename(self._label)

    @property
    def options(self) -> tuple[str, str]:
        return f"--config-dir={self.folder}", "--config-default=default"


@pytest.fixture
def configurations(node: Node) -> Configurations:
    made = Configurations(node)
    made.write(default="virtual_devices: 10", few="virtual_devices: 3", same="virtual_devices: 3")
    return made


class Pods:
    """Pods of a node, one after the other, that ask for a device that every configuration has."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet
        self.admitted = 0
        self.failed: list[str] = []
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            if self._kubelet.devices.get("GPU-1a__1") != "Healthy":
                self.failed.append(f"the device is {self._kubelet.devices.get('GPU-1a__1')}")
            try:
                await self._kubelet.allocate(["GPU-1a__1"])
                self.admitted += 1
            except grpc.aio.AioRpcError as error:
                self.failed.append(str(error.details()))
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("tells_apart", [False, True], ids=["1.36", "1.37"])
async def test_settings_change_without_a_gap(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations, tells_apart: bool
) -> None:
    """By the label, then by the file's content, then back: pods that come all the time get their devices."""
    kubelet.tells_apart = tells_apart
    with node.scheduler_socket():
        plugin = start(*configurations.options)
        await until(lambda: kubelet.healthy == 20, "the default's devices are there", timeout=30)
        pods = Pods(kubelet)
        configurations.label("few")
        await until(lambda: len(kubelet.devices) == 6, "the label's configuration is in effect", timeout=30)
        configurations.write(default="virtual_devices: 10", few="virtual_devices: 4")
        await until(lambda: len(kubelet.devices) == 8, "its new content is in effect", timeout=30)
        configurations.label(None)
        await until(lambda: len(kubelet.devices) == 20, "the default is in effect", timeout=30)
        # One for the first, two for each that followed.
        await until(lambda: len(kubelet.registrations) == 7, "the last one serves alone", timeout=30)
        await pods.stop()
        assert pods.failed == []
        assert pods.admitted > 0
        assert kubelet.lost == 0
        _, metrics = await asyncio.to_thread(plugin.get, "/metrics")
        assert 'nvshare_plugin_configuration{name="default"} 1.0' in metrics
        assert 'nvshare_plugin_problem{kind="configuration"} 0.0' in metrics
        assert await asyncio.to_thread(plugin.terminate) == 0
    assert plugin.lines()[-1]["event"] == "stopped"
    await until(lambda: kubelet.healthy == 0, "kubelet notices the end")


async def test_the_same_settings_by_another_name(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations
) -> None:
    """Nothing is made anew; which configuration it is can be seen."""
    configurations.label("few")
    plugin = start(*configurations.options)
    await until(lambda: len(kubelet.devices) == 6, "the devices are there", timeout=30)
    configurations.label("same")

    await until(lambda: shows(plugin, "same"), "it is shown")
    assert len(kubelet.registrations) == 1
    assert 'name="few"' not in (await asyncio.to_thread(plugin.get, "/metrics"))[1]


@pytest.mark.parametrize(
    ("value", "content", "reason"),
    [
        ("none-such", "virtual_devices: 3", "has no configuration 'none-such'; here are: default, few, same"),
        ("few", "virtual_devices: 0", "virtual_devices: 0 is wrong; allowed: an integer from 1 to 1000"),
        ("few", "{", "not YAML"),
    ],
    ids=["no file", "wrong value", "not YAML"],
)
async def test_a_choice_that_cannot_be_used(
    node: Node,
    kubelet: FakeKubelet,
    start: Start,
    configurations: Configurations,
    value: str,
    content: str,
    reason: str,
) -> None:
    """What ran stays, even if it is not the default; log, probe and metric say why; a right choice ends that."""
    configurations.label("same")
    with node.scheduler_socket():
        plugin = start(*configurations.options)
        await until(lambda: kubelet.healthy == 6, "the label's configuration is in effect", timeout=30)
        configurations.write(default="virtual_devices: 10", few=content, same="virtual_devices: 3")
        configurations.label(value)
        await until(lambda: plugin.said(reason), "it is said", timeout=30)
        status, said = await asyncio.to_thread(plugin.get, "/readyz")
        assert status == 200
        assert reason in said
        assert "configuration 'same' stays in effect" in said
        await until(lambda: problem(plugin) == ["1.0"], "the metric shows it")
        assert (len(kubelet.devices), len(kubelet.registrations)) == (6, 1)
        configurations.label(None)
        await until(lambda: len(kubelet.devices) == 20, "the default is in effect", timeout=30)
        await until(lambda: problem(plugin) == ["0.0"], "the metric shows that all is well")
        assert (await asyncio.to_thread(plugin.get, "/readyz"))[1] == "ok\n"


def shows(plugin: PluginProcess, name: str) -> bool:
    """Whether this configuration is in effect, as the metric has it."""
    return f'nvshare_plugin_configuration{{name="{name}"}} 1.0' in plugin.get("/metrics")[1]


def problem(plugin: PluginProcess) -> list[str]:
    """What the metric shows."""
    _, metrics = plugin.get("/metrics")
    return [line.split()[1] for line in metrics.splitlines() if 'problem{kind="configuration"}' in line]


async def test_a_default_that_breaks(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations
) -> None:
    """While it runs that is no reason to end: what ran stays, and it is said, until the file is right again."""
    with node.scheduler_socket():
        plugin = start(*configurations.options)
        await until(lambda: kubelet.healthy == 20, "the default's devices are there", timeout=30)
        configurations.write(default="virtual_devices: 0")
        await until(lambda: problem(plugin) == ["1.0"], "the metric shows it", timeout=30)
        assert plugin.said("the settings can't be read: nvshare-device-plugin: ")
        assert plugin.said("virtual_devices: 0 is wrong")
        assert kubelet.healthy == 20
        configurations.write(default="virtual_devices: 10")
        await until(lambda: problem(plugin) == ["0.0"], "all is well", timeout=30)
        assert (kubelet.healthy, len(kubelet.registrations)) == (20, 1)


async def test_started_with_a_choice_that_cannot_be_used(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations
) -> None:
    """The default serves, and it is said why; the right file is used as soon as it comes."""
    configurations.label("later")
    with node.scheduler_socket():
        plugin = start(*configurations.options)
        await until(lambda: kubelet.healthy == 20, "the default's devices are there", timeout=30)
        assert plugin.said("has no configuration 'later'")
        assert "configuration 'default' stays in effect" in (await asyncio.to_thread(plugin.get, "/readyz"))[1]
        configurations.write(default="virtual_devices: 10", later="virtual_devices: 5")
        await until(lambda: len(kubelet.devices) == 10, "the label's configuration is in effect", timeout=30)


async def test_a_label_that_comes_while_it_starts(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations
) -> None:
    """As where the node agent starts at the same time: the label counts, though the settings were read without it."""
    os.mkfifo(node.run_dir.node_config)
    start(*configurations.options)
    # The plugin looks for a label now, and gets none before this end is closed.
    writer = await asyncio.to_thread(
        poll_until, lambda: opened_for_writing(node.run_dir.node_config), "it looks for a label", 30
    )
    configurations.label("few")
    os.close(writer)
    await until(lambda: len(kubelet.devices) == 6, "the label's configuration is in effect", timeout=30)


def opened_for_writing(fifo: Path) -> int | None:
    """A descriptor of it; None while nobody reads."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


async def test_settings_of_the_process(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations
) -> None:
    """Where the probes are and what the log is like stays; it is said, and what else changed is in effect."""
    with node.scheduler_socket():
        plugin = start(*configurations.options)
        await until(lambda: kubelet.healthy == 20, "the devices are there", timeout=30)
        configurations.write(default="virtual_devices: 3\nlog_level: debug\n")
        await until(lambda: len(kubelet.devices) == 6, "the new content is in effect", timeout=30)
        late = [line["setting"] for line in plugin.lines() if "started anew" in line["event"]]
        assert late == ["log_level"]


async def test_while_nvml_hangs(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations, libraries: Libraries
) -> None:
    """Nobody follows who does not know the GPUs: what ran stays; another choice counts at once, and a signal."""
    simulated = node.root / "simgpu"
    with node.scheduler_socket():
        plugin = start(*configurations.options, NVIDIA_VISIBLE_DEVICES="all", **simgpu.environment(simulated, "1x1GiB"))
        await until(lambda: kubelet.healthy == 10, "the default's devices are there", timeout=30)
        (simulated / "nvml").write_text("hang\n")
        configurations.label("few")
        await until(lambda: changes(plugin) == 1, "the choice is seen", timeout=30)
        configurations.label(None)
        await until(lambda: plugin.said("the choice has changed again"), "so is the next one", timeout=30)
        configurations.label("few")
        await until(lambda: changes(plugin) == 2, "and the one after it", timeout=30)
        assert len(kubelet.registrations) == 1
        (simulated / "nvml").write_text("")
        await until(lambda: kubelet.healthy == len(kubelet.devices) == 3, "its turn has come", timeout=30)
        (simulated / "nvml").write_text("hang\n")
        configurations.label(None)
        await until(lambda: changes(plugin) == 3, "the choice is seen", timeout=30)
        assert await asyncio.to_thread(plugin.terminate) == 0


def changes(plugin: PluginProcess) -> int:
    """How often it began to change its settings."""
    return sum(line["event"] == "the settings have changed" for line in plugin.lines())


async def test_a_waiting_instance_follows_its_choice(
    node: Node, kubelet: FakeKubelet, start: Start, configurations: Configurations
) -> None:
    """In a rollout, too: the one that waits has the new settings when its turn comes."""
    with node.scheduler_socket():
        first = start()
        await until(lambda: kubelet.healthy == 20, "all devices are known", timeout=30)
        second = start(*configurations.options)
        await until(lambda: second.said("waiting for another instance"), "it waits", timeout=30)
        configurations.label("few")
        await until(lambda: shows(second, "few"), "it has the new settings", timeout=30)
        following = InstanceLock(kubelet.folder / NEXT_LOCK, "test")
        await until(following.is_taken, "it waits again")
        assert await asyncio.to_thread(first.terminate) == 0
        await until(lambda: kubelet.healthy == len(kubelet.devices) == 6, "it serves with them", timeout=30)
        assert kubelet.lost == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--config-dir=/etc/x"], "--config-dir and --config-default go together, and without --config"),
        (["--config-default=x"], "--config-dir and --config-default go together, and without --config"),
        (["--config-dir=/x", "--config-default=x", "--config=/x"], "go together, and without --config"),
        (["--config-dir=/no/such", "--config-default=x"], "/no/such has no configuration 'x'; here are: none"),
    ],
)
def test_wrong_command_lines(surroundings: dict[str, str], options: list[str], reason: str) -> None:
    """Exit status 2 and one line."""
    done = subprocess.run(
        [*COMMAND, *options], env=surroundings, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
