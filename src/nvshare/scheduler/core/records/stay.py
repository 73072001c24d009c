"""What is kept of one client's turn: how long it may be, and whether it goes on after it was cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.records.gang import Gang

KEPT_SECONDS: Final = 1.0
"""How long after it gave the lock back the place of a client is kept whose turn was cut."""
LEAST_LEFT: Final = 0.02
"""Of a quantum. Who has less left of it has had it."""
LONGEST_DEBT: Final = 0.5
"""Of a quantum: the most by which the next turn is shorter because the last one took longer to leave."""


@dataclass(slots=True, eq=False)
class Stay:
    """The turn of one client: the present one, else what is left for the next one."""

    seconds: float | None = None
    """How long it is: of a burst, or of a slice. None: as long as what is left of the quantum."""
    is_slice: bool = False
    """The floor of the lower classes gave it."""
    paid_seconds: float = 0.0
    """What its class paid for it when it began, of which it has back what was not used."""
    left: float = 1.0
    """Of its quantum, when the turn begins."""
    keeps: bool = False
    """Its turn was cut: it keeps its place, and what is left of its quantum."""
    revoked: bool = False
    """It was asked to leave when it left last."""
    borrowed: tuple[Gang, ...] = ()
    """These gangs were before it: when they can come in, it has had its time."""
    quantum_seconds: float = 0.0
    """The quantum when it was asked to leave."""

    @property
    def is_odd(self) -> bool:
        """Whether the turn is another than one whole quantum."""
        return self.seconds is not None or self.left != 1.0

    def begin(
        self,
        borrowed: tuple[Gang, ...],
        seconds: float | None = None,
        *,
        is_slice: bool = False,
        paid_seconds: float = 0.0,
    ) -> None:
        """It comes in, for so long, before these gangs; None: for what is left of its quantum."""
        self.borrowed, self.seconds, self.is_slice, self.keeps = borrowed, seconds, is_slice, False
        self.paid_seconds = paid_seconds

    def cut(self, since: float, now: float, quantum_seconds: float) -> None:
        """It is asked to leave ``now``; its turn began at ``since``."""
        self.quantum_seconds = quantum_seconds
        seconds = self.left * quantum_seconds if self.seconds is None else self.seconds
        self.keeps = now < since + seconds

    def end(self, since: float, revoked_at: float | None, now: float, *, owes: bool) -> None:
        """It left; ``owes``: what leaving took is taken off the next turn. ``revoked_at`` None: it was not asked to."""
        self.revoked = revoked_at is not None
        self.keeps = self.keeps and self.revoked
        left = self.left - (now - since) / self.quantum_seconds if self.keeps else 1.0
        if self.keeps and left < LEAST_LEFT:
            self.keeps, left = False, 1.0
        elif owes and revoked_at is not None and not self.keeps and self.quantum_seconds:
            left = max(1 - LONGEST_DEBT, 1 - (now - revoked_at) / self.quantum_seconds)
        self.left = left
        self.borrowed, self.seconds, self.is_slice, self.quantum_seconds = (), None, False, 0.0
        self.paid_seconds = 0.0

    def resumes(self, since: float, now: float) -> bool:
        """It asks; whether it has the place that it had. It has not held since ``since``."""
        if self.keeps and now >= since + KEPT_SECONDS:
            self.keeps, self.left = False, 1.0
        return self.keeps
