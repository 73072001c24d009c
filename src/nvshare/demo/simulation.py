"""The simulated devices of a demo: where they come from, and what their record says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nvshare import simgpu
from nvshare.demo.spans import Span
from nvshare.demo.story import DeviceSeen
from nvshare.simgpu import record


def environment(outer: Mapping[str, str], folder: Path, devices: int) -> dict[str, str]:
    """The environment of a process that sees so many simulated devices of 16 GiB, which no other demo shares."""
    return {**outer, **simgpu.environment(folder, f"{devices}x16GiB", outer)}


def spans(folder: Path, devices: Sequence[DeviceSeen]) -> list[Span]:
    """Everything that the devices executed, by their own record."""
    return [
        Span(device.uuid, entry.pid, entry.start_ns, entry.end_ns, entry.name)
        for ordinal, device in enumerate(devices)
        for entry in record.read(folder, ordinal)
    ]
