"""The scheduler's memory stays as it is, however many clients come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scheduler.passers_by import come_and_go, resident_bytes
from tests.scheduler.wire_client import Scheduler

pytestmark = pytest.mark.soak

Serve = Callable[..., Scheduler]

ROUND = 1500


def test_memory_is_flat(serve: Serve) -> None:
    """Thousands more leave nothing behind. A record of each would be 250 bytes or more."""
    scheduler = serve()
    come_and_go(scheduler, ROUND)
    before = resident_bytes(scheduler)
    come_and_go(scheduler, 2 * ROUND)
    assert resident_bytes(scheduler) - before < 2 * ROUND * 100
