"""How long what was set lasts, said where it is not for good. Pure."""

from __future__ import annotations

from nvshare.admin import admin_pb2


def warning(after: admin_pb2.Status, keep: str) -> str:
    """What to say of it; empty: it lasts. ``after``: the answer to what was set; ``keep``: how else it is kept."""
    if after.lost_with_scheduler:
        why = after.lost_with_scheduler
        return f"this is lost when the scheduler ends ({why}): make room there and set it again, or {keep}"
    if after.lost_with_machine:
        return f"this is lost when the machine restarts ({after.lost_with_machine}): to keep it, {keep}"
    return ""
