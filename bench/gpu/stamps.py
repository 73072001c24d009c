"""When work of this process was on the GPU, by the GPU's own clock.

A one-thread kernel stores ``%globaltimer`` (nanoseconds, one clock for all processes on a device) into a buffer. Put before and
after a piece of work on the same stream, two stamps bound the time in which that work ran, whatever the host did meanwhile.
"""

from __future__ import annotations

import ctypes
from typing import Any

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry bench_stamp(.param .u64 out)
{
    .reg .u64 %rd<3>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u64 %rd2, %globaltimer;
    st.global.u64 [%rd1], %rd2;
    ret;
}
\0"""


class Stamps:
    """A buffer of ``capacity`` stamps on the current PyTorch stream."""

    def __init__(self, torch: Any, capacity: int) -> None:
        self._buffer = torch.zeros(capacity, dtype=torch.int64, device="cuda")
        self._stream = torch.cuda.current_stream().cuda_stream
        self._used = 0
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(module), PTX))
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(self._function), module, b"bench_stamp"))

    @staticmethod
    def _check(result: int) -> None:
        if result != 0:
            raise RuntimeError(f"the CUDA driver answered {result}")

    def stamp(self) -> None:
        """Puts one stamp on the stream."""
        address = ctypes.c_uint64(self._buffer.data_ptr() + 8 * self._used)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        self._check(
            self._driver.cuLaunchKernel(
                self._function, 1, 1, 1, 1, 1, 1, 0, ctypes.c_void_p(self._stream), parameters, None
            )
        )
        self._used += 1

    def spans(self) -> list[tuple[int, int]]:
        """(start, end) in nanoseconds of every pair of stamps."""
        values = self._buffer[: self._used].cpu().tolist()
        return list(zip(values[0::2], values[1::2], strict=True))
