"""The checksum of a granule in a file."""

from __future__ import annotations

import random

from tests.c_parts import ffi, lib

STEP = 64


def total(data: bytes, number: int = 0, key: int = 1) -> int:
    """The checksum of the bytes."""
    words = random.Random(key)
    return int(lib.nvs_sum([words.getrandbits(64) for _ in range(lib.NVS_SUM_KEYS)], number, data, len(data)))


def test_every_bit_counts() -> None:
    """One that is changed, wherever it is and whatever else is there, makes another sum."""
    for data in (bytes(2 * STEP), b"\xff" * 2 * STEP, random.Random(0).randbytes(2 * STEP)):
        sums = {total(data)}
        for bit in range(len(data) * 8):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            sums.add(total(bytes(changed)))
        assert len(sums) == 1 + len(data) * 8


def test_places_count() -> None:
    """The same words elsewhere, or the same bytes as another granule, make another sum."""
    drawn = random.Random(1)
    words = [drawn.randbytes(8) for _ in range(2 * STEP // 8)]
    sums = {total(b"".join(words))}
    for one in range(len(words)):
        for other in range(one):
            changed = list(words)
            changed[one], changed[other] = changed[other], changed[one]
            sums.add(total(b"".join(changed)))
    assert len(sums) == 1 + len(words) * (len(words) - 1) // 2
    assert len({total(bytes(STEP), number) for number in range(100)}) == 100


def test_the_key_counts() -> None:
    """Nobody can know which contents have the same sum."""
    assert len({total(bytes(STEP), key=key) for key in range(100)}) == 100


def test_the_same_bytes() -> None:
    """Have the same sum, wherever they are."""
    data = random.Random(2).randbytes(STEP)
    room = ffi.new("char[]", STEP + 8)
    for offset in range(8):
        ffi.memmove(room + offset, data, STEP)
        assert total(bytes(ffi.buffer(room + offset, STEP))) == total(data)
