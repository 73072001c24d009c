"""How people write a size, everywhere: options, variables, annotations, the chart. Pure.

``8G`` and ``8GB`` are 8 * 10^9 bytes, ``8Gi`` and ``8GiB`` 8 * 2^30, as in Kubernetes; so are k, K, M and T. A number
has at most three decimals and none without a unit; a space may stand before the unit. C reads the same in
``protocol/size.h``; the tests of both read ``tests/sizes.tsv``.
"""

from __future__ import annotations

import re
from typing import Final

LEAST_BYTES: Final = 1 << 20
"""Below that no size but zero means anything: whoever writes less forgot the unit."""
MOST_BYTES: Final = 1 << 50

_SIZE = re.compile(r"(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]{1,3}))?(?: ?(?P<unit>[KMGT]i|[kKMGT])B?)?")
_POWERS: Final = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def size_of(text: str) -> int:
    """The bytes that a text means: 0, or from ``LEAST_BYTES`` to ``MOST_BYTES``. ValueError says what is wrong."""
    match = _SIZE.fullmatch(text)
    if match is None or (match["part"] and not match["unit"]):
        raise ValueError(
            f"{text!r} is no size; 8Gi or 8GiB (powers of 1024), 8G or 8GB (powers of 1000) and a number of bytes are"
        )
    size_bytes = int(match["whole"] + f"{match['part'] or '':0<3}") * _bytes_of(match["unit"]) // 1000
    if size_bytes > MOST_BYTES:
        raise ValueError(f"{text!r} is more than any machine has")
    if 0 < size_bytes < LEAST_BYTES:
        missing = "" if match["unit"] else f"; {text}{'GiB' if size_bytes <= 1024 else 'MiB'}?"
        raise ValueError(f"{text!r} is {size_bytes} bytes, too small for anything{missing}")
    return size_bytes


def _bytes_of(unit: str | None) -> int:
    if unit is None:
        return 1
    return int((1024 if unit.endswith("i") else 1000) ** _POWERS[unit[0]])
