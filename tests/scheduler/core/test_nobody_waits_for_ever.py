"""The whole core under random events: gangs, limits, requests, memory of all kinds, deaths, lost connections, sleepers.

After each event and timer nobody waits for nothing (waiting.py), and when all obey at last, everyone is served.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from nvshare.scheduler.core.actions import Action, FormGang, Kill, Report
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    ClientGone,
    ContainerFound,
    HolderDied,
    HolderRecorded,
    Policy,
    TermsSet,
)
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.snapshot import ClientSnapshot, ShownState
from nvshare.scheduler.core.terms import Priority, Terms, WhenFull
from tests.scheduler.core.memory.swap_model import GRANULE, MIB, Process
from tests.scheduler.core.memory.test_swap_properties import GIB, PINNED, RESERVE, SLOT, SLOTS, TOTAL, SwapMachine
from tests.scheduler.core.whole_model import Place, Team, Worker

pytestmark = pytest.mark.timeout(240)

DEVICES = ("GPU-a", "GPU-b")
NATIVE_BYTES = 2 * GIB
"""The most that one native client allocates: nobody is asked for it."""
BACKENDS = st.sampled_from((Backend.SWAP, Backend.SWAP, Backend.SWAP, Backend.MANAGED, Backend.NATIVE))
PLACES = st.builds(
    Place,
    device=st.sampled_from((DEVICES[0], *DEVICES)),
    backend=BACKENDS,
    team=st.sampled_from(("", "t", "t", "u")),
    container=st.none() | st.integers(0, 2),
)
TERMS = st.builds(
    Terms,
    weight=st.sampled_from((1.0, 1.0, 0.5, 4.0)),
    priority=st.sampled_from((Priority.NORMAL, Priority.NORMAL, Priority.LOW, Priority.HIGH)),
    compute_limit=st.none() | st.none() | st.just(0.5),
    memory_limit_bytes=st.none() | st.sampled_from((6 * GIB, 10 * GIB)),
    memory_request_bytes=st.sampled_from((0, 0, GIB, 6 * GIB)),
    when_full=st.sampled_from((WhenFull.WAIT, WhenFull.WAIT, WhenFull.REFUSE)),
)
STYLES = ((False, True), (False, True), (True, True), (True, False))
"""Whether teams are tied by a name, and whether it is said how many they are."""
SIZES = st.sampled_from((2 * MIB, GIB, 3 * GIB, 5 * GIB, 8 * GIB, 13 * GIB))


class WholeMachine(SwapMachine):
    """The processes of swap_model.py and others, on two devices."""

    devices = DEVICES
    burst_seconds = 0.0
    """What a container saves for bursts."""
    work_seconds = 7.0  # so long what programs have submitted takes at the end

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []
        self.teams: dict[str, Team] = {}
        self.terms: list[Terms] = []
        self.asleep: set[Process] = set()
        """Who does nothing that it is told."""
        self.condemned: list[int] = []
        """Clients that are to be killed."""
        self.made = 0

    @initialize(
        policy=st.sampled_from((Policy.AUTO, Policy.AUTO, Policy.EXCLUSIVE, Policy.OFF)),
        host_bytes=st.sampled_from((0, 6 * GIB, 100 * GIB, 100 * GIB)),
        sizes=st.lists(SIZES, min_size=4, max_size=SLOTS),
        places=st.lists(PLACES, min_size=SLOTS, max_size=SLOTS),
        terms=st.lists(TERMS, min_size=3, max_size=3),
        style=st.sampled_from(STYLES),
        unresponsive=st.sampled_from(Unresponsive),
    )
    def start(  # type: ignore[override]
        self,
        policy: Policy,
        host_bytes: int,
        sizes: list[int],
        places: list[Place],
        terms: list[Terms],
        style: tuple[bool, bool],
        unresponsive: Unresponsive,
    ) -> None:
        """Some processes have their memory already; those of teams join, and all of them want to compute."""
        self.settings = Settings(
            policy=policy,
            assumed_pinned_bytes=PINNED,
            reserve_bytes=RESERVE,
            host_bytes=host_bytes,
            quantum_seconds=5.0,
            unresponsive=unresponsive,
            burst_seconds=self.burst_seconds,
        )
        self.places, self.terms, self.style = places, terms, style
        self.core = Core(self.settings)
        self.measure_devices()
        for slot, size in enumerate(sizes):
            self.come(slot, 0)
            self.deliver_all()
            self.join(slot)
            self.come(slot, size)
            self.deliver_all()
            self.ask([slot])
        self.deliver_all()

    @rule(slot=SLOT)
    def join(self, slot: int) -> None:
        """A process says to whom it is tied."""
        process = self.able(slot)
        if isinstance(process, Worker) and process.pinned and process.team is not None and not process.joining:
            process.join()

    @rule(slot=SLOT)
    def leave(self, slot: int) -> None:
        """A team is done."""
        process = self.able(slot)
        if isinstance(process, Worker) and process.joined:
            self.end_team(process)

    @rule(slot=SLOT)
    def idle(self, slot: int) -> None:
        """A holder has nothing to do: alone it gives the lock back, in a gang it says so."""
        process = self.able(slot)
        if isinstance(process, Worker) and process.grant is not None and not process.revoked and process.joined:
            process.idle()

    @rule(place=st.integers(0, 2), terms=TERMS)
    def set_terms(self, place: int, terms: Terms) -> None:
        """The operator changes what a container may have."""
        self.terms[place] = terms
        if any(self.places[slot].container == place and each.number for slot, each in self.processes.items()):
            self.handle(TermsSet(f"container {place}", terms))

    @rule(slot=SLOT)
    def fall_asleep(self, slot: int) -> None:
        """A process is stopped, and does nothing that it is told."""
        if process := self.able(slot):
            self.asleep.add(process)

    @rule(slot=SLOT)
    def wake_up(self, slot: int) -> None:
        """It goes on."""
        self.asleep.discard(self.processes.get(slot, Process("")))

    @rule(slot=SLOT)
    def lose(self, slot: int) -> None:
        """The connection of a holder ends, which is recorded, and awaited until it is back."""
        process = self.able(slot)
        if isinstance(process, Worker) and process.grant not in (None, process.former_grant) and process.pinned:
            process.recorded = process.grant
            self.handle(HolderRecorded(process.device, process.grant))
            former, process.number = process.number, 0
            self.former.setdefault(process, []).append(former)
            self.handle(ClientGone(former))

    @rule(slot=SLOT)
    def come_back(self, slot: int) -> None:
        """A process whose connection ended is there again."""
        process = self.processes.get(slot)
        if process is not None and not process.number:
            self.connect(process)
            self.measure_contexts()

    @rule(slot=SLOT)
    def kill(self, slot: int) -> None:
        """A process dies, and what its team waits for is broken off."""
        process = self.processes.pop(slot, None)
        if not isinstance(process, Worker):
            return
        self.asleep.discard(process)
        self.end_team(process)
        self.dead += [(number, process) for number in (*self.former.pop(process, ()), process.number) if number]
        if process.number:
            self.handle(ClientGone(process.number))
        elif process.recorded is not None:
            self.handle(HolderDied(process.recorded))

    @rule()
    def restart(self) -> None:
        """Another scheduler; everybody comes back, and who holds must leave."""
        self.asleep.clear()
        self.condemned.clear()
        for process in self.processes.values():
            if isinstance(process, Worker):
                process.recorded, process.former_grant = None, process.grant
        SwapMachine.restart(self)

    @rule()
    def settle(self) -> None:
        """Time passes until nothing happens by itself any more."""
        for _ in range(60):
            self.clean_up()
            self.deliver_all()
            deadline = self.core.deadline()
            if deadline is None:
                return
            self.wait(max(0.0, deadline - self.now))

    @invariant()
    def nothing_is_given_twice(self) -> None:
        """Not where others take memory that they don't ask for."""

    def everyone_is_served(self) -> None:
        """At the end."""

    def teardown(self) -> None:
        """Everybody obeys, and comes back: each one that waits has its turn, wholly on the device."""
        if not hasattr(self, "core"):
            return
        self.asleep.clear()
        for slot in range(SLOTS):
            self.come_back(slot)
        waiting = {process: process.turns for process in self.processes.values() if process.waits}
        for _ in range(4 * SLOTS):
            self.obey()
        self.deliver_all()
        self.end_those_in_the_way()
        here = [process for process in waiting if process in self.processes.values()]
        for process in here:
            seen = self.core.client(process.number, self.now)
            assert process.turns > waiting[process] or self.may_wait(process, seen), f"{process} waits for ever: {seen}"
        for process in self.processes.values():
            assert process.wanted is None, f"a growth is never answered: {process}"
            assert process.grant is None or process.runs, f"somebody holds and is not in: {process}"

    def obey(self) -> None:
        """Time passes, and all have done what they were told."""
        for _ in range(10):
            self.clean_up()
            self.deliver_all()
            self.wait(self.work_seconds)

    def end_those_in_the_way(self) -> None:
        """Those that wait for no memory end one after another, until nobody waits for memory any more."""
        while any(process.wanted for process in self.processes.values()):
            able = [slot for slot, process in self.processes.items() if not process.wanted]
            if able:
                self.kill(able[0])
            for _ in range(SLOTS):
                self.obey()
            self.deliver_all()
            assert able or not any(process.wanted for process in self.processes.values()), (
                f"all wait for each other: {self.processes}"
            )

    def may_wait(self, process: Process, seen: ClientSnapshot) -> bool:
        """Whether what keeps it waiting is true, and can only be ended by a user."""
        assert isinstance(process, Worker)
        team = process.team
        if any(self.can_never_stop(each) for each in self.processes.values()):
            return True
        if seen.wait is not None and seen.wait.expected:
            return team is not None and team.sized and team.named and not team.works
        if seen.wait is not None and seen.wait.too_large:
            mate = self.process_of(seen.wait.client)
            return mate is not None and team is not None and mate in team.members and self.is_too_large(mate)
        return seen.line is not None and seen.line.too_large and self.is_too_large(process)

    def can_never_stop(self, process: Process) -> bool:
        """Whether it waits for work of one that can't come in, and is shown as unresponsive."""
        if not isinstance(process, Worker) or not process.number or self.can_stop(process) or process.team is None:
            return False
        is_shown = self.core.client(process.number, self.now).state is ShownState.UNRESPONSIVE
        return is_shown and any(self.is_too_large(mate) for mate in process.team.members)

    def is_too_large(self, process: Process) -> bool:
        """Whether its memory does not fit beside what can't leave."""
        here = [each for each in self.processes.values() if each.device == process.device]
        used = self.foreign.get(process.device, 0) + sum(each.pinned + each.fixed for each in here)
        used += sum(each.footprint for each in here if getattr(each, "backend", None) is Backend.NATIVE)
        # What others' host memory does not take stays, and what is kept for memory requests.
        used += sum(max(0, each.footprint - max(0, each.arena - GRANULE)) for each in here if each is not process)
        used += sum(terms.memory_request_bytes for terms in self.terms)
        return process.footprint + used > TOTAL - RESERVE

    # What these processes do in another way.

    def make(self, slot: int) -> Process:
        self.made += 1
        place = self.places[slot]
        process = Worker(place.device, backend=place.backend)
        if place.team:
            team = self.teams.get(place.team)
            size = sum(each.team == place.team for each in self.places)
            if size > 1 and (team is None or team.over or len(team.members) == team.size):
                team = self.teams[place.team] = Team(f"{place.team} {self.made}", size, *self.style)
            if size > 1 and team is not None:
                team.members.append(process)
                process.team = team
        return process

    def connect(self, process: Process) -> None:
        super().connect(process)
        if isinstance(process, Worker) and process.backend is not Backend.SWAP:
            self.free_former(process)
        slot = next(slot for slot, each in self.processes.items() if each is process)
        if (place := self.places[slot].container) is not None:
            self.handle(ContainerFound(process.number, f"container {place}", self.terms[place]))

    def able(self, slot: int) -> Process | None:
        process = super().able(slot)
        return None if process in self.asleep else process

    @rule(slot=SLOT, size=SIZES)
    def come(self, slot: int, size: int) -> None:
        process = self.able(slot)
        if isinstance(process, Worker) and process.backend is Backend.NATIVE:
            size = min(size, NATIVE_BYTES - process.footprint)
        SwapMachine.come(self, slot, size)

    @rule(slot=SLOT, size=st.sampled_from((256 * MIB, GIB)))
    def pin(self, slot: int, size: int) -> None:
        process = self.able(slot)
        if isinstance(process, Worker) and process.backend is Backend.SWAP:
            SwapMachine.pin(self, slot, size)

    # What happens in any case is no rule here: there is time for more of the others.

    def clean_up(self) -> None:
        SwapMachine.clean_up(self)

    def see(self) -> None:
        SwapMachine.see(self)

    def measure(self, slot: int) -> None:
        SwapMachine.measure(self, slot)

    def make_arenas(self) -> None:
        SwapMachine.make_arenas(self)
        for number in self.condemned:
            slots = [slot for slot, process in self.processes.items() if process.number == number]
            for slot in slots:
                self.kill(slot)
        self.condemned.clear()

    def work(self, process: Process) -> bool:
        if not isinstance(process, Worker) or process.team is None or not process.team.works:
            return False
        before, team = process.submitted, process.team
        if not process.runs:
            # The others wait for what it has not submitted.
            lacks = (
                process.grant is None and not process.waits and before < max(each.submitted for each in team.members)
            )
            if lacks:
                process.ask()
            return lacks
        most = max(each.submitted for each in team.members)
        if before < most:
            # Sooner or later it comes to what the others wait for.
            process.submitted = most
        elif not process.revoked and any(each.number and not each.runs for each in team.members):
            # The next one, which those who don't run have to come in for.
            process.submitted += before == team.completed
        return process.submitted != before

    def can_stop(self, process: Process) -> bool:
        if not isinstance(process, Worker) or process.team is None or not process.team.works:
            return True
        if (
            process.number
            and (gang := self.core.client_apart(process.number, self.now).gang) is not None
            and gang.apart
        ):
            return True
        return process.submitted <= process.team.completed

    def is_quiet(self) -> bool:
        away = any(not process.number for process in self.processes.values())
        return not (away or self.condemned) and SwapMachine.is_quiet(self)

    def end_team(self, process: Worker) -> None:
        if (team := process.team) is not None:
            team.over = True
            for member in team.members:
                member.leave_team()

    def send(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Kill):
                self.condemned.append(action.client)
        super().send([action for action in actions if not isinstance(action, FormGang | Report | Kill)])


TestWholeMachine = WholeMachine.TestCase
TestWholeMachine.settings = settings(
    max_examples=120, stateful_step_count=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
