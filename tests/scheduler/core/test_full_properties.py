"""Where memory is short and most wait for others' ends: nobody waits for ever, whoever ends, comes or asks for more."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import Unresponsive
from nvshare.scheduler.core.terms import Terms, WhenFull
from tests.scheduler.core.memory.test_swap_properties import GIB, SLOTS
from tests.scheduler.core.test_nobody_waits_for_ever import DEVICES, SIZES, WholeMachine
from tests.scheduler.core.whole_model import Place

pytestmark = pytest.mark.timeout(240)

PLACES = st.builds(
    Place,
    device=st.sampled_from((DEVICES[0], DEVICES[0], *DEVICES)),
    team=st.sampled_from(("", "", "", "t")),
    container=st.integers(0, 3),
)
WAITS = Terms(when_full=WhenFull.WAIT)


class FullMachine(WholeMachine):
    """Each container waits for others' ends, and host memory takes little."""

    @initialize(
        host_bytes=st.sampled_from((0, 2 * GIB, 6 * GIB)),
        sizes=st.lists(SIZES, min_size=4, max_size=SLOTS),
        places=st.lists(PLACES, min_size=SLOTS, max_size=SLOTS),
    )
    def start(self, host_bytes: int, sizes: list[int], places: list[Place]) -> None:  # type: ignore[override]
        terms = [WAITS, WAITS, WAITS, Terms()]
        WholeMachine.start(self, Policy.AUTO, host_bytes, sizes, places, terms, (False, True), Unresponsive.REPORT)


TestFullMachine = FullMachine.TestCase
TestFullMachine.settings = settings(
    max_examples=80, stateful_step_count=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
