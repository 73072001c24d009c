"""What a client that swaps was told that it may keep, and what of that it may still go by."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Orders:
    """They are numbered. A message takes its time, so a client may go by any from the one that it named last on."""

    newest: int = 0
    going_by: int = 0
    """The newest that it is known to go by."""
    grown: int = 0
    """The one that granted the last growth."""
    _told: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)])
    """Those that it may go by, each with its allotment and what was admitted; the newest is the last."""
    _granted: list[tuple[int, int]] = field(default_factory=list)
    """Those that it does not go by yet which granted a growth, each with the fixed memory that it may have by that."""

    def tell(self, allotted_bytes: int, admitted_bytes: int) -> int:
        """It is told that so much may be resident, and so much allocated; returns the order's number."""
        self.newest += 1
        self._told.append((self.newest, allotted_bytes, admitted_bytes))
        return self.newest

    def correct(self, allotted_bytes: int, admitted_bytes: int) -> None:
        """The newest one means so much to it."""
        self._told[-1] = self.newest, allotted_bytes, admitted_bytes

    def grow(self, fixed_bytes: int) -> None:
        """The next one grants it so much that can't move."""
        self.grown = self.newest + 1
        self._granted.append((self.grown, fixed_bytes))

    def heard(self, order: int) -> None:
        """It goes by this one, or a later one."""
        self.going_by = order
        while self._told[0][0] < order:
            del self._told[0]
        while self._granted and self._granted[0][0] <= order:
            del self._granted[0]

    @property
    def are_heard(self) -> bool:
        """Whether it goes by the newest."""
        return self.going_by == self.newest

    @property
    def allotted_bytes(self) -> list[int]:
        """What may be resident, by each that it may go by."""
        return [allotted_bytes for _, allotted_bytes, _ in self._told]

    @property
    def admitted_bytes(self) -> int:
        """The most that it may allocate by one of them."""
        return max([admitted_bytes for _, _, admitted_bytes in self._told])

    @property
    def fixed_bytes(self) -> int:
        """The most that it may have by a growth that it has not heard of, and that can't move."""
        return max([fixed_bytes for _, fixed_bytes in self._granted], default=0)
