"""How many clients of each priority class a device has, and how many of them hold."""

from __future__ import annotations

from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.terms import Priority


class Classes:
    """The counts of one device. A client's class may only change while it is not counted."""

    def __init__(self) -> None:
        self.are_several = False
        """Whether there are clients of several classes."""
        self.odd = 0
        """How many hold whose turn is no whole quantum."""
        # By class; the first place is empty.
        self.holding = [0] * (Priority.HIGH + 1)
        self.slices = [0] * (Priority.HIGH + 1)
        """How many of those hold a slice of the floor."""
        self._clients = [0] * (Priority.HIGH + 1)

    def count(self, client: Client, sign: int) -> None:
        """A client is there (1), or is no more (-1)."""
        self._clients[client.priority] += sign
        if self._clients[client.priority] <= 1:
            self.are_several = sum(map(bool, self._clients)) > 1

    def count_holder(self, client: Client, sign: int) -> None:
        """A client holds (1), or does no more (-1)."""
        self.holding[client.priority] += sign
        if client.stay.is_odd:
            self.odd += sign
            self.slices[client.priority] += sign * client.stay.is_slice
