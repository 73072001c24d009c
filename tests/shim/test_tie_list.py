"""What is told of ties, against a naive model, and the digest that makes their keys."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.c_parts import ffi, lib

Key = tuple[bytes, int]
KEYS = st.tuples(st.sampled_from([bytes([number]) * 32 for number in range(3)]), st.sampled_from([1, 2]))
MOST: int = lib.NVS_TIES_MOST


class Ties:
    """A list."""

    def __init__(self) -> None:
        self.list: Any = ffi.new("struct nvs_tie_list *")

    def add(self, key: Key, size: int = 0) -> bool:
        """Holds a tie once more."""
        return bool(lib.nvs_tie_list_add(self.list, *key, size))

    def drop(self, key: Key) -> bool:
        """Holds it once less."""
        return bool(lib.nvs_tie_list_drop(self.list, *key))

    def say(self) -> Any:
        """The next frame; None: nothing is to be said."""
        frame = ffi.new("struct nvs_frame *")
        return frame if lib.nvs_tie_list_say(self.list, frame) else None

    def joined(self, key: Key) -> bool:
        """Whether it is in effect."""
        found = lib.nvs_tie_list_find(self.list, *key)
        return bool(found) and found.state == lib.NVS_TIE_JOINED

    @property
    def any_held(self) -> bool:
        """Whether one is."""
        return bool(lib.nvs_tie_list_holds(self.list))


def key_of(frame: Any) -> Key:
    """Whom a frame is about."""
    return bytes(frame.gang.key), frame.gang.tie


class Model(RuleBasedStateMachine):
    """Whatever happens: once all is said, the scheduler knows just the ties that are held."""

    @initialize()
    def begin(self) -> None:
        self.ties = Ties()
        self.holds: dict[Key, int] = {}
        self.known: dict[Key, int] = {}
        self.answered: set[Key] = set()
        self.newest = 0

    @rule(key=KEYS)
    def add(self, key: Key) -> None:
        """A tie begins, or is held once more."""
        assert self.ties.add(key)
        self.holds[key] = self.holds.get(key, 0) + 1

    @rule(key=KEYS)
    def drop(self, key: Key) -> None:
        """A tie ends, or is held once less; one that nobody holds can't."""
        held = self.holds.get(key, 0)
        assert self.ties.drop(key) == (held > 0)
        self.holds[key] = max(0, held - 1)

    @rule(times=st.integers(1, 9))
    def say(self, times: int) -> None:
        """Some of what is to be said is said: nothing that the scheduler knows, nothing of which it does not."""
        for _ in range(times):
            frame = self.ties.say()
            if frame is None:
                assert set(self.known) == {key for key, held in self.holds.items() if held}
                return
            key = key_of(frame)
            if frame.type == lib.NVS_LEAVE:
                assert not self.holds[key]
                del self.known[key]
                self.answered.discard(key)
            else:
                assert frame.type == lib.NVS_JOIN
                assert key not in self.known
                assert self.holds[key]
                assert frame.request > self.newest
                self.newest = self.known[key] = frame.request

    @rule(request=st.integers(0, 40))
    def hear(self, request: int) -> None:
        """An answer puts what it answers into effect; what was never asked is wrong."""
        assert bool(lib.nvs_tie_list_heard(self.ties.list, request)) == (0 < request <= self.newest)
        self.answered |= {key for key, number in self.known.items() if number == request}

    @rule()
    def forget(self) -> None:
        """Another scheduler knows nothing."""
        lib.nvs_tie_list_forget(self.ties.list)
        self.known.clear()
        self.answered.clear()

    @invariant()
    def holds_what_was_added(self) -> None:
        """An end that is not told yet is no tie."""
        holds = getattr(self, "holds", None)
        assert holds is None or self.ties.any_held == any(holds.values())

    def teardown(self) -> None:
        """In effect is what was answered and is held."""
        for key, held in getattr(self, "holds", {}).items():
            assert self.ties.joined(key) == (held > 0 and key in self.answered)


Model.TestCase.settings = settings(max_examples=200, stateful_step_count=30)
TestModel = Model.TestCase


def test_a_full_list() -> None:
    """When there is no room, a tie that is held already can still be held; another one finds room after an end."""
    ties = Ties()
    keys = [(number.to_bytes(32, "big"), 1) for number in range(MOST + 1)]
    assert [ties.add(key) for key in keys] == [True] * MOST + [False]
    assert ties.add(keys[0])
    while ties.say():
        pass
    assert ties.drop(keys[1])
    assert not ties.add(keys[MOST])  # the end is to be told yet
    assert key_of(ties.say()) == keys[1]
    assert ties.add(keys[MOST])


def test_size_is_told() -> None:
    """JOIN says how many belong together."""
    ties = Ties()
    ties.add((bytes(32), 2), 8)
    assert ties.say().gang.size == 8


@pytest.mark.parametrize(("tie", "size", "told"), [(1, 4, True), (1, 0, False), (2, 4, False)])
def test_what_was_complete_is_told(tie: int, size: int, told: bool) -> None:
    """JOIN by a name with a size says to the next scheduler that it was answered before, and only then."""
    ties = Ties()
    key = (bytes(32), tie)
    ties.add(key, size)
    assert not ties.say().gang.was_complete
    lib.nvs_tie_list_forget(ties.list)
    again = ties.say()
    assert not again.gang.was_complete
    assert lib.nvs_tie_list_heard(ties.list, again.request)
    lib.nvs_tie_list_forget(ties.list)
    assert bool(ties.say().gang.was_complete) == told


@given(st.binary(max_size=300))
def test_digest(data: bytes) -> None:
    """It is SHA-256."""
    digest = ffi.new("uint8_t[32]")
    lib.nvs_digest(digest, data, len(data))
    assert bytes(digest) == hashlib.sha256(data).digest()


@pytest.mark.parametrize("size", [0, 55, 56, 63, 64, 119, 120, 128])
def test_digest_at_the_ends_of_blocks(size: int) -> None:
    """Sizes around which the number of blocks changes."""
    digest = ffi.new("uint8_t[32]")
    lib.nvs_digest(digest, bytes(range(size)), size)
    assert bytes(digest) == hashlib.sha256(bytes(range(size))).digest()
