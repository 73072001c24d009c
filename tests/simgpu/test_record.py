"""Reading what devices executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.simgpu.record import read, record_path


def test_something_else_is_not_a_record(tmp_path: Path) -> None:
    """A file that no device wrote is refused by name."""
    record_path(tmp_path, 0).write_bytes(b"x" * 8192)
    with pytest.raises(ValueError, match="record-0 is not"):
        read(tmp_path, 0)
