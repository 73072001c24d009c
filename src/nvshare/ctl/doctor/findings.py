"""What doctor found, one thing at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Works, and yet somebody may want to know."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    subject: str
    """A word or two: what was looked at."""
    what: str
    """One line."""
    advice: str = ""
    """One line: what to do; empty where there is nothing to do."""


def problems(findings: Iterable[Finding]) -> int:
    """How many of them are problems."""
    return sum(finding.level is Level.PROBLEM for finding in findings)
