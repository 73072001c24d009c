"""Pacing on a simulated device with a clock of its own, and in the whole library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.shim import spy_driver
from tests.shim.children import Children, cases
from tests.shim.entrypoints import PACKAGE

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
EVENTS = 32
"""The most that are in use at a time, on one stream."""
STREAMS = 16
"""The most of which a thread remembers how far they have come."""
LONGEST_NAP = 2 * MILLISECOND
"""How late a thread that is held back may notice that it need not be."""
CLOSING = 2
"""A state of the gate."""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> ctypes.CDLL:
    """pacing.c and pace.c on the device of ``programs/pacing_device.c``; they are found wherever they are."""
    sources = PACKAGE / "shim" / "csrc"
    files = [next(sources.rglob(name)) for name in ("pacing.c", "pace.c")]
    folders = {PACKAGE, sources, *(path.parent for path in sources.rglob("*.h"))}
    wrapped = [f"-Wl,--wrap={name}" for name in ("clock_gettime", "nanosleep", "sched_yield")]
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs", *wrapped, *(f"-I{each}" for each in folders)]
    device = Path(__file__).parent / "programs" / "pacing_device.c"
    output = tmp_path_factory.mktemp("pacing") / "pacing.so"
    return ctypes.CDLL(str(spy_driver.compile_c(tool("gcc"), device, output, *map(str, files), *flags)))


class State(ctypes.Structure):
    """struct simulation: what happened and what shall happen; times are nanoseconds."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("now", "device_free", "idle", "slept", "created", "destroyed", "recorded", "calls", "lost"),
            *("faults", "context", "fails", "change_at", "change"),
        )
    )


@dataclass(frozen=True, slots=True)
class Device:
    """The simulated device and the one thread that uses it."""

    library: ctypes.CDLL
    state: State

    @property
    def backlog(self) -> int:
        """What a drain would take now."""
        return max(0, int(self.state.device_free) - int(self.state.now))

    def launch(self, kernel: int, stream: int = 0) -> int:
        """Launches a kernel of that time; returns how long the thread was held back."""
        before = self.state.slept
        self.library.simulation_launch(ctypes.c_uint64(kernel), ctypes.c_uint64(stream))
        return int(self.state.slept - before)

    def synchronize(self) -> None:
        """Waits until everything has completed."""
        self.state.now = max(self.state.now, self.state.device_free)

    def reach_hold(self, kernel: int) -> None:
        """Launches until the thread is held back for most of a kernel, so that it will be the next time."""
        for _ in range(1000):
            if self.launch(kernel) > kernel // 2:
                return
        pytest.fail("the thread is never held back")


@pytest.fixture
def device(library: ctypes.CDLL) -> Iterator[Device]:
    """An idle device; in the end, the driver must never have been asked for what it does not allow."""
    library.simulation_reset()
    state = State.in_dll(library, "simulation")
    yield Device(library, state)
    assert state.faults == 0


@pytest.mark.parametrize("kernel", [300 * MICROSECOND, 5 * MILLISECOND, 40 * MILLISECOND, 100 * MILLISECOND])
def test_queue_is_bounded_in_time(device: Device, kernel: int) -> None:
    """A thread that launches without an end has about a second queued at most, and the device is never idle."""
    worst = 0
    for _ in range(10 * SECOND // kernel):
        device.launch(kernel)
        worst = max(worst, device.backlog)
    assert 10 * MILLISECOND < worst <= 1.1 * SECOND
    assert device.state.idle == 0


def test_launches_that_are_the_bottleneck_are_not_held(device: Device) -> None:
    """A device that keeps up makes nobody wait."""
    assert sum(device.launch(MICROSECOND) for _ in range(20_000)) == 0


@pytest.mark.parametrize("change", [1, 2], ids=["gate-closes", "capture-begins"])
def test_hold_is_given_up(device: Device, change: int) -> None:
    """A thread does not wait on while its gate closes, or while a capture is going on that its questions would end."""
    device.reach_hold(100 * MILLISECOND)
    device.state.change_at = device.state.now + 20 * MILLISECOND
    device.state.change = change
    held = 0
    while device.state.change:
        held += device.launch(100 * MILLISECOND)
    assert 0 < held <= 20 * MILLISECOND + LONGEST_NAP
    assert device.backlog > 100 * MILLISECOND, "it was not its work that let it go"


def test_hold_goes_on_after_it_was_given_up(device: Device) -> None:
    """When the gate is open again and work has completed, the queue is bounded as before."""
    device.reach_hold(100 * MILLISECOND)
    device.library.simulation_gate(CLOSING)
    device.launch(100 * MILLISECOND)
    device.library.simulation_gate(1)
    device.synchronize()
    for _ in range(100):
        device.launch(100 * MILLISECOND)
        assert device.backlog <= 1.1 * SECOND


def test_work_that_waits_for_the_host_is_not_waited_for_long(device: Device) -> None:
    """300 launches behind something that the host does when it has launched them: about a second once, then little."""
    device.launch(MICROSECOND)
    held = []
    for _ in range(6):
        device.state.device_free = device.state.now + 3600 * SECOND
        held.append(sum(device.launch(MICROSECOND) for _ in range(300)))
        device.library.simulation_complete()
    assert held[0] <= 1500 * MILLISECOND
    assert held[-1] <= 5 * MILLISECOND
    assert device.state.created <= EVENTS


@pytest.mark.parametrize("kernel", [each * MILLISECOND // 100 for each in (1, 10, 30, 100, 700, 2_000, 10_000)])
def test_queue_is_short_while_somebody_waits(device: Device, kernel: int) -> None:
    """A twentieth of a second, or one kernel behind the one that runs, and the device is never idle."""
    device.library.simulation_contended(1)
    worst = 0
    for _ in range(10 * SECOND // kernel):
        device.launch(kernel)
        worst = max(worst, device.backlog)
    assert worst <= max(55 * MILLISECOND, 2 * kernel + 1 * MILLISECOND)
    assert device.state.idle == 0


def test_somebody_comes_in_the_middle_of_a_hold(device: Device) -> None:
    """The thread is held on, until the queue is short."""
    device.reach_hold(50 * MILLISECOND)
    device.state.change_at = device.state.now + 10 * MILLISECOND
    device.state.change = 3
    held = 0
    while device.state.change:
        held = device.launch(50 * MILLISECOND)
    assert held > 200 * MILLISECOND
    device.launch(50 * MILLISECOND)
    assert device.backlog <= 101 * MILLISECOND
    assert device.state.idle <= LONGEST_NAP


@pytest.mark.parametrize("streams", [2, 3, 8])
def test_every_stream_has_events(device: Device, streams: int) -> None:
    """Long kernels on one of several streams are seen, however regularly the thread goes from one to the next."""
    worst = 0
    for _ in range(300):
        for stream in range(streams):
            device.launch(MICROSECOND if stream else 50 * MILLISECOND, stream)
            worst = max(worst, device.backlog)
    assert worst <= 1.1 * SECOND
    assert all(device.library.simulation_recorded(ctypes.c_uint64(each)) for each in range(streams))


@pytest.mark.parametrize("streams", [2, 4, 8])
@pytest.mark.parametrize("kernel", [20 * MILLISECOND, 100 * MILLISECOND])
def test_long_kernels_on_every_stream_while_somebody_waits(device: Device, streams: int, kernel: int) -> None:
    """One for each stream is queued; the device, which runs them one after the other, is never idle."""
    device.library.simulation_contended(1)
    worst = 0
    for turn in range(100):
        for stream in range(streams):
            device.launch(kernel, stream)
            worst = max(worst, device.backlog if turn > 5 else 0)
    assert worst <= streams * kernel + 1 * MILLISECOND
    assert device.state.idle == 0


def test_more_streams_than_records(device: Device) -> None:
    """With very many streams the queue is bounded all the same, and so is the number of events."""
    worst = 0
    for _ in range(100):
        for stream in range(40):
            device.launch(5 * MILLISECOND, stream)
            worst = max(worst, device.backlog)
    assert worst <= 3 * SECOND
    assert device.state.created - device.state.destroyed <= STREAMS * EVENTS


def test_events_are_used_again(device: Device) -> None:
    """However much is launched, a thread has a fixed number of events, and none is recorded before it completed."""
    for kernel in (MICROSECOND, 5 * MILLISECOND, 300 * MICROSECOND, 100 * MILLISECOND, MICROSECOND):
        for _ in range(3000):
            device.launch(kernel)
    assert device.state.recorded > 5 * EVENTS
    assert device.state.created <= EVENTS
    assert device.state.destroyed == 0


def test_events_of_another_context_are_given_back(device: Device) -> None:
    """A thread that changes its context takes its events with it: none is used in the wrong one, none stays behind."""
    for turn in range(100):
        device.state.context = 1 + turn % 2
        for _ in range(100):
            device.launch(MILLISECOND)
    assert device.state.created - device.state.destroyed <= EVENTS


@pytest.mark.parametrize("step", [0, 1], ids=["same-address", "another-address"])
def test_no_event_is_left_behind_by_contexts_that_end(device: Device, step: int) -> None:
    """Of 100 contexts, each beside one that stays: what was made is in use, destroyed, or gone with its context."""
    device.library.simulation_stream(ctypes.c_uint64(1), ctypes.c_uint64(1))
    for turn in range(100):
        device.state.context = 2 + step * turn
        device.library.simulation_stream(ctypes.c_uint64(2), ctypes.c_uint64(2 + step * turn))
        for _ in range(30):
            device.launch(MILLISECOND)
            device.launch(MILLISECOND, 1)
            device.launch(MILLISECOND, 2)
        device.library.simulation_context_ending(ctypes.c_uint64(device.state.context), ctypes.c_int(1))
    assert device.state.lost > 100
    assert device.state.created - device.state.destroyed - device.state.lost <= EVENTS


def test_context_that_goes_on_keeps_its_events(device: Device) -> None:
    """A primary context that is given back by one of its users lives on: nothing is made anew, and the bound holds."""
    for _ in range(100):
        for _ in range(30):
            device.launch(20 * MILLISECOND)
            assert device.backlog <= 1.1 * SECOND
        device.library.simulation_context_ending(ctypes.c_uint64(1), ctypes.c_int(0))
    assert device.state.created <= EVENTS
    assert device.state.destroyed == 0


def test_stream_of_another_context(device: Device) -> None:
    """Its events are of its own context, whichever is current, and bound its queue."""
    for stream in (1, 2):
        device.library.simulation_stream(ctypes.c_uint64(stream), ctypes.c_uint64(stream))
    for turn in range(200):
        device.state.context = 1 + turn % 3
        for stream in (1, 2):
            device.launch(20 * MILLISECOND, stream)
            assert device.backlog <= 1.2 * SECOND
    assert device.state.recorded > 100
    assert device.state.created <= 2 * EVENTS
    assert device.state.destroyed == 0


@pytest.mark.parametrize("fails", [1, 2], ids=["create", "record"])
def test_driver_that_has_no_events(device: Device, fails: int) -> None:
    """Without events nothing is held back, and nothing is lost: with them the queue is bounded again."""
    device.state.fails = fails
    assert sum(device.launch(MILLISECOND) for _ in range(1000)) == 0
    assert device.state.created <= 1
    device.state.fails = 0
    device.synchronize()
    for _ in range(1000):
        device.launch(10 * MILLISECOND)
        assert device.backlog <= 1.1 * SECOND


def test_nothing_is_asked_during_a_capture(device: Device) -> None:
    """The driver forbids it to every thread."""
    device.launch(MILLISECOND)
    device.library.simulation_captures(1)
    before = device.state.calls
    for _ in range(1000):
        device.launch(MILLISECOND)
    assert device.state.calls == before


def test_questions_in_relaxed_mode(device: Device) -> None:
    """Once something was captured, a capture may begin at any time: every question is asked in relaxed mode."""
    device.library.simulation_captures(1)
    device.library.simulation_captures(0)
    for _ in range(1000):
        device.launch(10 * MILLISECOND)
    assert device.state.recorded > EVENTS
    assert device.backlog <= 1.1 * SECOND


@pytest.mark.parametrize("case", cases("pacing_cases.py"))
def test_in_the_library(children: Children, case: str) -> None:
    """What the docstring of the case claims."""
    children.run_python("pacing_cases.py", case)
