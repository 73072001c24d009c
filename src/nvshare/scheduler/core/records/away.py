"""What of a client's host memory is elsewhere while its process sleeps: in a file, or in a pack."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Place(Enum):
    """Where host memory may be instead."""

    FILE = auto()
    PACK = auto()


@dataclass(slots=True)
class Away:
    """Of one client. ``Storing`` and ``Sharing`` change it, and the residency what comes back of it."""

    goes_to: Place | None = None
    """Where it was told to let host memory go, and it has not answered."""
    place: Place | None = None
    """Where some is; None: all that it has is in host memory."""
    bytes: int = 0
    """How much is there, be it that some of it was made again."""
    made_bytes: int = 0
    """Of that, what was made for it again, or is being made."""
    asked_bytes: int = 0
    """Of that, what is being made."""
    pack_bytes: int = 0
    """Of a pack, what counts with this client: what may be made for it, or of one that is gone what it had last."""
    wait: str = ""
    """Why no more is made now; empty: it is."""

    @property
    def is_there(self) -> bool:
        """Whether some of its host memory is elsewhere."""
        return self.place is not None

    @property
    def is_told(self) -> bool:
        """Whether it was told something that it has not done yet."""
        return self.goes_to is not None or self.asked_bytes > 0 or self.is_made

    @property
    def lacking_bytes(self) -> int:
        """How much host memory it takes yet to bring all back."""
        return self.bytes - self.made_bytes

    @property
    def is_made(self) -> bool:
        """Whether it has all the host memory that it needs to bring back what is elsewhere."""
        return self.is_there and not self.asked_bytes and not self.lacking_bytes

    def go(self, place: Place, pack_bytes: int = 0) -> None:
        """It was told to let host memory go there; so much may be made for a new pack."""
        self.goes_to, self.pack_bytes = place, pack_bytes

    def stay(self, pack_bytes: int = 0) -> None:
        """It does not go anywhere. Of a pack so much counts with it."""
        self.goes_to, self.pack_bytes = None, pack_bytes

    def wait_for(self, reason: str) -> None:
        """What is elsewhere is not brought back for this reason; empty: it is."""
        self.wait = reason if self.is_there else ""

    def went(self, place: Place, away_bytes: int) -> None:
        """So much of its host memory is there."""
        self.goes_to, self.place, self.bytes, self.made_bytes = None, place, away_bytes, 0

    def ask(self, more_bytes: int) -> None:
        """So much more is to be made."""
        self.made_bytes, self.asked_bytes = self.made_bytes + more_bytes, more_bytes

    def grown(self, segment_bytes: int) -> None:
        """So much was made of what was asked for."""
        self.made_bytes, self.asked_bytes = self.made_bytes + segment_bytes - self.asked_bytes, 0

    def came_back(self) -> None:
        """Nothing is elsewhere any more."""
        self.place, self.bytes, self.made_bytes, self.wait = None, 0, 0, ""
