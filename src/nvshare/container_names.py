"""What containers are called that are in no pod: by the name that somebody gave, or one that was made up."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

PROCESS = "pid:"
"""How the name of a container begins that is one process which says no name."""

_MADE_UP = re.compile(r".*-[0-9a-f]{8}")


def made_up(command: str) -> str:
    """A new name for what a command starts."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", Path(command).name)[:32] or "command"
    return f"{stem}-{secrets.token_hex(4)}"


def given(member_of: str) -> str:
    """The name that somebody gave, of what the scheduler calls a container; empty: it has none.

    That is ``NAMESPACE/POD/CONTAINER`` or ``NAME@UID``. What is called as names are made up has none either.
    """
    name = member_of.rpartition("@")[0]
    return "" if name.startswith(PROCESS) or _MADE_UP.fullmatch(name) else name
