"""The kernel of axpy.py that numba compiles: numba's own simulator looks ``cuda`` up in the function's module."""

from numba import cuda


@cuda.jit
def axpy(a, x, y):  # type: ignore[no-untyped-def]
    """``y`` becomes ``a`` times ``x`` plus ``y``."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = a * x[i] + y[i]
