"""A real scheduler beside a simulated GPU: what its management library says reaches the status."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from nvshare import paths
from nvshare.admin import admin_pb2
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]

MIB = 1 << 20
CONTEXT = 300 * MIB
USE_GPU = """
from cuda.bindings import driver
for call in (
    lambda: driver.cuInit(0), lambda: driver.cuCtxCreate(None, 0, 0), lambda: driver.cuMemAlloc(1 << 30)
):
    assert call()[0] == driver.CUresult.CUDA_SUCCESS
print(flush=True)
input()
"""


@contextmanager
def program(environment: dict[str, str]) -> Iterator[None]:
    """A process that has 1 GiB of the simulated GPU."""
    command = [sys.executable, "-c", USE_GPU]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "it failed; see its stderr"
        yield
        process.communicate(b"\n", TIMEOUT_SECONDS)


def test_memory_is_measured(serve: Serve, environment: dict[str, str], libraries: Libraries) -> None:
    """A client's context is pinned, what a process without the library has is foreign, and free again when it ends."""
    environment = {**environment, paths.SIMGPU_DEVICES: f"Sim:16GiB/{CONTEXT // MIB}MiB"}
    scheduler = serve(environment=environment)

    def memory() -> tuple[int, int, int]:
        [device] = scheduler.status().devices
        return device.foreign_bytes, device.clients[0].footprint_bytes, device.clients[0].pinned_bytes

    shared = {
        **environment,
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(scheduler.run_dir.root),
        paths.MEMORY: "native",
    }
    with program(shared):
        with program(environment):
            expected = (GIB + CONTEXT, GIB, CONTEXT)
            poll_until(lambda: memory() == expected, f"the memory is {expected}")
        poll_until(lambda: memory() == (0, GIB, CONTEXT), "the other's memory is free again")
    assert (scheduler.status().devices[0].name, scheduler.status().devices[0].total_bytes) == ("Sim", 16 * GIB)


def test_gpus_without_clients(serve: Serve, environment: dict[str, str], libraries: Libraries) -> None:
    """They are shown from the start, with index, name and memory; what others use there is measured, not 0 before."""
    environment = {**environment, paths.SIMGPU_DEVICES: "Sim:16GiB,8GiB"}
    scheduler = serve(environment=environment)
    first, second = scheduler.status().devices
    assert [(gpu.index, gpu.total_bytes) for gpu in (first, second)] == [("0", 16 * GIB), ("1", 8 * GIB)]
    assert first.name == "Sim"
    assert not first.clients

    def foreign() -> list[int | None]:
        gpus = scheduler.status().devices
        return [gpu.foreign_bytes if gpu.HasField("foreign_bytes") else None for gpu in gpus]

    poll_until(lambda: foreign() == [0, 0], "both are measured")
    with program(environment):
        poll_until(lambda: (foreign()[0] or 0) > GIB, "the program's memory is seen", timeout=30)
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=3, device_uuid=second.uuid))
    assert [gpu.quantum_seconds for gpu in scheduler.status().devices] == [30, 3]


def test_a_reserve_that_leaves_nothing(serve: Serve, environment: dict[str, str]) -> None:
    """One line says so of each such GPU, at the start: every program would be refused all memory."""
    scheduler = serve("--reserve", "8GiB", environment={**environment, paths.SIMGPU_DEVICES: "16GiB,8GiB"})
    (said,) = scheduler.logged("--reserve leaves programs whose memory swaps nothing of a GPU")
    assert said["device"] == scheduler.status().devices[1].uuid


def test_unknown_is_no_zero(serve: Serve) -> None:
    """Without NVML nobody knows what other processes use; a version 1 client says nothing of its memory."""
    scheduler = serve("--legacy-device", "GPU-6e767368-6172-6500-0000-000000000001")
    scheduler.legacy_client().register()
    [device] = scheduler.status().devices
    assert not device.HasField("foreign_bytes")
    assert not device.clients[0].HasField("footprint_bytes")
    assert not device.clients[0].pinned_measured


def test_gpus_in_the_order_of_their_indices(serve: Serve, environment: dict[str, str]) -> None:
    """Also after a restart under a holder of the second one, which the scheduler knows before it asks for GPUs."""
    environment = {**environment, paths.SIMGPU_DEVICES: "16GiB,8GiB"}
    scheduler = serve(environment=environment)
    second = UUID(scheduler.status().devices[1].uuid.removeprefix("GPU-")).bytes
    scheduler.client().register(device_uuid=second).lock()
    scheduler.kill()
    devices = serve(environment=environment).status().devices
    assert [(device.index, device.recovering) for device in devices] == [("0", False), ("1", True)]


def test_version_1_client_on_the_only_gpu(serve: Serve, environment: dict[str, str]) -> None:
    """Where NVML knows one GPU, a client that names none belongs to it."""
    environment = {**environment, paths.SIMGPU_DEVICES: "16GiB"}
    scheduler = serve(environment=environment)
    scheduler.legacy_client().register()
    [device] = scheduler.status().devices
    assert device.uuid.startswith("GPU-")
    assert device.total_bytes == 16 * GIB


def test_version_1_clients_beside_several_gpus(serve: Serve, environment: dict[str, str]) -> None:
    """Where there are several and no option says which, it is the first, as in the original; that is said once."""
    scheduler = serve(environment={**environment, paths.SIMGPU_DEVICES: "16GiB,8GiB"})
    for _ in range(2):
        scheduler.legacy_client().register()
    first, second = scheduler.status().devices
    assert (first.index, first.total_bytes, len(first.clients), len(second.clients)) == ("0", 16 * GIB, 2, 0)
    lines = [line for line in scheduler.log() if "version 1 clients name no GPU" in str(line["event"])]
    assert [(line["device"], line["gpus"]) for line in lines] == [(first.uuid, 2)]


def test_version_1_clients_on_the_gpu_that_an_option_names(serve: Serve, environment: dict[str, str]) -> None:
    """--legacy-device says another one, and then nothing is to be said."""
    environment = {**environment, paths.SIMGPU_DEVICES: "16GiB,8GiB"}
    scheduler = serve(environment=environment)
    uuid = scheduler.status().devices[1].uuid
    scheduler.kill()
    scheduler = serve("--legacy-device", uuid, environment=environment)
    scheduler.legacy_client().register()
    assert [len(device.clients) for device in scheduler.status().devices] == [0, 1]
    assert not [line for line in scheduler.log() if "version 1 clients name no GPU" in str(line["event"])]
