"""The two views of a device's memory that the rules of admission are asked with, where not all is certain."""

from __future__ import annotations

from dataclasses import dataclass

from nvshare.scheduler.core.memory.estates import Estate
from nvshare.scheduler.core.memory.swap import Swap


@dataclass(frozen=True, slots=True)
class View:
    """How what is not certain is taken to turn out."""

    best: bool
    """All that was promised and is not used is given back, what is assumed is free, and so is what the gone had; host
    memory is made. False: nothing is given back, who is gone may come back, and host memory is what there is."""
    stuck: frozenset[int]
    """Who does not say what it goes by: it keeps what it was promised."""
    assumed_bytes: int = 0
    """How much less contexts take than they are charged with."""
    free_bytes: int = 0
    """Of what is charged, that and what the gone had."""
    host_bytes: int = 0
    """How much more host memory there is."""
    gone: tuple[Estate, ...] = ()
    """Who is gone and comes back."""

    def keeps(self, swap: Swap) -> bool:
        """Whether a client is taken to use all that it may still go by."""
        return not self.best or swap.number in self.stuck

    def is_unknown(self, swap: Swap) -> bool:
        """Whether it is back and has not said what it has; who never does is not waited for."""
        return not self.best and not swap.reported and swap.number not in self.stuck

    def movable_bytes(self, swap: Swap, left_bytes: int) -> int:
        """What a client has that can move, where so much is left for it: what is beyond that is taken back."""
        if self.keeps(swap):
            return swap.pledged_bytes
        return min(swap.admitted_bytes, max(swap.footprint_bytes, left_bytes))

    def arena_bytes(self, swap: Swap) -> int:
        """The host memory that a client has, with what is being made for it."""
        return swap.arena_bytes + (swap.arena_asked_bytes if self.best else 0)
