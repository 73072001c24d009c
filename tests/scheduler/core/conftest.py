"""All that is tested here is tested with the invariants."""

from __future__ import annotations

from tests.scheduler.core.checked import check_all

check_all()
