"""The UUID of a GPU or MIG device, as text and as bytes. Pure."""

from __future__ import annotations

import uuid


def device_bytes(name: str) -> bytes:
    """The 16 bytes of ``GPU-UUID``, ``MIG-UUID`` or a bare UUID; ValueError for anything else."""
    bare = name[4:] if name[:4].upper() in ("GPU-", "MIG-") else name
    if len(bare) != 36:
        raise ValueError(f"{name!r} is no device UUID")
    return uuid.UUID(bare).bytes
