"""Containers with memory requests, against a model that knows what is really on the device."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from nvshare.scheduler.core.events import (
    ClientGone,
    ClientRegistered,
    ContainerFound,
    Event,
    PinnedMeasured,
    ResidencyReported,
    ResidentSettled,
    TermsSet,
)
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_model import Process
from tests.scheduler.core.memory.test_swap_properties import GIB, TOTAL, SwapMachine

pytestmark = pytest.mark.timeout(240)

PLACES = (0, 0, 1, 2, None, None)
"""The containers of the processes, by slot: two in one, one each in two others, and two that ask for nothing."""
REQUESTS = st.sampled_from((0, GIB, 3 * GIB, 6 * GIB, 10 * GIB, 2 * TOTAL))
COMERS = (ClientRegistered, ContainerFound, ClientGone, ResidentSettled, PinnedMeasured)
"""After these there may be more that others have, or a container is not there."""


@dataclass(slots=True)
class Share:
    """What a container has on the device, by the core's account."""

    clients: set[int]
    request: int
    kept: int = 0
    fixed: int = 0
    wanted: int = 0
    """What its clients wait for."""
    used: int = 0
    """Of what moves."""
    there: int = 0
    """Of it, what is there when all orders are obeyed."""


class RequestMachine(SwapMachine):
    """The same processes, most of them in containers with requests, which change."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = [3 * GIB, 6 * GIB, 0]
        self.before: dict[int, Share] = {}

    def connect(self, process: Process) -> None:
        super().connect(process)
        place = self.place(process)
        if place is not None:
            self.handle(ContainerFound(process.number, f"container {place}", self.terms(place)))

    @rule(place=st.integers(0, 2), request=REQUESTS)
    def ask_to_keep(self, place: int, request: int) -> None:
        """A container's request changes."""
        self.requests[place] = request
        if any(self.place(process) == place and process.number for process in self.processes.values()):
            self.handle(TermsSet(f"container {place}", self.terms(place)))

    def handle(self, event: Event) -> None:
        before = self.before
        super().handle(event)
        after = self.before = self.shares()
        for place, share in after.items():
            assert share.kept <= self.requests[place], "more is granted than was asked for"
            # Who is back counted as wholly there until it says what is.
            back = isinstance(event, ResidencyReported) and not event.order
            if place in before and not isinstance(event, COMERS) and not back:
                own = getattr(event, "client", 0) in share.clients
                self.check(before[place], share, own=own)

    def check(self, before: Share, after: Share, *, own: bool) -> None:
        """What is granted stays so, and of what is there nothing of it leaves, but for the container's own."""
        # A context of its own may take of it.
        if not own and after.wanted >= before.wanted:
            assert after.kept >= min(before.kept, after.request), "what was granted is taken back"
        floor = min(after.kept - after.fixed, after.used)
        assert after.there >= min(before.there, before.used, floor), "what is granted leaves"

    def shares(self) -> dict[int, Share]:
        """Of each container that is there."""
        found: dict[int, Share] = {}
        for device in self.core.snapshot(self.now):
            for client in device.clients:
                process = self.process_of(client.client)
                place = None if process is None else self.place(process)
                if place is None or client.swap is None or not client.container:
                    continue
                share = found.setdefault(place, Share(set(), client.terms.kept_bytes))
                share.clients.add(client.client)
                size = client.footprint_bytes or 0
                share.kept = client.kept_bytes
                share.fixed += client.swap.fixed_bytes
                share.wanted += client.swap.wanted_bytes
                share.used += size
                # Of two one makes room for the other.
                share.there += min(client.swap.allotted_bytes, size) if PLACES.count(place) == 1 else size
        return found

    def terms(self, place: int) -> Terms:
        return Terms(memory_request_bytes=self.requests[place])

    def place(self, process: Process) -> int | None:
        return next((PLACES[slot] for slot, each in self.processes.items() if each is process), None)


TestRequestMachine = RequestMachine.TestCase
TestRequestMachine.settings = settings(max_examples=100, stateful_step_count=40)
