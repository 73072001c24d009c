"""What leaves and has not changed, or is zeros, is not copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.simgpu import record, transfers
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written


def with_lock(program: ControlledProgram, peer: MemoryPeer, command: str) -> str:
    """What the program answers to a command that needs the lock, for which it has it."""
    program.begin(command)
    peer.grant()
    answer = program.answer()
    peer.take_back()
    return answer


@pytest.fixture
def copied(environment: dict[str, str]) -> Callable[[], int]:
    """How many bytes were copied to host memory on the first device; what a program reads in whole chunks counts."""
    folder = Path(environment[paths.SIMGPU_DIR])
    return lambda: sum(
        span.bytes for span in record.read(folder, 0) if span.name == transfers.TO_HOST and transfers.swaps(span)
    )


def executed(environment: dict[str, str], name: str) -> int:
    """How often a kernel was."""
    return sum(span.name == name for span in record.read(Path(environment[paths.SIMGPU_DIR]), 0))


def becomes(recorded: Callable[[], int], wanted: int) -> None:
    """The record has a copy or a kernel only after whoever waited for it has gone on."""
    poll_until(lambda: recorded() == wanted, f"{wanted} and no more are recorded")


def test_what_was_only_read_is_copied_once(
    start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int]
) -> None:
    """However often it leaves."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    for turn in range(1, 4):
        peer.out_and_back(3 * CHUNK)
        assert with_lock(program, peer, "peek x 0") != "0"
        becomes(copied, 3 * CHUNK)
        assert peer.resident.spared_bytes == 3 * (turn - 1) * CHUNK
    assert with_lock(program, peer, "check x x") == "right"


@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, 2 * CHUNK + 12345, 3 * CHUNK - 1])
def test_one_byte_makes_a_chunk_another_one(
    start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int], place: int
) -> None:
    """Only the chunk that was written is copied again."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    peer.out_and_back(3 * CHUNK)
    assert with_lock(program, peer, f"poke x {place} 7") == "0"
    peer.out_and_back(3 * CHUNK)
    becomes(copied, 4 * CHUNK)
    assert peer.resident.spared_bytes == 2 * CHUNK
    assert with_lock(program, peer, f"peek x {place}") == "7"
    assert with_lock(program, peer, "check x x") == "wrong"


UNIT, VECTOR = 64 << 10, 16
"""What the hash looks at in one piece (``cuda/contents.h``): units are a block's, and vectors a thread's."""


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        pytest.param(0, 256 * UNIT, UNIT, id="units of one block"),
        pytest.param(0, UNIT, UNIT, id="units of two blocks"),
        pytest.param(UNIT, 256 * UNIT, UNIT, id="another one of the first block and the first of another one"),
        pytest.param(5 * UNIT, 1023 * UNIT, UNIT, id="units far away"),
        pytest.param(0, VECTOR, VECTOR, id="vectors of two threads"),
        pytest.param(0, 256 * VECTOR, VECTOR, id="vectors of one thread"),
        pytest.param(3 * VECTOR, 259 * VECTOR + UNIT, VECTOR, id="vectors of two blocks"),
        pytest.param(0, 8, 8, id="halves of a vector"),
        pytest.param(4, 12, 4, id="words"),
    ],
)
def test_what_has_changed_places_has_changed(
    start_swapping: Start, fake_scheduler: FakeScheduler, one: int, other: int, size: int
) -> None:
    """Two pieces that are put together in the same way."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    for place, value in ((one, 11), (other, 22)):
        assert with_lock(program, peer, f"poke x {place} {value}") == "0"
    peer.out_and_back(CHUNK)
    assert with_lock(program, peer, f"exchange x {one} {other} {size}") == "0"
    peer.out_and_back(CHUNK)
    assert peer.resident.spared_bytes == 0
    assert with_lock(program, peer, f"peek x {one}") == "22"


def test_the_first_byte_again(start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int]) -> None:
    """What was changed and changed back is what the last copy had, or not: only contents count."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    peer.out_and_back(CHUNK)
    assert with_lock(program, peer, "write x y") == "0"
    assert with_lock(program, peer, "write x x") == "0"
    peer.out_and_back(CHUNK)
    becomes(copied, CHUNK)
    assert peer.resident.spared_bytes == CHUNK
    assert with_lock(program, peer, "write x y") == "0"
    peer.out_and_back(CHUNK)
    assert with_lock(program, peer, "write x x") == "0"
    peer.out_and_back(CHUNK)
    becomes(copied, 3 * CHUNK)
    assert peer.resident.spared_bytes == CHUNK
    assert with_lock(program, peer, "check x x") == "right"


def test_what_changes_each_time_is_hashed_seldom(
    start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int], environment: dict[str, str]
) -> None:
    """Two hashes tell that it has changed; then it leaves once, three and seven times without. It is noticed that it
    does not change any more."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    hashes = [1, 2, 2, 3, 4, 4, 4, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7]
    for turn, hashed in enumerate(hashes, 1):
        peer.out_and_back(CHUNK)
        becomes(lambda: executed(environment, "nvs_hash_contents"), hashed)
        assert with_lock(program, peer, f"poke x 0 {turn}") == "0"
    becomes(copied, len(hashes) * CHUNK)
    peer.out_and_back(CHUNK)
    assert peer.resident.spared_bytes == 0
    for _ in range(9):
        assert with_lock(program, peer, "peek x 0") == str(len(hashes))
        peer.out_and_back(CHUNK)
    assert peer.resident.spared_bytes == CHUNK
    assert with_lock(program, peer, "peek x 0") == str(len(hashes))


def test_zeros_need_no_host_memory(
    start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int], environment: dict[str, str]
) -> None:
    """They are made anew: also those of memory that had other contents, and has had them copied."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    assert with_lock(program, peer, "clear x") == "0"
    peer.evict(0)
    assert peer.heard(resident_bytes=0).out_bytes == 0
    peer.allot(2 * CHUNK, 2 * CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)
    becomes(lambda: executed(environment, "nvs_clear_contents"), 2)
    assert [with_lock(program, peer, f"peek x {place}") for place in (0, CHUNK, 2 * CHUNK - 1)] == ["0"] * 3
    becomes(copied, 2 * CHUNK)


def test_zeros_leave_their_host_memory_to_others(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Host memory for two chunks is enough for two of zeros and two others."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    reach_allocated(program, peer, "zeros", 2 * CHUNK)
    assert with_lock(program, peer, "clear zeros") == "0"
    peer.evict(0)
    assert peer.heard(resident_bytes=0).out_bytes == 2 * CHUNK
    peer.allot(4 * CHUNK, 4 * CHUNK)
    peer.heard(resident_bytes=4 * CHUNK)
    assert with_lock(program, peer, "check x x") == "right"
    assert with_lock(program, peer, f"peek zeros {CHUNK}") == "0"


def test_zeros_that_stay_zeros(start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int]) -> None:
    """Also where nothing was submitted between two times that they leave; and then they are written."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    assert with_lock(program, peer, "clear x") == "0"
    for _ in range(3):
        peer.out_and_back(CHUNK)
    assert with_lock(program, peer, "peek x 5") == "0"
    becomes(copied, 0)
    assert with_lock(program, peer, "write x x") == "0"
    peer.out_and_back(CHUNK)
    becomes(copied, CHUNK)
    assert with_lock(program, peer, "check x x") == "right"


@pytest.mark.parametrize("function", ["cuModuleLoadData", "cuModuleGetFunction", "cuMemHostAlloc"])
def test_without_the_kernels_all_is_copied(
    start_swapping: Start,
    fake_scheduler: FakeScheduler,
    copied: Callable[[], int],
    fail: Callable[..., None],
    function: str,
) -> None:
    """The driver compiles none, for instance."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    fail(program, function, 222)
    for turn in range(1, 3):
        peer.out_and_back(CHUNK)
        assert with_lock(program, peer, "peek x 0") != "0"
        becomes(copied, turn * CHUNK)
        assert peer.resident.spared_bytes == 0
    assert with_lock(program, peer, "check x x") == "right"


def test_a_launch_that_fails(
    start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int], fail: Callable[..., None]
) -> None:
    """What is not known to be unchanged is copied, and what was copied so is not taken for what was hashed before."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    peer.out_and_back(CHUNK)
    assert with_lock(program, peer, "write x y") == "0"
    fail(program, "cuLaunchKernel", 701)
    peer.out_and_back(CHUNK)
    fail(program, "cuLaunchKernel", 0)
    assert with_lock(program, peer, "write x x") == "0"
    peer.out_and_back(CHUNK)
    becomes(copied, 3 * CHUNK)
    assert peer.resident.spared_bytes == 0
    assert with_lock(program, peer, "check x x") == "right"


def test_a_context_ends_meanwhile(
    start_swapping: Start, fake_scheduler: FakeScheduler, copied: Callable[[], int], environment: dict[str, str]
) -> None:
    """The kernels are made again in the other one, and hashes compare with those of before."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "before", CHUNK)
    peer.out_and_back(CHUNK)
    assert program.do("use_another") == "0"
    reach_written(program, peer, "x", CHUNK)
    peer.out_and_back(2 * CHUNK)
    assert program.do("release") == "0"
    peer.heard(footprint_bytes=CHUNK)
    hashed, spared = executed(environment, "nvs_hash_contents"), peer.resident.spared_bytes
    assert with_lock(program, peer, "peek x 0") != "0"
    peer.out_and_back(CHUNK)
    becomes(lambda: executed(environment, "nvs_hash_contents"), hashed + 1)
    becomes(copied, 2 * CHUNK)
    assert peer.resident.spared_bytes == spared + CHUNK
    assert with_lock(program, peer, "check x x") == "right"
