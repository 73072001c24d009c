"""How long allocations and frees take through the library, against the driver's own."""

from __future__ import annotations

from place import Place
from rows import Table


def allocations(place: Place, table: Table) -> None:
    """Not yet."""
    raise AssertionError("not yet")
