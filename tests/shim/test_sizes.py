"""How people write a size, in C: the library and the simulated GPU read it by the same function."""

from __future__ import annotations

import pytest

from tests.c_parts import ffi, lib
from tests.size_table import size_table

FAULTS = {"no size": lib.NVS_SIZE_NONE, "too small": lib.NVS_SIZE_SMALL, "too large": lib.NVS_SIZE_LARGE}
BEFORE = 12345


@pytest.mark.parametrize(("text", "meaning"), size_table())
def test_the_table(text: str, meaning: str) -> None:
    """A text means the bytes that the table says, or nothing is written and the answer says what is wrong."""
    size = ffi.new("uint64_t *", BEFORE)
    read = lib.nvs_size_of(text.encode(), size)
    if meaning in FAULTS:
        assert (read, size[0]) == (FAULTS[meaning], BEFORE)
    else:
        assert (read, size[0]) == (lib.NVS_SIZE_FINE, int(meaning))
