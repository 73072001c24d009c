"""The simulated driver answers as a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simgpu.conftest import HERE, KERNELS, Clients

ANSWERS = HERE / "real_answers.txt"


@pytest.mark.timeout(180)
def test_answers_are_those_of_a_real_gpu(
    compile_with_driver: Callable[[list[Path], str], Path], clients: Clients
) -> None:
    """1000 calls, right ones and wrong ones, have the results that an H200 with driver 580 gave."""
    sources = sorted((HERE / "programs" / "semantics").glob("*.c"))
    program = compile_with_driver(sources, "semantics")
    given = clients.run_program(program, KERNELS).splitlines()
    assert given == ANSWERS.read_text().splitlines()
