"""Looks at its device as a framework does, and takes all that it can get of it: what a memory limit leaves."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec

import pynvml
from orders import Answer, serve

from nvshare.demo.driver import CudaError, Driver

PIECE_BYTES = 64 << 20


class Limited:
    """Its view and its memory."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._driver.use(0)
        self._plain = ctypes.CDLL("libcuda.so.1")

    def view(self) -> Answer:
        """The size of the device, in bytes, by all who tell it; PyTorch's only where there is PyTorch."""
        free, total, whole = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        results = (
            self._plain.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
            self._plain.cuDeviceTotalMem_v2(ctypes.byref(whole), 0),
        )
        if any(results):
            raise CudaError(f"cuMemGetInfo, cuDeviceTotalMem: {results}")
        pynvml.nvmlInit()
        by_nvml = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
        sizes = {"cuMemGetInfo": total.value, "cuDeviceTotalMem": whole.value, "NVML": by_nvml.total}
        if find_spec("torch") is not None:
            import torch

            sizes["PyTorch"] = torch.cuda.get_device_properties(0).total_memory
            sizes["torch.cuda.mem_get_info"] = torch.cuda.mem_get_info()[1]
        return {"sizes": sizes, "free": free.value, "nvml_free": by_nvml.free}

    def fill(self) -> Answer:
        """Allocates pieces until there is no more; how many bytes that were."""
        taken = 0
        while True:
            try:
                self._driver.allocate(PIECE_BYTES)
            except CudaError as error:
                return {"taken": taken, "error": str(error)}
            taken += PIECE_BYTES


if __name__ == "__main__":
    limited = Limited()
    serve({"view": limited.view, "fill": limited.fill})
