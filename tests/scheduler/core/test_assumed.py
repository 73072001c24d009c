"""What a context is taken to take before it is measured, where memory swaps."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Backend
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.memory import Memory

GIB = 1 << 30
MIB = 1 << 20


@pytest.mark.parametrize(
    ("backend", "total", "claimed", "assumed"),
    [
        (Backend.SWAP, 16 * GIB, 0, 640 * MIB),
        (Backend.SWAP, GIB, 0, 64 * MIB),
        (Backend.SWAP, 0, GIB, 64 * MIB),
        (Backend.SWAP, 0, 0, 640 * MIB),
        (Backend.MANAGED, GIB, 0, 640 * MIB),
        (Backend.NATIVE, GIB, 0, 640 * MIB),
    ],
)
def test_small_devices_have_small_contexts(backend: Backend, total: int, claimed: int, assumed: int) -> None:
    """Else two programs on a GPU of 1 GiB are refused all memory before anything was measured."""
    ledger = Ledger()
    ledger.measure_device(total, 0)
    memory = Memory(backend, claimed_total_bytes=claimed)
    assert ledger.assumed_pinned_bytes(memory, 640 * MIB) == assumed
