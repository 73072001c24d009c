"""Near which of the machine's memories a GPU is, as the kernel says it."""

from __future__ import annotations

from pathlib import Path

from nvshare.deviceplugin.devices import Gpu

_PCI = Path("/sys/bus/pci/devices")
_DOMAIN_DIGITS = 4
"""The kernel writes at least so many of a PCI domain's digits, NVML always twice as many."""


def find_numa_node(gpu: Gpu, pci: Path = _PCI) -> int | None:
    """The number of the NUMA node; None: nobody says it, or the machine has only one memory."""
    if gpu.bus_id is None:
        return None
    domain, _, place = gpu.bus_id.lower().partition(":")
    try:
        number = int((pci / f"{domain.lstrip('0').zfill(_DOMAIN_DIGITS)}:{place}" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def no_numa_node(_gpu: Gpu) -> int | None:
    """For nodes where kubelet is not told."""
    return None
