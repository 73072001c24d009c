"""The book of allocations, against a dictionary."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.c_parts import ffi, lib

KINDS = st.sampled_from([lib.NVS_ENTRY_POINTER, lib.NVS_ENTRY_HANDLE])
KEYS = st.sampled_from([0x10 * number for number in range(1, 9)] + [1, 2])
CONTEXTS = [ffi.NULL, ffi.cast("void *", 0x100), ffi.cast("void *", 0x200)]


def entry(kind: int, key: int, *, size: int = 0, context: Any = ffi.NULL, holds: int = 0) -> Any:
    """A struct nvs_entry."""
    return ffi.new("struct nvs_entry *", {"kind": kind, "key": key, "bytes": size, "context": context, "holds": holds})


@pytest.fixture(autouse=True)
def empty_book() -> Iterator[None]:
    """Each test begins and ends with an empty book."""
    lib.nvs_account_forget()
    yield
    lib.nvs_account_forget()


class Book(RuleBasedStateMachine):
    """What the book says is what a dictionary would."""

    @initialize()
    def begin(self) -> None:
        lib.nvs_account_forget()
        self.expected: dict[tuple[int, int], tuple[int, int, int]] = {}

    @rule(kind=KINDS, key=KEYS, size=st.integers(0, 1 << 40), context=st.integers(0, 2), holds=st.integers(1, 3))
    def add(self, kind: int, key: int, size: int, context: int, holds: int) -> None:
        """An entry replaces an older one of the same kind and key."""
        assert lib.nvs_account_add(entry(kind, key, size=size, context=CONTEXTS[context], holds=holds))
        self.expected[kind, key] = (size, context, holds)

    @rule(kind=KINDS, key=KEYS)
    def take(self, kind: int, key: int) -> None:
        """An entry is taken once."""
        taken = ffi.new("struct nvs_entry *")
        expected = self.expected.pop((kind, key), None)
        assert bool(lib.nvs_account_take(kind, key, taken)) == (expected is not None)
        if expected:
            assert (taken.kind, taken.key, taken.bytes) == (kind, key, expected[0])

    @rule(kind=KINDS, key=KEYS)
    def find(self, kind: int, key: int) -> None:
        """Looking changes nothing."""
        found = ffi.new("struct nvs_entry *")
        expected = self.expected.get((kind, key))
        assert bool(lib.nvs_account_find(kind, key, found)) == (expected is not None)
        if expected:
            assert (found.bytes, found.holds) == (expected[0], expected[2])

    @rule(kind=KINDS, key=KEYS, change=st.sampled_from([-2, -1, 1]))
    def hold(self, kind: int, key: int, change: int) -> None:
        """An entry goes when nothing holds it, and is never held less than not at all."""
        changed = ffi.new("struct nvs_entry *")
        size, context, holds = self.expected.get((kind, key), (0, 0, -10))
        possible = holds + change >= 0
        assert bool(lib.nvs_account_hold(kind, key, change, changed)) == possible
        if possible:
            assert changed.holds == holds + change
            self.expected[kind, key] = (size, context, holds + change)
        if holds + change == 0:
            del self.expected[kind, key]

    @rule(context=st.integers(1, 2))
    def sweep(self, context: int) -> None:
        """All entries of a context go, each reported once, and no others."""
        gone: list[tuple[int, int]] = []
        callback = ffi.callback("void(*)(struct nvs_entry *)", lambda each: gone.append((each.kind, each.key)))
        lib.nvs_account_sweep(CONTEXTS[context], callback)
        expected = [place for place, (_, owner, _) in self.expected.items() if owner == context]
        assert sorted(gone) == sorted(expected)
        for place in expected:
            del self.expected[place]


TestBook = Book.TestCase
TestBook.settings = settings(max_examples=60, stateful_step_count=60)


def test_many_entries() -> None:
    """A hundred thousand allocations are all found again."""
    count = 100_000
    for number in range(count):
        lib.nvs_account_add(entry(lib.NVS_ENTRY_POINTER, 0x7F0000000000 + 512 * number, size=number))
    taken = ffi.new("struct nvs_entry *")
    for number in range(count):
        assert lib.nvs_account_take(lib.NVS_ENTRY_POINTER, 0x7F0000000000 + 512 * number, taken)
        assert taken.bytes == number


def test_racing_takers() -> None:
    """Of many threads that take the same entries each gets different ones, and together they get all."""
    count, threads = 20_000, 4
    for number in range(1, count + 1):
        lib.nvs_account_add(entry(lib.NVS_ENTRY_POINTER, 256 * number))
    won = [0] * threads
    start = threading.Barrier(threads)

    def race(index: int) -> None:
        taken = ffi.new("struct nvs_entry *")
        start.wait()
        for number in range(1, count + 1):
            won[index] += bool(lib.nvs_account_take(lib.NVS_ENTRY_POINTER, 256 * number, taken))

    runners = [threading.Thread(target=race, args=(index,)) for index in range(threads)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert sum(won) == count
