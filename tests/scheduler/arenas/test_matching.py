"""Which blocks are equal to others', and whether that is worth it."""

from __future__ import annotations

from nvshare.protocol.catalogue import BLOCK_BYTES, NO_BLOCK
from nvshare.scheduler.arenas import matching

MANY = 1 << 40
MODEL = range(100, 164)
"""The sums of 128 MiB."""


def test_what_three_have_goes_into_a_new_pack() -> None:
    """Each block once, and what only one other has does not."""
    own = [*MODEL, 7, 8, 100]
    found = matching.new_pack(own, [[*MODEL, 7], [*reversed(MODEL), 8]], MANY)
    assert found == {each: number for number, each in enumerate(MODEL)}
    assert matching.blocks_of(own, found) == [*range(64), NO_BLOCK, NO_BLOCK, 0]


def test_what_one_has_several_times_is_no_others() -> None:
    assert matching.new_pack([*MODEL], [[*MODEL, *MODEL]], MANY) is None


def test_a_new_pack_has_a_bound() -> None:
    most = 40 * BLOCK_BYTES
    found = matching.new_pack([*MODEL], [[*MODEL], [*MODEL]], most)
    assert found is not None
    assert len(found) == 40
    assert matching.new_pack([*MODEL], [[*MODEL], [*MODEL]], 0) is None


def test_a_little_is_not_worth_it() -> None:
    """Less than 64 MiB, or than a quarter of all that a client has."""
    for equal, others, is_worth in (31, 0, False), (32, 0, True), (32, 96, True), (32, 97, False):
        own = [*range(equal), *range(1000, 1000 + others)]
        pack = {each: each for each in range(equal)}
        assert matching.is_worth_it(own, pack) is is_worth


def test_the_best_pack() -> None:
    packs = {1: dict.fromkeys(range(40), 0), 2: dict.fromkeys(range(60), 0), 3: dict.fromkeys(range(200, 300), 0)}
    assert matching.best(range(64), packs) == 2
    assert matching.best(range(400, 500), packs) is None
