"""The Triton kernel of axpy.py: Triton reads the source of a function of a module, whose names it looks up there."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def axpy(a, x, y, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """``y`` becomes ``a`` times ``x`` plus ``y``."""
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = offsets < count
    tl.store(y + offsets, a * tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)
