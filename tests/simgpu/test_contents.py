"""The kernels with which the library looks at the contents of device memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import build_native
from tests.simgpu.conftest import HERE, Clients

ANSWERS = HERE / "real_contents.txt"
CONTENTS = build_native.SOURCES / "nvshare" / "shim" / "csrc" / "memory" / "swap" / "contents.ptx"


def test_hashes_are_those_of_a_real_gpu(
    compile_with_driver: Callable[[list[Path], str], Path], clients: Clients
) -> None:
    """Of several sizes, blocks and contents, as an H100 with driver 580 gave them; a bit makes another one."""
    program = compile_with_driver([HERE / "programs" / "contents.c"], "contents")
    given = clients.run_program(program, CONTENTS).splitlines()
    assert given == ANSWERS.read_text().splitlines()
    hashes = [line.partition(": ")[2] for line in given]
    assert len(set(hashes)) == len(hashes)
