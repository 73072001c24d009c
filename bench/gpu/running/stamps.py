"""When work of this process was on the GPU, by the GPU's own clock.

The demo's kernel, of one thread, stores ``%globaltimer`` (nanoseconds, one clock for all processes on a device), spins
for a given time and stores it again. It is one launch, so it lies in one turn, whatever the host did meanwhile.
"""

from __future__ import annotations

import ctypes
from typing import Any

from nvshare.demo import STAMPED_PTX


class Stamps:
    """At most ``capacity`` spans of ``nanoseconds`` each, on the current PyTorch stream."""

    def __init__(self, torch: Any, capacity: int, nanoseconds: int) -> None:
        self._buffer = torch.zeros(2 * capacity, dtype=torch.int64, device="cuda")
        self._stream = torch.cuda.current_stream().cuda_stream
        self._nanoseconds = ctypes.c_uint64(nanoseconds)
        self._used = 0
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(module), STAMPED_PTX.read_bytes() + b"\0"))
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(self._function), module, b"spin_stamped"))

    @staticmethod
    def _check(result: int) -> None:
        if result != 0:
            raise RuntimeError(f"the CUDA driver answered {result}")

    def span(self) -> None:
        """Puts one span on the stream."""
        address = ctypes.c_uint64(self._buffer.data_ptr() + 16 * self._used)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(address), ctypes.addressof(self._nanoseconds))
        self._check(
            self._driver.cuLaunchKernel(
                self._function, 1, 1, 1, 1, 1, 1, 0, ctypes.c_void_p(self._stream), parameters, None
            )
        )
        self._used += 1

    def spans(self) -> list[tuple[int, int]]:
        """(start, end) of every span, in nanoseconds of the GPU's clock."""
        values = self._buffer[: 2 * self._used].cpu().tolist()
        return list(zip(values[0::2], values[1::2], strict=True))
