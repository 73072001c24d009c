"""The simulated devices of a demo: where they come from, and what their record says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nvshare import simgpu
from nvshare.demo.report import DeviceInfo
from nvshare.simgpu import record
from nvshare.simgpu.turns import Span


def environment(outer: Mapping[str, str], folder: Path, devices: str) -> dict[str, str]:
    """The environment of a process that sees the simulated devices of a text such as ``2x16GiB``."""
    return {**outer, **simgpu.environment(folder, devices, outer)}


def spans(folder: Path, devices: Sequence[DeviceInfo]) -> dict[str, list[Span]]:
    """Everything that each device executed, by its UUID, from the devices' own record."""
    return {device.uuid: record.read(folder, ordinal) for ordinal, device in enumerate(devices)}
