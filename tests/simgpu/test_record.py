"""Reading what devices executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.simgpu.record import read, record_path
from nvshare.simgpu.transfers import TO_DEVICE, TO_HOST
from tests.simgpu.conftest import Clients


def test_something_else_is_not_a_record(tmp_path: Path) -> None:
    """A file that no device wrote is refused by name."""
    record_path(tmp_path, 0).write_bytes(b"x" * 8192)
    with pytest.raises(ValueError, match="record-0 is not"):
        read(tmp_path, 0)


def test_copies_say_how_much_and_where_to(clients: Clients, state_dir: Path) -> None:
    """The bytes of each, and its way over the bus; what is no copy moved none."""
    clients.run(
        "from tests.simgpu.device import *\n"
        "Device.open()\n"
        "memory, more, host = allocate(3 << 20), allocate(1 << 20), bytearray(3 << 20)\n"
        "call('cuMemcpyHtoD', memory, host, 3 << 20)\n"
        "call('cuMemcpyDtoH', host, memory, 2 << 20)\n"
        "call('cuMemcpyDtoD', more, memory, 1 << 20)\n"
        "call('cuMemsetD8', memory, 0, 4096)\n"
        "call('cuCtxSynchronize')\n"
    )
    moved = [(span.name, span.bytes) for span in read(state_dir, 0)]
    assert moved == [(TO_DEVICE, 3 << 20), (TO_HOST, 2 << 20), ("copy", 1 << 20), ("memset", 0)]
    assert read(state_dir, 0, newest=2) == read(state_dir, 0)[-2:]
