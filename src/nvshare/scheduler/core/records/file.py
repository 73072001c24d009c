"""Whether the host memory of a client that sleeps is in a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class File:
    """Of one client. ``Storing`` changes it, and the residency what comes back of it."""

    is_going: bool = False
    """It was told to store its host memory, and has not answered."""
    is_there: bool = False
    """Its host memory is in the file, be it that some of it was made again."""
    made_bytes: int = 0
    """Of the host memory that it had, what was made for it again, or is being made."""
    asked_bytes: int = 0
    """Of that, what is being made."""
    wait: str = ""
    """Why no more is made now; empty: it is."""

    def went(self) -> None:
        """Its host memory is in the file."""
        self.is_going, self.is_there, self.made_bytes = False, True, 0

    def ask(self, more_bytes: int) -> None:
        """So much more is to be made."""
        self.made_bytes, self.asked_bytes = self.made_bytes + more_bytes, more_bytes

    def grown(self, segment_bytes: int) -> int:
        """So much was made of what was asked for; returns how much more or less that is."""
        more = segment_bytes - self.asked_bytes
        self.made_bytes, self.asked_bytes = self.made_bytes + more, 0
        return more

    def came_back(self) -> None:
        """The file is gone."""
        self.is_there, self.made_bytes, self.wait = False, 0, ""
