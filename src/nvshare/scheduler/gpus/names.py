"""What a device is called: by its 16 bytes on the wire, and as NVML writes its UUID. Pure."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """The device that a client means."""

    name: str
    total_bytes: int
    """As NVML says it; 0: it does not."""
    listed: bool
    """It is there, as NVML or the operator says; False: only the client says so."""


def gpu_name(device_uuid: bytes) -> str:
    """The name of a GPU that NVML does not know, in the form that NVML would use."""
    return f"GPU-{uuid.UUID(bytes=device_uuid)}"
