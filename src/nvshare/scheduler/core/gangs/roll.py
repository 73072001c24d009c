"""Gangs of which a user said how many processes they have: who of them has come.

A gang that was complete once stays so, for as long as it has clients: members that have done their work leave it. The
size that was said first counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nvshare.scheduler.core.events import GangJoined


@dataclass(slots=True)
class Roll:
    """Those that say one name."""

    size: int = 0
    """How many processes there are on this node; 0: nobody said it."""
    was_complete: bool = False
    processes: dict[int, int] = field(default_factory=dict)
    """By client: the process of which it is."""

    def join(self, event: GangJoined) -> None:
        """A client says the name, maybe once more."""
        self.processes[event.client] = event.process
        self.size = self.size or event.processes
        self.was_complete |= event.was_complete or self.come >= self.size > 0

    @property
    def come(self) -> int:
        """How many processes are here."""
        return len(set(self.processes.values()))

    @property
    def lacks(self) -> bool:
        """Whether it waits for processes that were never here."""
        return self.size > 0 and not self.was_complete
