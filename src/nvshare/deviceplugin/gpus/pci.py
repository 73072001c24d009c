"""A GPU's place on the PCI bus, as the kernel says it."""

from __future__ import annotations

from pathlib import Path

from nvshare.deviceplugin.devices import Gpu

DEVICES = Path("/sys/bus/pci/devices")
_DOMAIN_DIGITS = 4
"""The kernel writes at least so many of a PCI domain's digits, NVML always twice as many."""


def address(gpu: Gpu) -> str | None:
    """Its name among the kernel's PCI devices, as in 0000:3b:00.0; None: NVML does not say where it is."""
    if gpu.bus_id is None:
        return None
    domain, _, place = gpu.bus_id.lower().partition(":")
    return f"{domain.lstrip('0').zfill(_DOMAIN_DIGITS)}:{place}"


def find_root(gpu: Gpu, devices: Path = DEVICES) -> str | None:
    """The root complex that it hangs on, as in pci0000:16: GPUs of one are near each other; None: nobody says it."""
    place = address(gpu)
    if place is None:
        return None
    try:
        parts = (devices / place).resolve(strict=True).parts
    except OSError:
        return None
    return next((part for part in parts if part.startswith("pci") and ":" in part), None)
