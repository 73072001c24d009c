"""In which order the slice has the node's GPUs: Kubernetes takes the first one that has what a claim asks for. Pure.

To spread, the GPU of which least is claimed comes first. Each change is a write of the slice, which the cluster's
scheduler looks at: so only a difference that is worth a share counts, and not more often than every ten seconds. What
is claimed within that time finds the order as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

LEAST_SECONDS: Final = 10.0
"""Between two changes."""


class Order:
    """The order as it was offered last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` in seconds."""
        self._clock = clock
        self._changed_at = float("-inf")
        self._places: dict[str, int] = {}

    @property
    def known(self) -> bool:
        """Whether any GPU was offered."""
        return bool(self._places)

    def follow(self, uuids: Sequence[str]) -> None:
        """Another instance has offered them in this order; only before the first ``spread``."""
        self._places = {uuid: place for place, uuid in enumerate(uuids)}

    def spread(self, claimed: Mapping[str, float], step: float) -> list[str]:
        """GPUs by their UUID, in the order to offer.

        ``claimed``: how much of each is claimed, from 0 to 1; those that were not there come in the order in which they
        are here. ``step``: a difference that counts.
        """
        last = len(self._places)
        former = sorted(claimed, key=lambda uuid: self._places.get(uuid, last))
        new = sorted(former, key=lambda uuid: claimed[uuid])
        is_worth_it = bool(new) and claimed[former[0]] - claimed[new[0]] >= step
        if is_worth_it and self._clock() >= self._changed_at + LEAST_SECONDS:
            self._changed_at, former = self._clock(), new
        self._places = {uuid: place for place, uuid in enumerate(former)}
        return former
