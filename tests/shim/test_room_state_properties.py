"""The room's state against a scheduler that hears late: what is resident is never more than that one charges."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.c_parts import lib
from tests.shim.room_state_model import (
    BRING_IN,
    BRING_OUT,
    DOWN,
    FIXED,
    HUGE,
    IN,
    MOVABLE,
    NEVER,
    SAY_US,
    UP,
    WAIT,
    Room,
)

amounts = st.integers(1, 8)


class Late(RuleBasedStateMachine):
    """A client and a scheduler whose frames take as long as they like; the scheduler may be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.to_client: deque[tuple[int, int, int, int]] = deque()
        self.to_scheduler: deque[Any] = deque()
        self.order = 0
        self.allotments: dict[int, int] = {}
        """Those that the client may still go by, by their orders; under 0 what it is charged with from its start."""
        self.admitted = 0
        self.wish: Any = None
        self.resident = 0
        """As the scheduler knows it."""
        self.waiting: tuple[int, int] | None = None
        self.again = False
        """Who waits does so because the driver had nothing."""
        self.of_driver = False
        """What was given last is the driver's memory."""
        self.leaving: list[int] = []
        self.entering: list[int] = []

    @property
    def state(self) -> Any:
        """The client's."""
        return self.room.state

    @property
    def up(self) -> bool:
        """There is a scheduler."""
        return bool(self.state.link == UP)

    def serve(self) -> None:
        """Whoever waits goes on when it may, as room.c sees to."""
        if self.waiting and (answer := self.room.take(*self.waiting, self.again)) != WAIT:
            self.waiting, self.of_driver = None, answer == IN
        if self.waiting:
            lib.nvs_room_state_want(self.state, *self.waiting)
        else:
            lib.nvs_room_state_want_none(self.state)

    @precondition(lambda self: not self.up)
    @rule()
    def connect(self) -> None:
        """A scheduler that knows nothing; REGISTER has said the footprint."""
        self.to_client.clear()
        self.to_scheduler.clear()
        self.order, self.wish = 0, None
        self.room.link(UP)
        self.allotments = {0: self.state.footprint_bytes}
        self.admitted = self.state.footprint_bytes
        self.resident = self.state.resident_bytes
        self.serve()

    @precondition(lambda self: self.up)
    @rule(has=st.booleans())
    def disconnect(self, has: bool) -> None:
        """It is gone; whoever waits gets what the driver ``has``."""
        self.room.link(DOWN)
        waiting = self.waiting
        self.serve()
        assert not self.waiting or self.again
        self.ask_driver(None if self.waiting else waiting, has)

    @precondition(lambda self: not self.waiting)
    @rule(size=amounts, kind=st.sampled_from([MOVABLE, FIXED]), has=st.booleans())
    def ask(self, size: int, kind: int, has: bool) -> None:
        """A thread allocates."""
        self.waiting, self.again = (kind, size), False
        self.serve()
        self.ask_driver(None if self.waiting else (kind, size), has)

    def ask_driver(self, given: tuple[int, int] | None, has: bool) -> None:
        """What was given without a scheduler the driver may not have: then it is waited for."""
        if given and self.of_driver and not has and lib.nvs_room_state_lost(self.state):
            self.room.take_back(*given)
            self.waiting, self.again = given, True
            self.serve()
            assert self.waiting

    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        """Something is freed, in or out, that does not move."""
        state = self.state
        here = state.resident_bytes - sum(self.leaving) - sum(self.entering)
        out = state.footprint_bytes - state.resident_bytes
        size = data.draw(st.integers(0, here + out))
        resident = data.draw(st.integers(max(0, size - out), min(size, here)))
        lib.nvs_room_state_give(state, size, resident)
        self.serve()

    @rule(size=amounts)
    def pin(self, size: int) -> None:
        """Something resident is exported."""
        here = self.state.resident_bytes - sum(self.leaving) - sum(self.entering)
        if size <= here:
            lib.nvs_room_state_pin(self.state, size)
            self.serve()

    @rule()
    def hold_or_release(self) -> None:
        """The lock comes, or goes."""
        (lib.nvs_room_state_release if self.state.held else lib.nvs_room_state_hold)(self.state)
        self.serve()

    @rule(size=amounts)
    def move(self, size: int) -> None:
        """The mover begins with a chunk, if it should."""
        move, most = self.room.next()
        staying = self.state.resident_bytes - sum(self.leaving) - sum(self.entering)
        if size <= staying and lib.nvs_room_state_leave(self.state, size):
            assert move == BRING_OUT
            self.leaving.append(size)
        elif lib.nvs_room_state_enter(self.state, size):
            assert move == BRING_IN
            assert size <= most
            self.entering.append(size)
        self.serve()

    @rule(works=st.booleans())
    def arrive(self, works: bool) -> None:
        """A chunk is where it should go, or stays."""
        if self.leaving:
            lib.nvs_room_state_left(self.state, self.leaving.pop(0), works)
        elif self.entering:
            lib.nvs_room_state_entered(self.state, self.entering.pop(0), works)
        self.serve()

    @precondition(lambda self: self.up)
    @rule(later=st.integers(0, 2 * SAY_US), everything=st.booleans())
    def say(self, later: int, everything: bool) -> None:
        """What is to be said is on its way."""
        self.room.now += later
        self.to_scheduler.extend(self.room.says(everything))

    @precondition(lambda self: self.up and self.to_scheduler)
    @rule()
    def hear(self) -> None:
        """The scheduler hears one frame."""
        frame = self.to_scheduler.popleft()
        if frame.type == lib.NVS_GROW:
            self.wish = frame
            return
        assert frame.memory.order in self.allotments, "it goes by what it was never told, or not any more"
        self.resident = frame.memory.resident_bytes
        self.allotments = {
            order: allotted for order, allotted in self.allotments.items() if order >= frame.memory.order
        }

    @precondition(lambda self: self.up)
    @rule(allotted=st.integers(0, 40), more=st.integers(0, 10), grants=st.booleans())
    def order_(self, allotted: int, more: int, grants: bool) -> None:
        """The scheduler says something: by chance, or what was wished for."""
        self.order += 1
        request = 0
        self.admitted += more
        if self.wish is not None and grants:
            self.admitted = max(self.admitted, self.wish.footprint_bytes)
            allotted, request = max(allotted, self.wish.footprint_bytes), self.wish.request
            self.wish = None
        self.allotments[self.order] = allotted
        self.to_client.append((self.order, allotted, self.admitted, request))

    @precondition(lambda self: self.up and self.to_client)
    @rule()
    def obey(self) -> None:
        """The client hears one frame."""
        assert self.room.allot(*self.to_client.popleft())
        self.serve()

    @invariant()
    def what_is_charged_is_enough(self) -> None:
        """What is resident, and the footprint, are within what this scheduler has said."""
        if self.up:
            assert self.state.resident_bytes <= max([self.resident, *self.allotments.values()])
            assert self.state.footprint_bytes <= self.admitted

    @invariant()
    def the_sums_are_right(self) -> None:
        """Resident is part of the footprint, what moves is part of that, and the gate is open for nothing less."""
        state = self.state
        assert state.leaving_bytes == sum(self.leaving)
        assert state.entering_bytes == sum(self.entering)
        assert sum(self.leaving) + sum(self.entering) <= state.resident_bytes <= state.footprint_bytes < HUGE
        if lib.nvs_room_state_ready(state):
            assert state.resident_bytes == state.footprint_bytes
            assert not self.leaving
            assert not self.entering

    @invariant()
    def nobody_waits_in_silence(self) -> None:
        """Whoever waits has asked for it, or will."""
        if self.waiting and self.up:
            asked = self.state.answered != self.state.request
            assert asked or lib.nvs_room_state_deadline(self.state) != NEVER

    def teardown(self) -> None:
        """In the end a scheduler that grants everything brings everybody on, and everything in."""
        if not self.up:
            self.connect()
        while self.leaving or self.entering:
            self.arrive(True)
        if not self.state.held:
            self.hold_or_release()
        for _ in range(20):
            self.say(2 * SAY_US, True)
            while self.to_scheduler:
                self.hear()
            self.order_(1000, 1000, True)
            while self.to_client:
                self.obey()
            self.move(self.room.next()[1])
            self.arrive(True)
        assert not self.waiting
        assert lib.nvs_room_state_ready(self.state)


TestLate = Late.TestCase
TestLate.settings = settings(max_examples=300, stateful_step_count=60)
