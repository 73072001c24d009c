"""What ``nvshare.limit`` and ``nvshare.status`` raise, beside ValueError for a value that means nothing."""

from __future__ import annotations


class NotLoadedError(RuntimeError):
    """nvshare's library is not in this process, so nothing of nvshare's has an effect on it."""


class TooLateError(RuntimeError):
    """The process has used a GPU already, and what was asked for can't be changed any more from here."""


class SchedulerError(RuntimeError):
    """No scheduler answers, or it refused: the text says why and what to do."""
