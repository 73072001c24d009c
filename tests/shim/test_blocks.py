"""Chunks and blocks on the simulated GPU: allocations, frees and questions in every state of the memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.conftest import libraries_of
from tests.shim import store_program


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with the library's files in it."""
    driver = libraries_of("strict").cuda
    return store_program.program(build_native.TARGETS["strict"], driver, tmp_path_factory.mktemp("store"))


def run(program: Path, environment: dict[str, str], case: str) -> str:
    """What a case prints; it fails with the line of the check that did."""
    own = {
        paths.MEMORY: "swap",
        paths.SIMGPU_DEVICES: "2x16GiB",
        "LD_LIBRARY_PATH": str(libraries_of("strict").cuda.parent),
    }
    result = subprocess.run([program, case], env=environment | own, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", store_program.CASES)
def test_case(program: Path, environment: dict[str, str], case: str) -> None:
    """What programs/store says of the case."""
    assert "too little" not in run(program, environment, case)


def test_answers_are_those_of_plain_memory(program: Path, environment: dict[str, str]) -> None:
    """Each attribute is answered as driver 580 answers for cuMemAlloc, but what nobody else may have of it."""
    lines = run(program, environment, "queries").splitlines()
    results = {int(line.split(":")[0]): line.split(":")[1].split() for line in lines if line[0].isdigit()}
    refused = {4: "1/0", 22: "1/1"}
    assert {name: answer[0] for name, answer in results.items()} == {
        name: refused.get(name, "0/0") for name in range(1, 23)
    }
    narrow = {name: int.from_bytes(bytes.fromhex(answer[1])[:4], "little") for name, answer in results.items()}
    # memory type, SYNC_MEMOPS, managed, ordinal, mapped, access flags: as plain memory
    assert [narrow[name] for name in (2, 6, 8, 9, 13, 16)] == [2, 0, 0, 0, 1, 3]
    # legacy IPC: as plain memory; handle types, RDMA, decompression: not of memory that moves
    assert [narrow[name] for name in (10, 14, 15, 21)] == [1, 0, 0, 0]
    # the size of a small allocation, and of what it is in
    assert [narrow[name] for name in (12, 18)] == [1000, 2 << 20]
