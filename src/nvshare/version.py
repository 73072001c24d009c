"""Which nvshare this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of


def version() -> str:
    """The version of the installed package; ``source`` for a source tree that is not installed."""
    try:
        return version_of("nvshare")
    except PackageNotFoundError:
        return "source"
