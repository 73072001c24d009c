"""What containers are called that are in no pod: by the name that somebody gave, or one that was made up.

And what the account is called of those that use a GPU by a claim, whatever container and pod they are in.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

PROCESS = "pid:"
"""How the name of a container begins that is one process which says no name."""

CLAIM = "claim:"
"""How the name of an account begins that is a ResourceClaim's."""

_CLAIM_ACCOUNT = re.compile(rf"{CLAIM}([^/@]+/[^/@]+)(?:@(?:GPU|MIG)-[^@]*)?")
_MADE_UP = re.compile(r".*-[0-9a-f]{8}")


def made_up(command: str) -> str:
    """A new name for what a command starts."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", Path(command).name)[:32] or "command"
    return f"{stem}-{secrets.token_hex(4)}"


def claim_account(full_name: str, device: str = "") -> str:
    """The account of a claim NAMESPACE/NAME; ``device``: of its part there, where its GPUs have different terms."""
    return f"{CLAIM}{full_name}" + (f"@{device}" if device else "")


def claim_of(member_of: str) -> str:
    """NAMESPACE/NAME of the claim whose account this is; empty: it is no claim's."""
    match = _CLAIM_ACCOUNT.fullmatch(member_of)
    return match[1] if match else ""


def given(member_of: str) -> str:
    """The name that somebody gave, of what the scheduler calls a container; empty: it has none.

    That is ``NAMESPACE/POD/CONTAINER``, ``claim:NAMESPACE/NAME`` or ``NAME@UID``. What is called as names are made up
    has none either.
    """
    if claim := claim_of(member_of):
        return f"{CLAIM}{claim}"
    name = member_of.rpartition("@")[0]
    return "" if name.startswith(PROCESS) or _MADE_UP.fullmatch(name) else name
