"""Copies in host memory: whose it is, and what counts while one is being made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nvshare import paths
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written

pytestmark = pytest.mark.soak


def finds(program: ControlledProgram, peer: MemoryPeer, name: str, seed: str) -> str:
    """What it has in its memory when it has the lock."""
    program.begin(f"check {name} {seed}")
    peer.grant()
    answer = program.answer()
    peer.take_back()
    return answer


def x_and_y(program: ControlledProgram, peer: MemoryPeer) -> None:
    """The program has two times two chunks with contents."""
    reach_written(program, peer, "x", 2 * CHUNK)
    reach_allocated(program, peer, "y", 2 * CHUNK)
    program.begin("write y y")
    peer.grant()
    assert program.answer() == "0"
    peer.take_back()


def test_more_than_are_on_the_way_at_once(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Six chunks leave and come back, several times, on a device on which they would not be twice."""
    program = start_swapping(**{paths.SIMGPU_DEVICES: "1GiB"})
    peer = reach_registered(program, fake_scheduler, arena=6 * CHUNK)
    reach_written(program, peer, "x", 6 * CHUNK)
    for _ in range(3):
        peer.out_and_back(6 * CHUNK)
    assert finds(program, peer, "x", "x") == "right"


def test_by_turns_in_the_same_host_memory(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """What came in needs its copy no more, if another one has no place: then it must be copied again."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    x_and_y(program, peer)
    for _ in range(3):
        peer.evict(2 * CHUNK)
        peer.heard(resident_bytes=2 * CHUNK)
        peer.allot(4 * CHUNK, 4 * CHUNK)
        peer.heard(resident_bytes=4 * CHUNK)
        assert finds(program, peer, "x", "x") == "right"
        assert finds(program, peer, "y", "y") == "right"


def test_what_left_without_another_copy_keeps_its_own(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Two chunks leave by the copies that they have; for the others there is no host memory, so they stay."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    x_and_y(program, peer)
    peer.evict(2 * CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)
    peer.allot(4 * CHUNK, 4 * CHUNK)
    peer.heard(resident_bytes=4 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=2 * CHUNK, order=peer.order)
    program.client_waits(peer.peer)
    peer.allot(4 * CHUNK, 4 * CHUNK)
    peer.heard(resident_bytes=4 * CHUNK)
    assert finds(program, peer, "x", "x") == "right"
    assert finds(program, peer, "y", "y") == "right"


@dataclass
class LateFailure:
    """Copies of one kind that the driver takes and does not make; that they failed it says later, of all copies."""

    program: ControlledProgram
    fail: Callable[..., None]
    trace: Path
    copy: str

    def begin(self) -> None:
        """From now on."""
        self.fail(self.program, self.copy, "success")
        self.fail(self.program, "cuEventQuery", 700)

    def end(self, chunks: int) -> None:
        """Copies are made again; that they are is said once nobody looks for one that was not."""
        self.fail(self.program, self.copy, 0)
        # So many are on their way in one attempt: with one more than that there has been another attempt.
        enough = self._copies() + chunks + 1
        poll_until(lambda: self._copies() >= enough, "an attempt that began since has copied")
        self.fail(self.program, "cuEventQuery", 0)

    def _copies(self) -> int:
        """How many the program has put into a stream."""
        return self.trace.read_text(encoding="utf-8").split().count("cuEventRecord")


@pytest.fixture
def fail_late(fail: Callable[..., None], tmp_path: Path) -> Callable[[ControlledProgram, str], LateFailure]:
    """Of a program that was started with ``trace`` of the same folder."""
    return lambda program, copy: LateFailure(program, fail, tmp_path / "trace", copy)


def test_a_copy_to_the_host_that_is_not_known_to_be_there(
    start_swapping: Start,
    fake_scheduler: FakeScheduler,
    fail_late: Callable[[ControlledProgram, str], LateFailure],
    tmp_path: Path,
) -> None:
    """Nothing was copied, and the driver says so late: the contents are on the device still."""
    program = start_swapping(**{paths.SIMGPU_TRACE: str(tmp_path / "trace")})
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    failure = fail_late(program, "cuMemcpyDtoHAsync_v2")
    failure.begin()
    peer.evict(0)
    program.said("memory could not be brought out (error 700); trying again")
    failure.end(3)
    peer.heard(resident_bytes=0)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    peer.heard(resident_bytes=3 * CHUNK)
    assert finds(program, peer, "x", "x") == "right"


def test_a_copy_to_the_device_that_is_not_known_to_be_there(
    start_swapping: Start,
    fake_scheduler: FakeScheduler,
    fail_late: Callable[[ControlledProgram, str], LateFailure],
    tmp_path: Path,
) -> None:
    """The same in the other direction: the host copy is what counts."""
    program = start_swapping(**{paths.SIMGPU_TRACE: str(tmp_path / "trace")})
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0)
    failure = fail_late(program, "cuMemcpyHtoDAsync_v2")
    failure.begin()
    peer.allot(3 * CHUNK, 3 * CHUNK)
    program.said("memory could not be brought back (error 700); trying again")
    failure.end(3)
    peer.heard(resident_bytes=3 * CHUNK)
    assert finds(program, peer, "x", "x") == "right"
