"""Small allocations in slabs, and the table of addresses, against dictionaries."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.c_parts import ffi, lib

GRANULE = 2 << 20
SLAB = lib.NVS_SLAB_BYTES
UNIT = lib.NVS_SMALL_UNIT
SIZES = st.one_of(
    st.integers(1, 4 * UNIT),
    st.integers(1, lib.NVS_SMALL_BYTES),
    st.sampled_from([1, UNIT, UNIT + 1, 7 * UNIT, 8 * UNIT, 9 * UNIT, lib.NVS_SMALL_BYTES]),
)


class Slabs:
    """Slabs one after the other from address ``SLAB`` on, in the way that the library uses them."""

    def __init__(self) -> None:
        self.slabs = ffi.new("struct nvs_slabs *")
        self.made: dict[int, Any] = {}
        self.next = SLAB

    def take(self, size: int) -> Any:
        """An allocation, from a new slab if none has room."""
        small = lib.nvs_small_take(self.slabs, size)
        if small == ffi.NULL:
            slab = lib.nvs_slab_make(self.next, ffi.NULL)
            self.made[self.next] = slab
            self.next += SLAB
            assert lib.nvs_slab_add(self.slabs, slab)
            small = lib.nvs_small_take(self.slabs, size)
        assert small != ffi.NULL
        return small

    def give(self, small: Any) -> bool:
        """Frees it; whether a slab was given back."""
        slab = lib.nvs_small_give(self.slabs, small)
        if slab != ffi.NULL:
            del self.made[slab.start]
        return bool(slab != ffi.NULL)

    def at(self, address: int) -> Any:
        """What lies at an address."""
        return lib.nvs_small_at(self.made[address // SLAB * SLAB], address)

    def end(self) -> None:
        """Takes all slabs away."""
        while (slab := lib.nvs_slab_take(self.slabs)) != ffi.NULL:
            del self.made[slab.start]
        assert not self.made


def units(size: int) -> int:
    """How many bytes an allocation takes."""
    return -(-size // UNIT) * UNIT


class Model(RuleBasedStateMachine):
    """Allocations lie apart, are found by all their addresses, and what is freed can be had again."""

    @initialize()
    def begin(self) -> None:
        self.slabs = Slabs()
        self.live: dict[int, tuple[Any, int]] = {}

    @rule(size=SIZES)
    def take(self, size: int) -> None:
        """A new one lies in a slab, aligned, and over no other."""
        small = self.slabs.take(size)
        start = lib.nvs_small_start(small)
        assert start % UNIT == 0
        assert small.bytes == size
        assert start // SLAB == (start + units(size) - 1) // SLAB
        for other, (_, length) in self.live.items():
            assert start + units(size) <= other or other + units(length) <= start
        self.live[start] = (small, size)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        """A slab goes when it is the second one that is empty."""
        start = data.draw(st.sampled_from(sorted(self.live)))
        empty_before = self.empty()
        small, _ = self.live.pop(start)
        gone = self.slabs.give(small)
        home_is_empty = all(other // SLAB != start // SLAB for other in self.live)
        assert gone == (home_is_empty and empty_before == 1)

    @precondition(lambda self: self.slabs.made)
    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """Any address leads to the allocation that it lies in, and to none between them."""
        slab = data.draw(st.sampled_from(sorted(self.slabs.made)))
        address = slab + data.draw(st.integers(0, SLAB - 1))
        found = self.slabs.at(address)
        expected = [start for start, (_, size) in self.live.items() if start <= address < start + units(size)]
        assert ([] if found == ffi.NULL else [lib.nvs_small_start(found)]) == expected

    def empty(self) -> int:
        """How many slabs have nothing in them."""
        return len(self.slabs.made.keys() - {start // SLAB * SLAB for start in self.live})

    @invariant()
    def at_most_one_is_kept(self) -> None:
        """Of the slabs with nothing in them one stays."""
        assert self.empty() <= 1

    def teardown(self) -> None:
        """All slabs come back, whatever is in them."""
        self.slabs.end()


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=100, stateful_step_count=80)


@pytest.mark.parametrize("size", [1, 512, 1000, 1024, 3000, 4096, 100_000, 524_288, 1 << 20])
def test_a_slab_is_used_up(size: int) -> None:
    """Allocations of one size fill a slab before the next one is needed."""
    slabs = Slabs()
    fits = SLAB // units(size)
    for _ in range(fits):
        slabs.take(size)
    assert len(slabs.made) == 1
    slabs.take(size)
    assert len(slabs.made) == 2
    slabs.end()


def test_the_whole_slab_comes_back() -> None:
    """After thousands of random allocations and frees a slab is again one piece."""
    slabs, chance, live = Slabs(), random.Random(1), list[Any]()
    for _ in range(20_000):
        if live and chance.random() < 0.5:
            slabs.give(live.pop(chance.randrange(len(live))))
        else:
            live.append(slabs.take(chance.choice([100, 1024, 5000, 70_000])))
    for small in live:
        slabs.give(small)
    assert len(slabs.made) == 1
    slabs.take(1 << 20)
    slabs.take(1 << 20)
    assert len(slabs.made) == 1
    slabs.end()


def test_alternating_makes_no_slabs() -> None:
    """One allocation that comes and goes has the same slab each time."""
    slabs = Slabs()
    for _ in range(1000):
        assert not slabs.give(slabs.take(1024))
    assert slabs.next == 2 * SLAB
    slabs.end()


class Table(RuleBasedStateMachine):
    """The table says of every address what a list of ranges would."""

    @initialize()
    def begin(self) -> None:
        lib.nvs_addresses_forget()
        self.ranges: dict[int, int] = {}

    def owner(self, address: int) -> int:
        """The start of the range that the address lies in; 0: none."""
        granule = address // GRANULE * GRANULE
        return next((start for start, size in self.ranges.items() if start <= granule < start + size), 0)

    @rule(granule=st.integers(65_500, 65_600), count=st.integers(1, 40))
    def set(self, granule: int, count: int) -> None:
        """A range where nothing is, also over the end of a leaf."""
        start, size = granule * GRANULE, count * GRANULE
        if not any(self.owner(start + at * GRANULE) for at in range(count)):
            assert lib.nvs_addresses_set(start, size, ffi.cast("void *", start))
            self.ranges[start] = size

    @precondition(lambda self: self.ranges)
    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        """A range goes as a whole."""
        start = data.draw(st.sampled_from(sorted(self.ranges)))
        lib.nvs_addresses_clear(start, self.ranges.pop(start))

    @rule(address=st.integers(65_490 * GRANULE, 65_650 * GRANULE))
    def find(self, address: int) -> None:
        """Any address leads to its range."""
        assert int(ffi.cast("uintptr_t", lib.nvs_addresses_find(address))) == self.owner(address)


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=100, stateful_step_count=60)


@pytest.mark.parametrize("address", [0, 1, (1 << 52) - 1, 1 << 52, 1 << 63, (1 << 64) - 1])
def test_addresses_of_nobody(address: int) -> None:
    """No address is too far to be asked about."""
    lib.nvs_addresses_forget()
    assert lib.nvs_addresses_find(address) == ffi.NULL


@pytest.mark.parametrize(
    ("start", "size"), [(1 << 52, GRANULE), ((1 << 52) - GRANULE, 2 * GRANULE), (1 << 63, GRANULE)]
)
def test_addresses_of_no_device(start: int, size: int) -> None:
    """What lies behind the last address that a device can have is refused, and nothing is changed."""
    lib.nvs_addresses_forget()
    assert not lib.nvs_addresses_set(start, size, ffi.cast("void *", 8))
    assert lib.nvs_addresses_find((1 << 52) - GRANULE) == ffi.NULL
