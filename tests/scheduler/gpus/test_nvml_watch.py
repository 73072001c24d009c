"""How the scheduler's NVML is, in its log and for whoever asks, and when the scheduler ends for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from structlog.testing import CapturingLogger

from nvshare.nvml_state import InitErrors, NvmlState
from nvshare.scheduler.gpus import discovery, queries
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.gpus.nvml_exit import NvmlExit
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Discovery, Gpu, Unmeasured
from tests.polling import until

GPU = Gpu("GPU-6e767368-6172-6500-0000-000000000001", "H200", 1 << 34)
LOST = Unmeasured("GPU is lost", NvmlState.ERROR)
NO_LIBRARY = Discovery(NvmlState.LIBRARY_NOT_FOUND, reason="NVML Shared Library Not Found")


class Watched:
    """A watch, its log, and whether there is a GPU on the bus."""

    def __init__(self, fatal: bool | None = None, on_bus: bool = True, seconds: float = 0.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = CapturingLogger()
        self.nvml = NvmlWatch(self.loop, self.log, InitErrors(fatal, seconds, lambda: on_bus), silence_seconds=0.01)

    def lines(self, words: str) -> int:
        return sum(words in f"{call.args} {call.kwargs}" for call in self.log.calls)


async def test_nvml_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start goes on without it; that it hangs is said once and shown, and so is that it answers."""
    watched, answer = Watched(), threading.Event()

    def discover() -> Discovery:
        answer.wait()
        return Discovery(NvmlState.OK, (GPU,))

    monkeypatch.setattr(queries, "discover", discover)
    monkeypatch.setattr(discovery, "_NVML_SECONDS", 0.05)
    assert watched.nvml.state is NvmlState.UNKNOWN
    assert await discovery.discover(watched.nvml, watched.log) == {}
    assert watched.nvml.state is NvmlState.SILENT
    assert watched.nvml.notes() == [
        "the driver does not answer NVML: run nvidia-smi on the node; if that hangs too, only a reboot helps"
    ]
    heard: list[Discovery] = []
    watched.nvml.submit(discover, heard.append)
    answer.set()
    await until(lambda: heard, "it answers")
    assert (watched.lines("the driver does not answer NVML"), watched.lines("NVML answers again")) == (1, 1)
    assert watched.nvml.notes() == []
    assert watched.nvml.state is NvmlState.UNKNOWN


@pytest.mark.parametrize(
    ("found", "on_bus", "state", "words"),
    [
        (Discovery(NvmlState.NO_GPU), True, NvmlState.NO_GPU, "NVML shows no GPU, so memory of other processes"),
        (NO_LIBRARY, False, NvmlState.NO_GPU, "no NVML here (NVML Shared Library Not Found), so memory"),
        (NO_LIBRARY, True, NvmlState.LIBRARY_NOT_FOUND, "libnvidia-ml.so.1 is not here: install NVIDIA's driver"),
        (Discovery(NvmlState.DRIVER_NOT_LOADED), True, NvmlState.DRIVER_NOT_LOADED, "load the driver there"),
        (Discovery(NvmlState.VERSION_MISMATCH), False, NvmlState.VERSION_MISMATCH, "different versions"),
        (Discovery(NvmlState.ERROR), False, NvmlState.ERROR, "look for NVRM in its kernel log"),
    ],
)
async def test_no_gpu_here_or_nvml_broken(found: Discovery, on_bus: bool, state: NvmlState, words: str) -> None:
    """They are told apart, with what to do about each; said once, and again when it is over."""
    watched = Watched(on_bus=on_bus)
    for _ in range(3):
        watched.nvml.heard(found)
    assert (watched.nvml.state, watched.lines(words), len(watched.log.calls)) == (state, 1, 1)
    assert len(watched.nvml.notes()) == state.is_broken
    assert watched.log.calls[0].method_name == ("warning" if state.is_broken else "info")
    assert watched.nvml.lacks_gpus
    watched.nvml.heard(Discovery(NvmlState.OK, (GPU,)))
    assert (watched.nvml.state, watched.lines("NVML is available"), watched.nvml.notes()) == (NvmlState.OK, 1, [])
    assert not watched.nvml.lacks_gpus


async def test_a_gpu_that_comes_and_goes() -> None:
    """Each change is one line, whether a look for GPUs or a measurement finds it."""
    watched = Watched()
    lost = Discovery(NvmlState.OK, (GPU,), failed={"1": "GPU is lost"})
    for turn in (1, 2):
        for found, notes in ((lost, ["GPU 1: lost: NVML: GPU is lost"]), (Discovery(NvmlState.OK, (GPU,)), [])):
            for _ in range(3):
                watched.nvml.heard(found)
                assert (watched.nvml.notes(), watched.nvml.state) == (notes, NvmlState.OK)
        for _ in range(3):
            assert watched.nvml.measured(GPU.uuid, LOST) is None
            assert watched.nvml.notes() == [f"{GPU.uuid}: lost: NVML: GPU is lost"]
            assert watched.nvml.lacks_gpus
        assert watched.nvml.measured(GPU.uuid, Usage(1, 1, {})) == Usage(1, 1, {})
        assert watched.nvml.notes() == []
        assert watched.lines("NVML does not give a GPU; others go on") == turn
        assert watched.lines("NVML gives a GPU again") == turn
        assert watched.lines("NVML does not say what is in a GPU's memory") == turn
        assert watched.lines("NVML says what is in a GPU's memory again") == turn


async def test_a_gpu_without_memory_of_its_own_is_not_lost() -> None:
    """One line says that it can't be measured; nothing is wrong with it."""
    watched = Watched()
    watched.nvml.heard(Discovery(NvmlState.OK, (GPU,)))
    for _ in range(3):
        assert watched.nvml.measured(GPU.uuid, Unmeasured("Not Supported", NvmlState.OK)) is None
    assert (len(watched.log.calls), watched.nvml.notes(), watched.nvml.lacks_gpus) == (1, [], False)


class FakeDispatcher:
    """As ``Dispatcher``, with so many clients; counts how often somebody looks."""

    def __init__(self, clients: int) -> None:
        self._clients = clients
        self.looks = 0

    @property
    def clients(self) -> dict[int, None]:
        self.looks += 1
        return dict.fromkeys(range(self._clients))


def nvml_exit(watched: Watched, clients: int, ended: asyncio.Event) -> tuple[NvmlExit, FakeDispatcher]:
    """One that looks all the time."""
    dispatcher = FakeDispatcher(clients)
    return NvmlExit(watched.loop, watched.nvml, dispatcher, ended.set, 0), dispatcher  # type: ignore[arg-type]


async def test_ends_without_nvml() -> None:
    """Where there is a GPU, after its time, and with the reason."""
    watched, ended = Watched(), asyncio.Event()
    watched.nvml.heard(NO_LIBRARY)
    ending, _ = nvml_exit(watched, 0, ended)
    await asyncio.wait_for(ended.wait(), 10)
    assert "this scheduler ends (--fail-on-init-error), and its container is made anew" in str(ending.reason)
    assert "libnvidia-ml.so.1 is not here" in str(ending.reason)


async def test_nvml_that_breaks_while_it_is_used() -> None:
    """That no GPU can be measured is said with the right advice, and not again once NVML's own state is known."""
    watched = Watched()
    watched.nvml.heard(Discovery(NvmlState.OK, (GPU,)))
    for _ in range(2):
        watched.nvml.measured(GPU.uuid, Unmeasured("mismatch", NvmlState.VERSION_MISMATCH))
    assert (watched.lines("different versions"), watched.nvml.lacks_gpus) == (1, True)
    watched.nvml.heard(Discovery(NvmlState.VERSION_MISMATCH, reason="mismatch"))
    for _ in range(2):
        watched.nvml.measured(GPU.uuid, Unmeasured("Uninitialized", NvmlState.ERROR))
    assert (watched.lines("different versions"), watched.lines("Uninitialized"), len(watched.nvml.notes())) == (2, 0, 1)


def nvml_comes(watched: Watched) -> None:
    watched.nvml.heard(Discovery(NvmlState.NO_GPU))


@pytest.mark.parametrize(
    ("fatal", "on_bus", "clients", "then"),
    [
        (False, True, 0, None),
        (None, False, 0, None),
        (True, True, 1, None),
        (True, True, 0, nvml_comes),
    ],
)
async def test_does_not_end(
    fatal: bool | None, on_bus: bool, clients: int, then: Callable[[Watched], None] | None
) -> None:
    """Unless it was chosen, where no GPU is, while it has clients, or once NVML is there."""
    watched, ended = Watched(fatal, on_bus), asyncio.Event()
    watched.nvml.heard(NO_LIBRARY)
    if then is not None:
        then(watched)
    ending, dispatcher = nvml_exit(watched, clients, ended)
    await until(lambda: dispatcher.looks > 2, "it has looked")
    ending.close()
    assert (ended.is_set(), ending.reason) == (False, None)
