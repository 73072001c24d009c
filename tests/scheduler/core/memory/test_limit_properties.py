"""Containers with memory limits, against a model that knows what their processes really have."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import invariant

from nvshare.scheduler.core.actions import Action, RefuseGrowth
from nvshare.scheduler.core.events import ContainerFound
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_model import Process
from tests.scheduler.core.memory.test_swap_properties import GIB, SwapMachine

LIMITS = (6 * GIB, 10 * GIB)
"""Of two containers; every third process is in none."""


class LimitMachine(SwapMachine):
    """The same processes, most of them in two containers."""

    def connect(self, process: Process) -> None:
        super().connect(process)
        place = self._container(process)
        if place is not None:
            terms = Terms(memory_limit_bytes=LIMITS[place])
            self.handle(ContainerFound(process.number, f"container {place}", terms))

    @invariant()
    def no_limit_is_passed(self) -> None:
        """What all processes of a container have together is never more than its limit."""
        for place, limit in enumerate(LIMITS):
            members = [process for process in self.processes.values() if self._container(process) == place]
            assert sum(process.footprint + process.fixed for process in members) <= limit

    def send(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, RefuseGrowth) and "limit" in action.reason:
                self._check(action)
        super().send(actions)

    def _check(self, refusal: RefuseGrowth) -> None:
        """What fits is not refused, by what its container's processes have said; who has not answered may have more."""
        process = self.process_of(refusal.client)
        assert process is not None
        assert process.wanted is not None
        place = self._container(process)
        assert place is not None
        total = sum(process.wanted)
        for device in self.core.snapshot(self.now):
            for client in device.clients:
                other = self.process_of(client.client)
                if other is None or other is process or self._container(other) != place:
                    continue
                assert client.swap is not None
                answered = not other.inbox and not other.outbox
                claimed = max(client.swap.admitted_bytes, other.admitted, client.footprint_bytes or 0)
                total += client.swap.fixed_bytes + ((client.footprint_bytes or 0) if answered else claimed)
        assert total > LIMITS[place]

    def _container(self, process: Process) -> int | None:
        place = next((slot for slot, each in self.processes.items() if each is process), 2) % 3
        return place if place < len(LIMITS) else None


TestLimitMachine = LimitMachine.TestCase
TestLimitMachine.settings = settings(max_examples=100, stateful_step_count=40)
