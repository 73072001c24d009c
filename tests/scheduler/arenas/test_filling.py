"""Segments are made and filled, in turns, within what there is."""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
from pathlib import Path

import pytest

from nvshare import huge_pages
from nvshare.scheduler.arenas import segment
from nvshare.scheduler.arenas.filling import AT_ONCE, Failed, Fill, Filling
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.worker import Worker
from tests.polling import until

MIB = 1 << 20


class Room:
    """Limits of the test's choice."""

    def __init__(self, room_bytes: int = 1 << 40) -> None:
        self.bytes = room_bytes

    def room_bytes(self) -> int:
        return self.bytes


class Workbench:
    """A filling whose segments come out here."""

    def __init__(self, room: MemoryLimits) -> None:
        self.filling = Filling([Worker(asyncio.get_running_loop(), "arenas")], room)
        self.done: list[tuple[str, int | Failed]] = []

    def begin(self, name: str, size_bytes: int) -> Fill:
        return self.filling.begin(size_bytes, lambda made: self.take(name, made))

    def take(self, name: str, made: int | Failed) -> None:
        self.done.append((name, made))

    @property
    def names(self) -> list[str]:
        return [name for name, _made in self.done]

    def close(self) -> None:
        for _name, made in self.done:
            if isinstance(made, int):
                os.close(made)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 1 MiB."""
    monkeypatch.setattr(segment, "PIECE_BYTES", MIB)


def arenas() -> int:
    """How many segments this process has open."""
    with os.scandir("/proc/self/fd") as found:
        return sum(_is_arena(Path(each.path)) for each in found)


def _is_arena(link: Path) -> bool:
    try:
        return "nvshare-arena" in str(link.readlink())
    except OSError:
        return False  # It was closed meanwhile.


def bench_with(room_bytes: int = 1 << 40) -> Workbench:
    return Workbench(Room(room_bytes))  # type: ignore[arg-type]


async def test_a_segment_has_its_size_its_pages_and_seals(small_pieces: None) -> None:
    """Nobody can change its size later, and none of its pages has to be found when it is used."""
    bench = bench_with()
    bench.begin("a", 5 * MIB)
    await until(lambda: bench.done, "it is filled")
    descriptor = bench.done[0][1]
    assert isinstance(descriptor, int)
    found = os.fstat(descriptor)
    assert (found.st_size, found.st_blocks * 512) == (5 * MIB, 5 * MIB)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 6 * MIB)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, MIB)
    with pytest.raises(PermissionError):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert not os.get_inheritable(descriptor)
    bench.close()


async def test_pages_are_taken_near_a_gpu(small_pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By threads that run there meanwhile; anywhere where nothing is near, or where this process may not run."""
    all_cpus = os.sched_getaffinity(0)
    near = frozenset({max(all_cpus)})
    ran_on = []

    def fill(*_where: int, huge: bool) -> None:
        ran_on.append(os.sched_getaffinity(0))

    monkeypatch.setattr(segment, "fill", fill)
    bench = bench_with()
    for cpus in (near, frozenset(), near | {1 << 20}, frozenset({1 << 20})):
        bench.filling.begin(MIB, lambda made: bench.take("a", made), cpus=cpus)
    await until(lambda: len(bench.done) == len(ran_on) == 4, "all are filled")
    assert ran_on == [near, all_cpus, near, all_cpus]
    assert os.sched_getaffinity(0) == all_cpus
    bench.close()


async def test_nobody_waits_for_anothers_whole_segment(small_pieces: None) -> None:
    """A small one that comes later is ready long before a large one."""
    bench = bench_with()
    large = bench.begin("large", 64 * MIB)
    filled_then = []

    def ready(made: int | Failed) -> None:
        filled_then.append(large.filled_bytes)
        bench.take("small", made)

    bench.filling.begin(2 * MIB, ready)
    await until(lambda: len(bench.done) == 2, "both are filled")
    assert bench.names == ["small", "large"]
    assert filled_then[0] <= 3 * MIB
    bench.close()


async def test_one_that_is_given_up_costs_nothing(small_pieces: None) -> None:
    """Neither memory nor a descriptor is left of it, and it is not handed out."""
    bench = bench_with()
    fills = [bench.begin(f"{number}", 256 * MIB) for number in range(AT_ONCE + 3)]
    await until(lambda: fills[0].filled_bytes and fills[1].filled_bytes, "they are on their way")
    assert 0 < arenas() <= AT_ONCE
    for fill in fills:
        bench.filling.give_up(fill)
    await until(lambda: not arenas(), "all is given back")
    bench.begin("last", MIB)
    await until(lambda: bench.names == ["last"], "others are served as before")
    bench.close()


async def test_beyond_the_limit_nothing_is_taken(small_pieces: None) -> None:
    """The kernel would end the process: what had been taken is given back, and it is known what else there was."""
    room = Room(512 * MIB)
    bench = Workbench(room)  # type: ignore[arg-type]
    fill = bench.begin("a", 256 * MIB)
    await until(lambda: fill.filled_bytes, "it has begun")
    room.bytes = MIB // 2
    await until(lambda: bench.done, "it has failed")
    failed = bench.done[0][1]
    assert isinstance(failed, Failed)
    assert failed.room_bytes == MIB // 2
    await until(lambda: not arenas(), "all is given back")


async def test_an_error_of_the_kernel(small_pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file system, or no descriptor left: the reason is kept and nothing else is."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment, "fill", full)
    bench = bench_with()
    bench.begin("a", 2 * MIB)
    await until(lambda: bench.done, "it has failed")
    assert bench.done[0][1] == Failed("No space left on device", 0)
    await until(lambda: not arenas(), "all is given back")


def test_huge_pages_that_must_be_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only where the system says so; such a segment has all its pages too."""
    setting = tmp_path / "shmem_enabled"
    monkeypatch.setattr(huge_pages, "SETTING", setting)
    assert not segment.must_ask_for_huge_pages()
    setting.write_text("always within_size advise [never] deny force\n")
    assert not segment.must_ask_for_huge_pages()
    setting.write_text("always within_size [advise] never deny force\n")
    assert segment.must_ask_for_huge_pages()
    descriptor = segment.make(6 * MIB)
    segment.fill(descriptor, 2 * MIB, 4 * MIB, huge=True)
    assert os.fstat(descriptor).st_blocks * 512 == 4 * MIB
    with mmap.mmap(descriptor, 6 * MIB) as mapped:
        assert not any(mapped[:])
    os.close(descriptor)
