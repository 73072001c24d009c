"""What to do: everything that the scheduler's core ever asks for, in the imperative."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """Send LOCK_OK: the client holds the lock of its device as grant ``grant``."""

    client: int
    grant: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Send DROP_LOCK: the client must drain and give grant ``grant`` back."""

    client: int
    grant: int


@dataclass(frozen=True, slots=True)
class TellWaiters:
    """Send WAITERS to a holder: ``waiters`` clients wait, and it must leave for the first of them; 0 takes that back.

    Sent when the holder begins or ceases to block the first waiter, not each time that the number changes: a holder
    gives the lock back when it is idle, whether one client waits or ten.
    """

    client: int
    waiters: int


@dataclass(frozen=True, slots=True)
class ReportUnresponsive:
    """Say that a holder did not answer DROP_LOCK within the grace time; ``overdue_seconds`` since it was sent."""

    client: int
    grant: int
    overdue_seconds: float


@dataclass(frozen=True, slots=True)
class Kill:
    """End the process of an unresponsive holder: somebody waits who can't be admitted otherwise."""

    client: int
    grant: int


Action = Grant | Revoke | TellWaiters | ReportUnresponsive | Kill
