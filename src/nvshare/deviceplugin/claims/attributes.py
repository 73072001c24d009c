"""What a slice says of a GPU, for those who choose among GPUs: only what NVML and the kernel say. Pure."""

from __future__ import annotations

import re
from typing import Any

from nvshare.deviceplugin.devices import Gpu

_LONGEST = 64
_STANDARD = "resource.kubernetes.io"
"""The domain of what drivers of different devices call the same."""


def attributes(gpu: Gpu, pci_address: str | None, pcie_root: str | None, numa_node: int | None) -> dict[str, Any]:
    """By their names; those of no domain are in the driver's own.

    ``pci_address`` is as the kernel writes it; ``numa_node``: None: nobody says it.
    """
    facts = gpu.facts
    told = {
        "type": _text("mig" if gpu.is_mig else "gpu"),
        "uuid": _text(gpu.uuid),
        "index": _number(gpu.index.partition(":")[0]),
        "productName": _text(facts.product_name),
        "brand": _text(facts.brand),
        "architecture": _text(facts.architecture),
        "cudaComputeCapability": _version(facts.compute_capability),
        "driverVersion": _version(facts.driver_version),
        "cudaDriverVersion": _version(facts.cuda_driver_version),
        f"{_STANDARD}/pcieRoot": _text(pcie_root),
        f"{_STANDARD}/pciBusID": _text(pci_address),
        "numaNode": None if numa_node is None else {"int": numa_node},
        "parentUUID": _text(gpu.parent_uuid),
        "profile": _text(gpu.mig_profile),
    }
    return {name: value for name, value in told.items() if value is not None}


def _text(text: str | None) -> dict[str, str] | None:
    return {"string": text[:_LONGEST]} if text else None


def _number(text: str) -> dict[str, int] | None:
    return {"int": int(text)} if text.isdecimal() else None


def _version(text: str | None) -> dict[str, str] | None:
    """In the form of semver.org, which has three numbers and no zeros before them."""
    if text is None or re.fullmatch(r"\d{1,9}(\.\d{1,9}){0,2}", text) is None:
        return None
    numbers = [str(int(part)) for part in text.split(".")]
    return {"version": ".".join(([*numbers, "0", "0"])[:3])}
