"""GPUs that NVML shows only after the scheduler has started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from nvshare import paths
from nvshare.device_uuid import device_bytes
from nvshare.nvml_state import InitErrors, NvmlState
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import inventory, queries
from nvshare.scheduler.gpus.inventory import Inventory, KnownGpus
from nvshare.scheduler.gpus.names import gpu_name
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Discovery, Gpu, Unmeasured
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.record import Record
from tests.conftest import Libraries
from tests.polling import poll_until, until
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]

ONE = bytes(15) + b"\1"
TWO = bytes(15) + b"\2"


@pytest.fixture
async def dispatcher(tmp_path: Path) -> Dispatcher:
    """A dispatcher that knows no device."""
    log = structlog.wrap_logger(structlog.testing.CapturingLogger())
    record, choices = Record(tmp_path / "holders", "holders", log), Choices(tmp_path / "choices.json", Settings(), log)
    loop = asyncio.get_running_loop()
    return Dispatcher(
        Core(Settings()),
        loop,
        log,
        record,
        choices,
        lambda _clients: None,
        lambda _action: None,
        lambda _what, _clients: None,
        lambda _action: None,
    )


async def test_a_device_keeps_its_first_name(dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MIG device that a client named before NVML did goes on as it is called: two names would be two locks."""
    monkeypatch.setattr(inventory, "_SHORTEST_SECONDS", 0.01)
    loop, log = asyncio.get_running_loop(), structlog.wrap_logger(structlog.testing.CapturingLogger())
    known = KnownGpus.of({})
    dispatcher.make_known(gpu_name(ONE), 1)
    shown = tuple(Gpu(gpu_name(each).replace("GPU", "MIG"), "H200 1g", 16 * GIB) for each in (ONE, TWO))
    nvml = NvmlWatch(loop, log, InitErrors(False))
    gpus = Inventory(loop, nvml, dispatcher, known, log, discover=lambda _anew: Discovery(NvmlState.OK, shown))
    assert gpus.find(ONE) is None
    await until(gpus.all, "NVML is asked")
    gpus.stop()
    assert {uuid: gpu.product for uuid, gpu in known.by_uuid.items()} == {
        gpu_name(ONE): "H200 1g",
        shown[1].uuid: "H200 1g",
    }
    # The other one is shown before its first client.
    assert [device.total_bytes for device in dispatcher.snapshot()] == [16 * GIB, 16 * GIB]


async def test_a_device_that_a_client_invents(dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML is asked again, but need not begin anew for it: others' memory is measured meanwhile."""
    monkeypatch.setattr(inventory, "_SHORTEST_SECONDS", 0.01)
    loop, log = asyncio.get_running_loop(), structlog.wrap_logger(structlog.testing.CapturingLogger())
    found = Discovery(NvmlState.OK, (Gpu(gpu_name(ONE), "H200", 16 * GIB),))
    nvml, asked = NvmlWatch(loop, log, InitErrors(False)), list[bool]()
    nvml.heard(found)

    def discover(anew: bool) -> Discovery:
        asked.append(anew)
        return found

    gpus = Inventory(loop, nvml, dispatcher, KnownGpus.of(queries.by_bytes(found.gpus)), log, discover)
    assert gpus.find(TWO) is None
    await until(lambda: asked, "NVML is asked")
    assert asked == [False]
    gpus.stop()


async def test_a_gpu_that_was_lost_at_the_start(dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML is asked again until it gives it; then no more."""
    monkeypatch.setattr(inventory, "_LONGEST_SECONDS", 0.01)
    loop, log = asyncio.get_running_loop(), structlog.wrap_logger(structlog.testing.CapturingLogger())
    one, two = (Gpu(gpu_name(each), "H200", 16 * GIB) for each in (ONE, TWO))
    answers = [Discovery(NvmlState.OK, (one,), failed={"1": "GPU is lost"})] * 2 + [Discovery(NvmlState.OK, (one, two))]
    asked: list[Discovery] = []

    def discover(anew: bool) -> Discovery:
        assert anew
        asked.append(answers[min(len(asked), 2)])
        return asked[-1]

    nvml, known = NvmlWatch(loop, log, InitErrors(False)), KnownGpus.of({})
    gpus = Inventory(loop, nvml, dispatcher, known, log, discover)
    await until(lambda: nvml.notes() == ["GPU 1: lost: NVML: GPU is lost"], "it is known to be lost")
    assert gpus.all() == [one]
    await until(lambda: gpus.all() == [one, two], "it is back")
    assert (nvml.notes(), nvml.lacks_gpus, len(asked)) == ([], False, 3)
    nvml.measured(two.uuid, Unmeasured("GPU is lost", NvmlState.ERROR))
    await until(lambda: len(asked) > 3, "NVML begins anew for one that is lost later")
    gpus.stop()


def test_a_driver_that_is_installed_later(
    serve: Serve, environment: dict[str, str], libraries: Libraries, tmp_path: Path
) -> None:
    """Name and memory are those that NVML says then, not what the first client said, and it is measured."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    environment = {**environment, paths.SIMGPU_DEVICES: "Sim:16GiB"}
    scheduler = serve(environment=environment)
    scheduler.legacy_client().register()
    [device] = scheduler.status().devices
    scheduler.kill()
    scheduler = serve(environment={**environment, "LD_LIBRARY_PATH": str(folder)})
    first = scheduler.client().register(device_uuid=device_bytes(device.uuid), total_bytes=GIB)
    assert [(device.name, device.total_bytes) for device in scheduler.status().devices] == [("", GIB)]
    # What came before is over: NVML did not show the device, and is asked again soon.
    (folder / "libnvidia-ml.so.1").symlink_to(libraries.nvml)
    poll_until(
        lambda: [(each.name, each.total_bytes) for each in scheduler.status().devices] == [("Sim", 16 * GIB)],
        "NVML is heard",
        TIMEOUT_SECONDS,
    )
    first.lock()
