"""A scheduler whose NVML, the simulated one, is sick or missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nvshare import paths
from nvshare.device_uuid import device_bytes
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]


def sick(environment: dict[str, str], text: str) -> None:
    """Says what is wrong with NVML from now on."""
    folder = Path(environment[paths.SIMGPU_DIR])
    folder.mkdir(exist_ok=True)
    (folder / "nvml").write_text(text)


def test_a_gpu_that_is_lost_at_the_start(serve: Serve, environment: dict[str, str]) -> None:
    """The others are known with name and size, and one that is lost later stays; which ones they are is said."""
    environment = {**environment, paths.SIMGPU_DEVICES: "3xSim:16GiB"}
    sick(environment, "lost 1\n")
    scheduler = serve(environment=environment)
    known = [(device.index, device.name, device.total_bytes) for device in scheduler.status().devices]
    assert sorted(known) == [("0", "Sim", 16 * GIB), ("2", "Sim", 16 * GIB)]
    assert "NVML does not give a GPU; others go on" in scheduler.log_file.read_text()
    sick(environment, "lost 1\nlost 2\n")
    poll_until(
        lambda: "NVML does not say what is in a GPU's memory" in scheduler.log_file.read_text(),
        "the loss is noticed",
        TIMEOUT_SECONDS,
    )
    devices = {device.index: device for device in scheduler.status().devices}
    assert sorted(devices) == ["0", "2"]
    scheduler.client().register(device_uuid=device_bytes(devices["0"].uuid)).lock()


def test_a_gpu_without_memory_of_its_own(serve: Serve, environment: dict[str, str]) -> None:
    """It counts as large as the smallest size that a client reports."""
    environment = {**environment, paths.SIMGPU_DEVICES: "Sim:16GiB"}
    sick(environment, "no-memory 0\n")
    scheduler = serve(environment=environment)
    [device] = scheduler.status().devices
    assert (device.name, device.index, device.total_bytes) == ("Sim", "0", 0)
    client = scheduler.client().register(device_uuid=device_bytes(device.uuid), total_bytes=4 * GIB)
    assert [each.total_bytes for each in scheduler.status().devices] == [4 * GIB]
    client.lock()
    assert '"level": "warning"' not in scheduler.log_file.read_text()


def test_ends_to_be_started_anew(serve: Serve) -> None:
    """Where it was told to and NVML stays away: exit status 1, and why."""
    scheduler = serve("--fail-on-init-error", "true", "--init-error-seconds", "3", environment={"LD_LIBRARY_PATH": ""})
    assert scheduler.process.wait(TIMEOUT_SECONDS) == 1
    assert "after 3 s of that this scheduler ends (--fail-on-init-error)" in scheduler.log_file.read_text()
