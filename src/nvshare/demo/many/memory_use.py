"""How much of the first GPU is in use: ``python -m nvshare.demo.many.memory_use`` prints it whenever it changes.

It asks NVML, as nvidia-smi does: what it sees is the driver's word, not nvshare's.
"""

from __future__ import annotations

import time

import pynvml  # type: ignore[import-untyped]

_INTERVAL_SECONDS = 0.02


def main() -> None:
    """Until it is ended."""
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    before = None
    while True:
        used = pynvml.nvmlDeviceGetMemoryInfo(gpu).used
        if used != before:
            print(used, flush=True)
        before = used
        time.sleep(_INTERVAL_SECONDS)


if __name__ == "__main__":
    main()
