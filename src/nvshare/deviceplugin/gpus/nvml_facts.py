"""What NVML says of a GPU that does not change: the make, and what its driver can do. As ``nvml``, for one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml  # type: ignore[import-untyped]

from nvshare.deviceplugin.devices import GpuFacts

_BRANDS = {
    pynvml.NVML_BRAND_QUADRO: "Quadro",
    pynvml.NVML_BRAND_TESLA: "Tesla",
    pynvml.NVML_BRAND_GRID: "Grid",
    pynvml.NVML_BRAND_GEFORCE: "GeForce",
    pynvml.NVML_BRAND_TITAN: "Titan",
    pynvml.NVML_BRAND_QUADRO_RTX: "QuadroRTX",
    pynvml.NVML_BRAND_NVIDIA_RTX: "NvidiaRTX",
    pynvml.NVML_BRAND_NVIDIA: "Nvidia",
    pynvml.NVML_BRAND_GEFORCE_RTX: "GeForceRTX",
    pynvml.NVML_BRAND_TITAN_RTX: "TitanRTX",
}
_ARCHITECTURES = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
}


def facts_of(gpu: Any) -> GpuFacts:
    """Of a GPU's handle; for its MIG devices they are the same."""
    capability = _said(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(gpu))
    cuda = _said(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    brand, architecture = (
        _said(lambda: pynvml.nvmlDeviceGetBrand(gpu)),
        _said(lambda: pynvml.nvmlDeviceGetArchitecture(gpu)),
    )
    return GpuFacts(
        product_name=_said(lambda: str(pynvml.nvmlDeviceGetName(gpu))),
        brand=_BRANDS.get(brand),
        architecture=_ARCHITECTURES.get(architecture),
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        driver_version=_said(lambda: str(pynvml.nvmlSystemGetDriverVersion())),
        # 1000 times the first number, and 10 times the second one.
        cuda_driver_version=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
    )


def _said(question: Callable[[], Any]) -> Any:
    """The answer; None: there is none, or this driver does not know the question."""
    try:
        return question()
    except pynvml.NVMLError:
        return None
