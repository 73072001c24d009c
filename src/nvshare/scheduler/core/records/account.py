"""The memory of one client, whatever serves it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvshare.scheduler.core.events import Backend


@dataclass(slots=True, eq=False)
class Account:
    """The facts of one client's memory, whatever its backend, and what its ledger counts of them (``recount``)."""

    backend: Backend
    footprint_bytes: int | None
    """None: the client does not report it."""
    pinned_bytes: int
    pinned_measured: bool = False
    """False: ``pinned_bytes`` is assumed."""
    claimed_total_bytes: int = 0
    """The device's memory as this client says it; 0: it does not."""
    growing_bytes: int = 0
    """What the footprint will be after the growth that a holder waits for; 0: it waits for none that is possible."""
    unmovable_bytes: int = 0
    """Of a client that swaps: what of its allocations can't be swapped, what it may take unasked included."""

    is_known: bool = field(init=False)
    """Whether the footprint is known, so that it can be said who fits beside this client."""
    movable_bytes: int = field(init=False)
    """What has to be on the device only while the client holds; 0 while that is not known."""
    fixed_bytes: int = field(init=False)
    """What is on the device whatever the client does."""
    assumed_bytes: int = field(init=False)
    """How much of that is only assumed."""
    headroom_bytes: int = field(init=False)
    """How much of that takes of what stays for contexts: all but native allocations."""

    def __post_init__(self) -> None:
        self.count()

    def count(self) -> None:
        """Finds anew what counts."""
        footprint_bytes = self.footprint_bytes or 0
        is_native = self.backend is Backend.NATIVE
        self.is_known = self.footprint_bytes is not None
        self.assumed_bytes = 0 if self.pinned_measured else self.pinned_bytes
        self.headroom_bytes = self.pinned_bytes + self.unmovable_bytes
        self.fixed_bytes = self.headroom_bytes + (footprint_bytes if is_native else 0)
        self.movable_bytes = 0 if is_native else max(footprint_bytes, self.growing_bytes)
