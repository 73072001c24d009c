"""The command as it is shipped: a process between a fake kubelet, a host's folders and its operator."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.deviceplugin.settings.checks import FIELDS
from nvshare.paths import LIBRARY_NAME, NVIDIA_VISIBLE_DEVICES
from tests.conftest import Libraries
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.process import COMMAND, GPUS, Node, PluginProcess
from tests.polling import poll_until, until
from tests.resident_memory import LIMIT_BYTES, keeping_bytecode

ALL = 20


@pytest.fixture
def folder(node: Node) -> Path:
    """Where the kubelet is: beside the node's other folders."""
    return node.kubelet_dir


def command(surroundings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], env=surroundings, capture_output=True, text=True, timeout=60)


def install(node: Node, surroundings: dict[str, str]) -> Path:
    """Installs the library as the init container does; the path that the command prints."""
    result = command(surroundings, "install-library", f"--library-dir={node.library_dir}")
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.split()[0])


async def page(plugin: PluginProcess, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(plugin.get, path)


async def test_the_whole_way(
    node: Node, surroundings: dict[str, str], kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """Install, serve, allocate, end: every mount source exists, and nothing is left behind in kubelet's folder."""
    library = install(node, surroundings)
    with node.scheduler_socket():
        plugin = start()
        await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
        container = await kubelet.allocate(["GPU-1b__1", "GPU-1a__2"])
        assert container.envs["NVIDIA_VISIBLE_DEVICES"] == GPUS
        assert {mount.host_path: (mount.container_path, mount.read_only) for mount in container.mounts} == {
            str(library.parent): ("/usr/lib/nvshare", True),
            str(node.run_dir.client_socket.parent): ("/var/run/nvshare/client", True),
        }
        assert await kubelet.prefer([f"{gpu}__{n}" for gpu in GPUS.split(",") for n in (1, 2)], 2) == [
            "GPU-1a__1",
            "GPU-1b__1",
        ]
        assert await page(plugin, "/healthz") == (200, "ok\n")
        assert await page(plugin, "/readyz") == (200, "ok\n")
        _, metrics = await page(plugin, "/metrics")
        assert 'nvshare_plugin_registrations_total{result="ok"} 1.0' in metrics
        assert "nvshare_plugin_list_and_watch_streams 1.0" in metrics
        assert await asyncio.to_thread(plugin.terminate) == 0
    assert plugin.said("SIGTERM")
    assert plugin.lines()[-1]["event"] == "stopped"
    assert [path.name for path in node.kubelet_dir.glob("nvshare*.sock")] == []


async def test_the_library_is_kept_installed(
    node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """It is there before the first device is, and again when somebody removed it, with nobody's help."""
    with node.scheduler_socket():
        plugin = start()
        await until(lambda: kubelet.healthy == ALL, "all devices are healthy", timeout=30)
        assert {"Unhealthy"} & {health for update in kubelet.updates for health in update.values()} == set()
        (mount, _) = (await kubelet.allocate(["GPU-1a__1"])).mounts
        library = Path(mount.host_path) / LIBRARY_NAME
        installed = library.read_bytes()
        for folder in (library.parent, node.library_dir):
            shutil.rmtree(folder)
            await until(library.exists, "the library is there again")
            assert library.read_bytes() == installed
            # A look that met the folder while it was being removed made them unhealthy.
            await until(lambda: kubelet.healthy == ALL, "all devices are healthy")
        assert plugin.said("the library was installed")


async def test_library_that_cant_be_installed(
    node: Node, kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """A container must not run unshared: unhealthy with the reason until the library is there."""
    node.library_dir.write_text("a file")
    with node.scheduler_socket():
        plugin = start()
        await until(lambda: len(kubelet.devices) == ALL, "all devices are known", timeout=30)
        assert kubelet.healthy == 0
        status, reasons = await page(plugin, "/readyz")
        assert status == 503
        assert "can't be written" in reasons
        node.library_dir.unlink()
        await until(lambda: kubelet.healthy == ALL, "all devices are healthy")
        assert (await page(plugin, "/readyz"))[0] == 200


def removed(folder: Path) -> bool:
    """rm -rf, and whether nothing came back meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.mark.parametrize("which", ["kubelet-dir", "library-dir", "run-dir"])
async def test_a_folder_whose_mount_died(
    node: Node, start: Callable[..., PluginProcess], tmp_path: Path, which: str
) -> None:
    """The folder was removed on the node: the process ends and says so, since only a new mount sees what comes then.

    An open descriptor of a folder is to it what the container's mount is: it still leads to the removed one.
    """
    folder = tmp_path / "folder"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        mount = f"/proc/{os.getpid()}/fd/{descriptor}"
        plugin = start(f"--{which}={mount}")
        await until(lambda: plugin.said("started"), "it runs", timeout=30)
        # The plugin may just be installing the library there.
        await until(lambda: removed(folder), "the folder is removed")
        folder.mkdir()
        assert await asyncio.to_thread(plugin.process.wait, 10) == 1
        assert plugin.last_words().startswith(f"nvshare-device-plugin: {mount} was removed on the node")
    finally:
        os.close(descriptor)


async def test_scheduler_missing(
    node: Node, surroundings: dict[str, str], kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """Without a scheduler's socket for longer than the grace time: unhealthy, with the reason."""
    install(node, surroundings)
    plugin = start("--scheduler-grace-seconds=0")
    await until(lambda: len(kubelet.devices) == ALL, "all devices are known", timeout=30)
    assert kubelet.healthy == 0
    status, reasons = await page(plugin, "/readyz")
    assert status == 503
    assert "no scheduler socket" in reasons
    with node.scheduler_socket():
        await until(lambda: kubelet.healthy == ALL, "all devices are healthy")


async def test_killed_and_started_again(
    node: Node, surroundings: dict[str, str], kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """kill -9 leaves a socket and no lock: the next one is registered at once, beside no dead sockets."""
    install(node, surroundings)
    plugin = start()
    await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
    await asyncio.to_thread(plugin.kill)
    await until(lambda: kubelet.healthy == 0, "kubelet lost the devices")
    start()
    await until(lambda: kubelet.healthy == ALL, "all devices are known again", timeout=30)
    assert len(list(node.kubelet_dir.glob("nvshare*.sock"))) == 1


async def test_rollout(
    node: Node,
    surroundings: dict[str, str],
    kubelet: FakeKubelet,
    start: Callable[..., PluginProcess],
) -> None:
    """The next process is ready while it waits; SIGTERM to the first one hands over, and kubelet always has devices."""
    install(node, surroundings)
    with node.scheduler_socket():
        first = start()
        await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=30)
        second = start()
        await until(lambda: second.said("waiting for another instance"), "it waits", timeout=30)
        assert (await page(second, "/readyz"))[0] == 200
        assert await asyncio.to_thread(first.terminate) == 0
        await until(lambda: len(kubelet.registrations) == 3, "the second one serves alone")
        assert all(set(update.values()) == {"Healthy"} for update in kubelet.updates)
        assert kubelet.healthy == ALL
        assert kubelet.lost == 0


async def test_node_without_gpus(kubelet: FakeKubelet, start: Callable[..., PluginProcess]) -> None:
    """It waits quietly, ready and unregistered, with one line about it."""
    plugin = start(NVIDIA_VISIBLE_DEVICES="")
    await until(lambda: plugin.said("no GPU to offer on this node"), "it says so", timeout=30)
    assert (await page(plugin, "/readyz"))[0] == 200
    assert kubelet.registrations == []
    assert await asyncio.to_thread(plugin.terminate) == 0


def found(plugin: PluginProcess) -> list[str]:
    """The GPUs that it says it has found."""
    return [line["gpu"] for line in plugin.lines() if line["event"] == "GPU found"]


async def test_simulated_gpus(
    node: Node,
    surroundings: dict[str, str],
    kubelet: FakeKubelet,
    start: Callable[..., PluginProcess],
) -> None:
    """With the simulated driver in LD_LIBRARY_PATH, what its NVML shows is offered, without the GPU that has an XID."""
    install(node, surroundings)
    simulated = node.root / "simgpu"
    plugin = start(
        "--virtual-devices=3",
        "--recovery-seconds=0",
        NVIDIA_VISIBLE_DEVICES="all",
        **simgpu.environment(simulated, "2x1GiB"),
    )
    await until(lambda: kubelet.healthy == 6, "the simulated GPUs are known", timeout=30)
    await until(lambda: len(found(plugin)) == 2, "it says which they are")
    first, second = found(plugin)
    assert set(kubelet.devices) == {f"{gpu}__{ordinal}" for gpu in (first, second) for ordinal in (1, 2, 3)}
    assert not plugin.said("no error events")
    with (simulated / "events").open("a") as events:
        events.write("0 31\n1 79\n")
    await until(lambda: kubelet.healthy == 3, "the second GPU is unhealthy")
    assert {id_ for id_, health in kubelet.devices.items() if health == "Healthy"} == {
        f"{first}__{n}" for n in (1, 2, 3)
    }
    assert (await page(plugin, "/readyz"))[1].endswith(f"{second}: XID 79 (GPU has fallen off the bus)\n")
    await until(lambda: kubelet.healthy == 6, "the second GPU is well again", timeout=30)
    assert await asyncio.to_thread(plugin.terminate) == 0


async def test_a_lost_gpu(
    node: Node, surroundings: dict[str, str], kubelet: FakeKubelet, start: Callable[..., PluginProcess]
) -> None:
    """Its virtual devices are unhealthy and stay, the other GPU's are healthy, and are offered after a restart."""
    install(node, surroundings)
    simulated = node.root / "simgpu"
    options = {"NVIDIA_VISIBLE_DEVICES": "all", **simgpu.environment(simulated, "2x1GiB")}
    plugin = start(**options)
    await until(lambda: kubelet.healthy == 20, "the simulated GPUs are known", timeout=30)
    await until(lambda: len(found(plugin)) == 2, "it says which they are")
    first, second = found(plugin)
    (simulated / "nvml").write_text("lost 0\n")
    await until(lambda: kubelet.healthy == 10, "the first GPU is unhealthy", timeout=30)
    assert {device.partition("__")[0] for device, health in kubelet.devices.items() if health == "Healthy"} == {second}
    assert len(kubelet.devices) == 20
    assert (await page(plugin, "/readyz"))[1].endswith(f"{first}: lost: NVML: GPU is lost\n")
    assert await asyncio.to_thread(plugin.terminate) == 0
    plugin = start(**options)
    await until(lambda: len(kubelet.devices) == kubelet.healthy == 10, "the other one is offered", timeout=30)
    await until(lambda: found(plugin) == [second], "it says which it is")
    assert plugin.said("GPU 0 is lost, NVML says: GPU is lost; others go on: run nvidia-smi on the node")
    assert (await page(plugin, "/readyz"))[1].endswith("\nGPU 0: lost: NVML: GPU is lost\n")


async def test_ends_to_be_started_anew(start: Callable[..., PluginProcess]) -> None:
    """Where NVML is expected and stays away: exit status 1, and why, and what happens then."""
    plugin = start("--fail-on-init-error", "--init-error-seconds=1", NVIDIA_VISIBLE_DEVICES="all")
    assert await asyncio.to_thread(plugin.process.wait, 30) == 1
    assert plugin.said("libnvidia-ml.so.1 is not here")
    assert plugin.said("for 1 s: this program ends (fail_on_init_error), so that its container is made anew")
    assert plugin.lines()[-1]["event"] == "stopped"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has device nodes")
async def test_device_nodes_for_the_cpu_manager(
    node: Node,
    surroundings: dict[str, str],
    kubelet: FakeKubelet,
    start: Callable[..., PluginProcess],
    libraries: Libraries,
    tmp_path: Path,
) -> None:
    """NVML says the GPU's number; where its node is not seen no pod is started that could not begin, and it is said."""
    install(node, surroundings)
    with node.scheduler_socket():
        plugin = start(
            "--compat-with-cpu-manager",
            NVIDIA_VISIBLE_DEVICES="all",
            **simgpu.environment(tmp_path / "simgpu", "1x1GiB"),
        )
        await until(lambda: len(kubelet.devices) == 10, "the simulated GPU is known", timeout=30)
        said = (await page(plugin, "/readyz"))[1]
        assert kubelet.healthy == 0
        assert "/dev/nvidiactl is not in this container: run it privileged" in said


@pytest.mark.parametrize(
    "arguments",
    [["--config="], ["--config-dir=", "--config-default=a"], ["install-library", "--library-dir="]],
    ids=" ".join,
)
def test_no_path(surroundings: dict[str, str], arguments: list[str]) -> None:
    """What is empty is a variable that was not set: it is said, and nothing is installed in the present folder."""
    result = command(surroundings, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "'' is no path" in result.stderr


def test_wrong_settings(surroundings: dict[str, str], node: Node) -> None:
    """Exit status 2, and a line for each mistake."""
    file = node.root / "config.yaml"
    file.write_text("virtual_devices: 10000\nresourcename: x\n")
    result = command(surroundings, f"--config={file}", "--log-format=json")
    assert result.returncode == 2
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == ["nvshare-device-plugin"] * 2
    assert "virtual_devices: 10000 is wrong; allowed: an integer from 1 to 1000" in result.stderr
    assert "unknown key 'resourcename' (did you mean resource_name?)" in result.stderr


def test_metrics_port_in_use(surroundings: dict[str, str], node: Node) -> None:
    """Exit status 1 and the option that helps."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = command(surroundings, *node.options(), f"--metrics-address={address}")
    assert result.returncode == 1
    assert f"{address}: Address already in use: choose another with --metrics-address" in result.stderr


def test_install_twice(surroundings: dict[str, str], node: Node) -> None:
    """The second time says that it was there already; both print where."""
    arguments = ["install-library", f"--library-dir={node.library_dir}"]
    first, second = command(surroundings, *arguments), command(surroundings, *arguments)
    assert first.stdout.endswith(" installed\n")
    assert second.stdout == first.stdout.replace(" installed", " was already there")


def test_install_without_a_library(surroundings: dict[str, str], node: Node) -> None:
    """Exit status 1, naming the file."""
    result = command(surroundings, "install-library", f"--library-dir={node.library_dir}", "--source=/no/such.so")
    assert result.returncode == 1
    assert (
        result.stderr
        == "nvshare-device-plugin: /no/such.so: No such file or directory: name the library with --source\n"
    )


def test_help_names_every_setting(surroundings: dict[str, str]) -> None:
    """Every setting that fits on a command line is an option."""
    text = command(surroundings | {"COLUMNS": "200"}, "--help").stdout
    for key in FIELDS.keys() - {"virtual_devices_per_gpu", "extra_mounts", "extra_env"}:
        assert f"--{key.replace('_', '-')}" in text


def test_help_says_what_an_option_takes_and_its_default(surroundings: dict[str, str]) -> None:
    """Of every setting the default, and of each that takes a value what that is, not of which type it is in here."""
    text = " ".join(command(surroundings, "--help").stdout.split())
    assert text.count(" [default: ") == len(FIELDS) - len(("virtual_devices_per_gpu", "extra_mounts", "extra_env"))
    assert "<str>" not in text
    assert "--recovery-seconds SECONDS Time without errors after which a GPU is healthy again, 0 to 86400. " in text
    assert "[default: 60]" in text


async def test_memory_when_it_serves(
    node: Node,
    surroundings: dict[str, str],
    kubelet: FakeKubelet,
    start: Callable[..., PluginProcess],
    tmp_path: Path,
    libraries: Libraries,
) -> None:
    """Two GPUs of NVML's, a kubelet that allocates, and metrics: less than 64 MB are resident."""
    compiled = keeping_bytecode(tmp_path) | simgpu.environment(tmp_path / "simgpu", "2x1GiB")
    visible = {NVIDIA_VISIBLE_DEVICES: "all"}
    install(node, surroundings)
    with node.scheduler_socket():
        # Twice: the first compiles.
        for _ in range(2):
            plugin = start(**compiled, **visible)
            await until(lambda: kubelet.healthy == ALL, "all devices are known", timeout=60)
            for virtual_device in list(kubelet.devices):
                await kubelet.allocate([virtual_device])
            _, metrics = await page(plugin, "/metrics")
            assert await asyncio.to_thread(plugin.terminate) == 0
            await until(lambda: kubelet.healthy == 0, "the devices are gone")
    (resident,) = (line.split()[1] for line in metrics.splitlines() if line.startswith("process_resident_memory_bytes"))
    assert float(resident) < LIMIT_BYTES


def test_its_containers_runtime_is_killed(node: Node, surroundings: dict[str, str], tool: Callable[[str], str]) -> None:
    """It ends in order: what serves on beside the container that follows would have its settings for ever."""
    command = [tool("unshare"), "--pid", "--fork", *COMMAND]
    plugin = PluginProcess(node, surroundings, command=command)
    assert plugin.port
    plugin.kill()
    poll_until(lambda: plugin.said("stopped"), "it has ended", timeout=30)
