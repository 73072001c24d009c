"""What Dynamic Resource Allocation calls nvshare."""

from __future__ import annotations

from typing import Final

DRIVER: Final = "gpu.nvshare.com"
"""The driver that offers shares of GPUs, and prepares claims to them."""
