"""When the devices' memory is measured, and which measurements count."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.nvml_state import InitErrors, NvmlState
from nvshare.scheduler.core.events import (
    DeviceSeen,
    MemoryFreed,
    PinnedAssumed,
    PinnedMeasured,
    Policy,
    ResidentSettled,
)
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState, SwapSnapshot, Totals
from nvshare.scheduler.gpus import memory_watch, queries
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.gpus.memory_watch import MemoryWatch
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Unmeasured
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.recovery import swappers
from nvshare.scheduler.recovery.awaited import Process
from nvshare.scheduler.recovery.record import Recorded
from nvshare.scheduler.recovery.swappers import Departed, Returning
from nvshare.scheduler.registered_client import RegisteredClient
from tests.polling import until

DEVICE = "GPU-a"
MIB = 1 << 20
GIB = 1 << 30
PID = 10
DEAD = 1 << 22
"""No process has this pid."""
STOPPED = 11
"""Of a client of the scheduler before, which does not come back."""

Event = DeviceSeen | PinnedMeasured | PinnedAssumed | MemoryFreed | ResidentSettled


class Machine:
    """One device with one client whose memory swaps: what NVML says, what the client says, what the core hears."""

    def __init__(self) -> None:
        self.resident = GIB
        self.usage: Usage | Unmeasured = Usage(16 * GIB, 2 * GIB, {PID: GIB + 500 * MIB})
        self.in_doubt = False
        """Something waits for a measurement."""
        self.measurements = 0
        self.moves: Callable[[], None] = lambda: None
        """What happens while NVML is asked."""
        self.heard: list[Event] = []
        self.log = structlog.wrap_logger(CapturingLogger())
        nobody = Description(PID, "", Identity())
        self.clients = {1: RegisteredClient(self, DEVICE, 2, "swap", PID, nobody)}  # type: ignore[arg-type]

    def snapshot(self) -> tuple[DeviceSnapshot, ...]:
        """See ``Dispatcher``."""
        swap = SwapSnapshot(self.resident, 0, 0, self.resident, 4 * GIB, 0, 0)
        client = ClientSnapshot(1, ShownState.IDLE, 4 * GIB, 0, False, 0.0, 0.0, 0, swap=swap)
        device = DeviceSnapshot(DEVICE, 16 * GIB, GIB, Policy.AUTO, 30.0, None, False, (client,), Totals())
        device = replace(device, in_doubt=self.in_doubt, shortage_bytes=MIB)
        return (device,) if self.clients else (replace(device, clients=()),)

    def feed(self, event: Event) -> None:
        """See ``Dispatcher``."""
        self.heard.append(event)

    def ask(self, _device: str) -> Usage | Unmeasured:
        self.measurements += 1
        self.moves()
        return self.usage


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """With rounds that follow each other fast if they come soon, and not at all otherwise."""
    machine = Machine()
    monkeypatch.setattr(queries, "usage", machine.ask)
    monkeypatch.setattr(memory_watch, "_SOON_SECONDS", 0.001)
    monkeypatch.setattr(memory_watch, "_SAYING_SECONDS", 0.001)
    monkeypatch.setattr(memory_watch, "_INTERVAL_SECONDS", 3600.0)
    return machine


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not come back is given up soon."""
    monkeypatch.setattr(swappers, "RETURN_SECONDS", 0.05)


@pytest.fixture
async def watching(machine: Machine) -> AsyncIterator[tuple[MemoryWatch, Departed]]:
    """Measures the machine."""
    loop = asyncio.get_running_loop()
    watch: list[MemoryWatch] = []
    departed = Departed(
        loop, lambda _: True, lambda: watch[0].ask_soon(), lambda number: machine.feed(MemoryFreed(number))
    )
    nvml = NvmlWatch(loop, machine.log, InitErrors(False))
    absent = Returning(
        [Recorded(DEVICE, 5, STOPPED, 0, "")],
        loop,
        machine.log,
        lambda _: True,
        lambda: watch[0].ask_soon(),
        lambda number: machine.feed(ResidentSettled(number)),
    )
    watch.append(MemoryWatch(loop, nvml, machine, {DEVICE: None}, departed, absent))  # type: ignore[arg-type]
    yield watch[0], departed
    watch[0].stop()
    departed.stop()
    absent.stop()


Watching = tuple[MemoryWatch, Departed]

FIRST_SEEN = DeviceSeen(DEVICE, 16 * GIB, 512 * MIB + 12 * MIB, settled=False)
"""Those who began without a scheduler may be among the others."""


async def begin(machine: Machine, watching: Watching, moves: Callable[[], None]) -> None:
    """Another round, after the first one; in it and in those that follow it this happens."""
    await until(lambda: machine.heard, "the first round is over")
    machine.heard.clear()
    machine.moves = moves
    watching[0].ask_soon()


async def test_what_did_not_move_is_measured(machine: Machine, watching: Watching) -> None:
    """What it pins is what its process has beyond what it says."""
    await until(lambda: machine.heard, "it is measured")
    assert machine.heard == [PinnedMeasured(1, 500 * MIB), FIRST_SEEN]


@pytest.mark.usefixtures("impatient")
async def test_memory_of_others_is_settled_when_all_are_back(machine: Machine, watching: Watching) -> None:
    """By a measurement that began after that."""
    await until(lambda: FIRST_SEEN in machine.heard, "it is measured at first")

    def is_settled() -> bool:
        watching[0].ask_soon()
        return replace(FIRST_SEEN, settled=True) in machine.heard

    await until(is_settled, "it is settled")


async def test_where_others_have_nothing_that_is_settled(machine: Machine, watching: Watching) -> None:
    """Nobody waits for a moment then."""
    machine.usage = Usage(16 * GIB, GIB + 500 * MIB, {PID: GIB + 500 * MIB})
    await begin(machine, watching, lambda: None)
    await until(lambda: machine.heard, "it is measured")
    assert machine.heard[-1] == DeviceSeen(DEVICE, 16 * GIB, 0)


@pytest.mark.usefixtures("impatient", "watching")
async def test_memory_of_one_that_does_not_come_back(machine: Machine) -> None:
    """It is nobody's while that one is awaited; then others', and the core hears that before it gives anything."""
    machine.usage = Usage(16 * GIB, 7 * GIB, {PID: GIB + 500 * MIB, STOPPED: 5 * GIB})
    await until(lambda: ResidentSettled(5) in machine.heard, "it is given up")
    foreign = [event.foreign_bytes for event in machine.heard if isinstance(event, DeviceSeen)]
    assert foreign[-1] == 5 * GIB + 512 * MIB + 12 * MIB
    assert machine.heard[-1] == ResidentSettled(5)


async def test_what_moved_is_measured_again(machine: Machine, watching: Watching) -> None:
    """Soon; until it stands still."""

    def move() -> None:
        if machine.measurements < 4:
            machine.resident += 64 * MIB
            machine.usage = replace(machine.usage, processes={PID: machine.resident + 500 * MIB})

    await begin(machine, watching, move)
    await until(lambda: machine.heard, "it is measured")
    assert machine.measurements == 4
    assert PinnedMeasured(1, 500 * MIB) in machine.heard


async def test_what_moves_without_end(machine: Machine, watching: Watching) -> None:
    """What others have is told after some tries; what the client pins can't be."""

    def move() -> None:
        machine.resident += MIB

    await begin(machine, watching, move)
    await until(lambda: machine.heard, "the device is measured")
    assert machine.heard == [FIRST_SEEN]


async def test_memory_of_the_dead(machine: Machine, watching: Watching) -> None:
    """It is measured at once, also where nobody else is, and only then the core hears that it is free."""
    _watch, departed = watching
    await until(lambda: machine.heard, "the first round is over")
    machine.heard.clear()
    machine.clients.clear()
    machine.usage = Usage(16 * GIB, 0, {})
    departed.left(1, Process(DEVICE, DEAD, 1))
    await until(lambda: machine.heard, "it is measured")
    assert machine.heard[-1] == MemoryFreed(1)
    assert machine.measurements == 2


async def test_an_answer_that_was_asked_for_before_is_not_enough(machine: Machine, watching: Watching) -> None:
    """One that begins afterwards is."""
    _watch, departed = watching
    loop = asyncio.get_running_loop()

    def leave() -> None:
        if machine.measurements == 2:
            loop.call_soon_threadsafe(departed.left, 7, Process(DEVICE, 0, 0))

    await begin(machine, watching, leave)
    await until(lambda: MemoryFreed(7) in machine.heard, "it is free")
    assert machine.measurements == 3


KNOWN = DeviceSeen(DEVICE, 16 * GIB, GIB + MIB)
"""With what a client found lacking, as others have that."""


@pytest.mark.parametrize("in_doubt", [True, False])
async def test_nvml_that_fails(machine: Machine, watching: Watching, in_doubt: bool) -> None:
    """What is known counts for whoever waits for a measurement, and the memory of the dead is free."""
    _watch, departed = watching
    await until(lambda: machine.heard, "the first round is over")
    machine.heard.clear()
    machine.usage, machine.in_doubt = Unmeasured("Unknown Error", NvmlState.ERROR), in_doubt
    departed.left(1, Process(DEVICE, DEAD, 1))
    await until(lambda: MemoryFreed(1) in machine.heard, "it is free")
    assert [event for event in machine.heard if isinstance(event, DeviceSeen)] == in_doubt * [KNOWN]


async def test_nvml_that_hangs(machine: Machine, watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, round by round, while it is asked nothing more; what it says in the end counts."""
    monkeypatch.setattr(memory_watch, "_ANSWER_SECONDS", 0.01)
    watch, departed = watching
    answer = threading.Event()
    machine.in_doubt = True

    def hang() -> None:
        answer.wait(20)

    await begin(machine, watching, hang)
    for number in (1, 2):
        departed.left(number, Process(DEVICE, DEAD, 1))
        await until(lambda number=number: MemoryFreed(number) in machine.heard, "it is free")
        watch.ask_soon()
        await until(lambda number=number: machine.heard.count(KNOWN) >= number, "what is known counts")
    assert (machine.measurements, watch.measured) == (2, set())
    answer.set()
    await until(lambda: watch.measured == {DEVICE}, "it answers")
    assert PinnedMeasured(1, 500 * MIB) in machine.heard
