"""Which blocks of a sleeper others have as well, by their sums. Pure.

Sums only say where equal blocks may be: whoever lets go of one has compared it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nvshare.protocol.catalogue import BLOCK_BYTES, NO_BLOCK

LEAST_BYTES: Final = 64 << 20
"""For less no client lets go of anything."""
_LEAST_SHARE: Final = 4
"""It is at least this part of all that it has: the fourth."""
_LEAST_OTHERS: Final = 2
"""So many others have a block that goes into a new pack: room is kept for one to come back, so with one nothing is
gained."""

Blocks = Mapping[int, int]
"""The numbers of a pack's blocks by their sums."""


def blocks_of(sums: Sequence[int], pack: Blocks) -> list[int]:
    """For each sum which block of a pack has it."""
    return [pack.get(each, NO_BLOCK) for each in sums]


def is_worth_it(sums: Sequence[int], pack: Blocks) -> bool:
    """Whether so much may be let go of for a pack that it is worth it."""
    found = sum(each in pack for each in sums)
    return found * BLOCK_BYTES >= LEAST_BYTES and found * _LEAST_SHARE >= len(sums)


def best(sums: Sequence[int], packs: Mapping[int, Blocks]) -> int | None:
    """Of these packs, by whatever names them, the one that has most of it; None: none is worth it."""
    worth = {name: pack for name, pack in packs.items() if is_worth_it(sums, pack)}
    return max(worth, key=lambda name: sum(each in worth[name] for each in sums), default=None)


def new_pack(sums: Sequence[int], others: Iterable[Sequence[int]], most_bytes: int) -> Blocks | None:
    """What to put into a new pack of at most so much; None: nothing that is worth it.

    ``others``: the sums of other sleepers which have nothing in a pack.
    """
    has: Counter[int] = Counter()
    for other in others:
        has.update(set(other))
    blocks: dict[int, int] = {}
    for each in sums:
        if has[each] >= _LEAST_OTHERS and each not in blocks and (len(blocks) + 1) * BLOCK_BYTES <= most_bytes:
            blocks[each] = len(blocks)
    return blocks if is_worth_it(sums, blocks) else None
