"""Allocating calls that the simulated GPU lacks, with the counting driver: the scheduler hears what they take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler

INT8, FLOAT, BC1, UNORM_INT8X4 = 0x01, 0x20, 0x91, 0xC2
LAYERED, SPARSE = 0x01, 0x40
HANDLE = "*4096,0"
"""Where a call puts a handle; the counting driver leaves what is there."""


@pytest.fixture
def program(children: Children) -> Iterator[ControlledProgram]:
    """A program with native memory."""
    controlled = ControlledProgram(children.environment | {paths.MEMORY: "native"})
    yield controlled
    controlled.end()


def words(*sizes: int) -> str:
    """Sizes of 64 bits, as the words of 32 bits that they consist of."""
    return ",".join(f"{size & 0xFFFFFFFF},{size >> 32}" for size in sizes)


def array3d(width: int, height: int, depth: int, fmt: int, channels: int, flags: int = 0) -> str:
    """A CUDA_ARRAY3D_DESCRIPTOR."""
    return f"*{words(width, height, depth)},{fmt},{channels},{flags}"


CALLS = [
    ("cuMemAlloc", f"{HANDLE} 1000", 1000, "cuMemFree 4096"),
    ("cuMemAllocPitch", f"{HANDLE} *512 500 10 4", 5120, "cuMemFree 4096"),
    ("cuArrayCreate", f"{HANDLE} *100,10,{FLOAT},2", 8000, "cuArrayDestroy 4096"),
    ("cuArrayCreate", f"{HANDLE} *100,0,{INT8},4", 400, "cuArrayDestroy 4096"),
    ("cuArrayCreate_v2", f"{HANDLE} *{words(100, 10)},{FLOAT},1", 4000, "cuArrayDestroy 4096"),
    ("cuArray3DCreate", f"{HANDLE} *10,10,10,{FLOAT},1,0", 4000, "cuArrayDestroy 4096"),
    ("cuArray3DCreate_v2", f"{HANDLE} {array3d(64, 64, 0, BC1, 4)}", 2048, "cuArrayDestroy 4096"),
    ("cuArray3DCreate_v2", f"{HANDLE} {array3d(64, 64, 2, UNORM_INT8X4, 4, LAYERED)}", 32768, "cuArrayDestroy 4096"),
    ("cuMipmappedArrayCreate", f"{HANDLE} {array3d(8, 8, 8, INT8, 1)} 3", 512 + 64 + 8, "cuMipmappedArrayDestroy 4096"),
    (
        "cuMipmappedArrayCreate",
        f"{HANDLE} {array3d(8, 8, 8, INT8, 1, LAYERED)} 3",
        512 + 128 + 32,
        "cuMipmappedArrayDestroy 4096",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "size", "free"), CALLS)
def test_old_and_rare_calls(
    program: ControlledProgram, run_dir: paths.RunDir, name: str, arguments: str, size: int, free: str
) -> None:
    """Each is charged with what it takes, and its free gives that back."""
    with FakeScheduler(run_dir.client_socket) as scheduler:
        peer = scheduler.serve(program)
        assert program.do(f"symbol {name} {arguments}") == "0"
        assert peer.receive() == wire.Footprint(size)
        assert program.do(f"symbol {free}") == "0"
        assert peer.receive() == wire.Footprint(0)


def test_sparse_array_takes_nothing(program: ControlledProgram, run_dir: paths.RunDir) -> None:
    """Its memory comes from cuMemCreate and is charged there."""
    with FakeScheduler(run_dir.client_socket) as scheduler:
        peer = scheduler.serve(program)
        assert program.do(f"symbol cuArray3DCreate_v2 {HANDLE} {array3d(64, 64, 0, FLOAT, 1, SPARSE)}") == "0"
        assert program.do("allocate 7") == "0"
        assert peer.receive() == wire.Footprint(7)
