"""Catalogues: bytes and back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.protocol import catalogue
from nvshare.protocol.layout import ffi
from tests import c_parts

KEY = bytes(range(catalogue.KEY_BYTES))


def test_key() -> None:
    """It is one of the library's sums."""
    assert 8 * c_parts.lib.NVS_SUM_KEYS == catalogue.KEY_BYTES


def test_head() -> None:
    """It says the key, and for how many entries there is room behind it."""
    data = catalogue.head(KEY, 3)
    assert len(data) == catalogue.HEAD_BYTES
    head = ffi.from_buffer("struct nvs_catalogue_head *", data)
    assert (bytes(ffi.buffer(head.key)), head.room) == (KEY, 3)
    assert catalogue.file_bytes(3) == len(data) + 3 * ffi.sizeof("struct nvs_catalogue_entry")


def test_key_of_wrong_length() -> None:
    """A key is not padded or cut."""
    with pytest.raises(ValueError, match="64 bytes, not 5"):
        catalogue.head(b"short", 1)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, catalogue.NO_BLOCK))))
def test_entries(pairs: list[tuple[int, int]]) -> None:
    """They are as the header says, and their sums can be read again."""
    sums, blocks = [found for found, _ in pairs], [block for _, block in pairs]
    data = catalogue.entries(sums, blocks)
    assert catalogue.sums(data) == sums
    entries = ffi.from_buffer("struct nvs_catalogue_entry []", data)
    assert [(entry.sum, entry.block) for entry in entries] == pairs


def test_broken_entries() -> None:
    """Half an entry is none, and each sum has a block."""
    with pytest.raises(struct.error):
        catalogue.sums(bytes(17))
    with pytest.raises(ValueError, match="shorter"):
        catalogue.entries([1, 2], [1])
