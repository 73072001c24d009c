"""How the demo says that it can't go on."""

from __future__ import annotations


class DemoError(Exception):
    """The demo could not run, or it saw something wrong; the text says what, and what to do."""
