"""Near which of the machine's memories a GPU is, as the kernel says it."""

from __future__ import annotations

from pathlib import Path

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.pci import DEVICES, address


def find_numa_node(gpu: Gpu, pci: Path = DEVICES) -> int | None:
    """The number of the NUMA node; None: nobody says it, or the machine has only one memory."""
    place = address(gpu)
    if place is None:
        return None
    try:
        number = int((pci / place / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def no_numa_node(_gpu: Gpu) -> int | None:
    """For nodes where kubelet is not told."""
    return None
