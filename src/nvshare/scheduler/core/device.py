"""One device: its memory, the residency of its clients, and its lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    GrowthRequested,
    Policy,
    ResidencyReported,
)
from nvshare.scheduler.core.lock.lines import lines
from nvshare.scheduler.core.lock.lock import Lock
from nvshare.scheduler.core.memory.admission import Sleepers, does_not_fit
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.moves import Moves
from nvshare.scheduler.core.memory.queue import Ends, until_ends
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.growth import Growth
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.memory import UNKNOWN_CONTEXTS, Memory
from nvshare.scheduler.core.records.shown import show
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import DeviceSnapshot, Line, Totals
from nvshare.scheduler.core.terms import Priority
from nvshare.scheduler.core.transitions import ClientState

ROUNDS: Final = 3
"""How often lock and residency look at each other's answer to one event; what is left over comes with the next."""


class Device:
    """One device and its clients. After a method that changes something, call ``reconcile``."""

    def __init__(
        self,
        uuid: str,
        policy: Policy,
        quantum_seconds: float,
        settings: Settings,
        host: Host,
        ends: Ends,
        sleepers: Sleepers,
    ) -> None:
        self.uuid = uuid
        self.ledger = Ledger(settings.reserve_bytes)
        self.residency = Residency(uuid, self.ledger, host, ends, sleepers, settings.grace_seconds)
        self.limits = self.residency.limits
        self.requests = self.residency.requests
        self.lock = Lock(policy, quantum_seconds, settings, self.ledger, self.residency)
        self.deadline: float | None = None
        """When ``reconcile`` has something to do if nothing happens before; None: never."""
        self._settings = settings
        self.ganged: dict[int, None] = {}
        """The numbers of those for which gangs may have to do something: of those that are tied to nobody on this
        node, or whose gang is idle as a whole, only those that wait for others, or where something changed."""
        self._clients: dict[int, Client] = {}
        # Those of clients that are gone.
        self._held_seconds = self._waited_seconds = 0.0

    @property
    def in_use(self) -> bool:
        """Whether it has clients, or waits for holders of the scheduler before this one."""
        return bool(self._clients or self.lock.awaited or self.residency.is_awaiting)

    # What happened.

    def measure(self, event: DeviceSeen) -> None:
        """Its memory was measured."""
        self.ledger.measure_device(event.total_bytes, event.foreign_bytes, settled=event.settled)
        self.residency.check(measured=True)

    def add(self, client: Client, revokes: int, now: float) -> None:
        """A client appeared, in whatever state; ``revokes``: how often it was asked to leave because of that."""
        self._clients[client.number] = client
        self.ledger.open(client.memory)
        self.lock.add(client, revokes, now)
        if client.memory.swaps:
            self.residency.add(client)

    def memory_of(self, event: ClientRegistered, now: float) -> Memory:
        """The memory of one that registers."""
        footprint_bytes, says_footprint = event.footprint_bytes or 0, event.footprint_bytes is not None
        swaps = event.backend is Backend.SWAP
        memory = Memory(
            event.backend,
            footprint_bytes,
            says_footprint,
            claimed_total_bytes=event.device_bytes,
            has_context=not swaps or footprint_bytes > 0 or event.claimed is not ClaimedState.IDLE,
            context_at=now,
            progress_at=now,
        )
        memory.pin(self.ledger.assumed_pinned_bytes(memory, self._settings.assumed_pinned_bytes), measured=False)
        memory.count()
        return memory

    def remove(self, client: Client, now: float) -> None:
        """A client is gone, and what it had is free; but where memory swaps it stays charged."""
        self.residency.remove(client)
        self.lock.holders.squeeze()
        self._held_seconds += client.held_until(now)
        self._waited_seconds += client.waited_until(now)
        self.lock.remove(client, now)
        self.ledger.close(client.memory)
        self.limits.remove(client)
        self.requests.remove(client)
        del self._clients[client.number]

    def request(self, client: Client, now: float) -> None:
        """An idle client wants the lock."""
        self._assume_context(client)
        client.memory.progress(now)
        if not client.memory.has_context:
            client.memory.made_context()
            self._recount(client)
        self.lock.request(client, now)

    def summon(self, client: Client, now: float) -> None:
        """An idle client has to wait because its gang does."""
        client.memory.progress(now)
        self.lock.summon(client, now)

    def release(self, client: Client, now: float) -> None:
        """A holder gave its grant back."""
        client.memory.progress(now)
        self.lock.release(client, now)

    def resize(self, client: Client, footprint_bytes: int) -> None:
        """The footprint of a client that does not swap changed."""
        client.memory.resize(footprint_bytes)
        self._recount(client)

    def grow(self, client: Client, event: GrowthRequested, now: float) -> None:
        """A client that swaps wants to be admitted so much."""
        self._assume_context(client)
        client.memory.ask(Growth(event.request, event.footprint_bytes, event.fixed_bytes, client.ticket))
        self.residency.host.expect(event.footprint_bytes)
        self._recount(client)
        self.residency.ask(client, now)
        if client.state is ClientState.HOLDING and self.residency.admission.refusal(client, now) is None:
            self._expect(client, event.footprint_bytes)

    def report(self, client: Client, event: ResidencyReported, now: float) -> None:
        """A client that swaps told its memory."""
        memory = client.memory
        counted = memory.footprint_bytes, memory.growing_bytes, memory.unmovable_bytes
        self.residency.report(client, event, now)
        # Most reports say no more than that some of it moved.
        if counted != (memory.footprint_bytes, memory.growing_bytes, memory.unmovable_bytes):
            self._recount(client)

    def fall_asleep(self, client: Client, now: float) -> None:
        """A client that swaps has nothing on the device any more, not even a context; nor does it wait for the lock."""
        memory = client.memory
        if not memory.asleep:
            # Who did not wait is behind those that do when it is wanted again.
            client.lose_place()
            self._guess_context(client)
        if client.state is ClientState.WAITING:
            self.lock.fall_asleep(client, now)
        memory.fall_asleep()
        self.residency.forget_growth(client)
        self._recount(client)

    def come_back(self, client: Client, now: float) -> None:
        """One that is asleep needs its context again; ``fall_asleep`` has it wait for that without asking."""
        client.memory.come_back(client.ticket)
        self._recount(client)
        self.residency.ask(client, now)

    def keeps_out(self, client: Client, now: float) -> str:
        """Why one that comes back has to wait for others' ends; empty: it has not."""
        growth = client.memory.growth
        if growth is not None and growth.wait is not None:
            return "" if growth.wait.for_sleep else growth.wait.reason
        if growth is None:
            reason = does_not_fit(client.memory.context_bytes) if self.residency.is_overtaken(client) else ""
        else:
            refusal = self.residency.admission.refusal(client, now)
            reason = "" if refusal is None else refusal.reason
        return reason and until_ends(reason)

    def wake(self, client: Client, now: float) -> None:
        """It has its context again, and hears from now on what it was told meanwhile."""
        client.memory.wake(now)
        self._recount(client)

    def pin(self, client: Client, pinned_bytes: int, now: float, *, measured: bool) -> None:
        """A client's pinned memory was measured, or a better assumption is there; not for a context being made."""
        memory = client.memory
        if memory.asleep or (client.process is not None and client.process.falls):
            return
        if memory.swaps:
            if memory.is_growing(pinned_bytes, now) if measured else memory.makes_context(now):
                return
            if measured and pinned_bytes and memory.growth is None:
                memory.made_context()
        self.ledger.pin(memory, pinned_bytes, measured=measured)
        for each in (*self.residency.growing, *self.residency.queue.clients) if measured else ():
            self._assume_context(each)

    def needy(self, now: float) -> Iterator[Client]:
        """Who has room, for its memory or its context, only when others sleep that don't, in the order of turns."""
        residency, turns = self.residency, self.lock.turns
        waiting = [client for unit in turns.in_turn_asleep() for client in unit.coming]
        asking = {client.number: client for client in (*self._lacking(), *waiting)}
        in_order = sorted(asking.values(), key=turns.place)
        return (client for client in in_order if residency.lacks_sleep(client, now))

    def first_lacking(self, now: float) -> dict[Priority, Client]:
        """The first of each class that waits for memory or a context, or has just woken for its turn, or has room only
        when others sleep, and has no slice, where there are several classes. A slice is of no use to one that waits for
        others' ends."""
        turns = self.lock.turns
        if not turns.are_several:
            return {}
        growths = ((client, client.memory.growth) for client in self._lacking())
        asking = [client for client, growth in growths if growth is None or not growth.waits_for_ends]
        woken = (client for client in self.residency.clients.values() if client.has_woken(now))
        lacking = {client.number: client for client in (*asking, *woken, *self.needy(now))}
        last_first = sorted(lacking.values(), key=turns.place, reverse=True)
        return {client.priority: client for client in last_first if not client.is_due}

    # What is to be done.

    def plan_for(self, client: Client) -> None:
        """Gangs may have to do something for a client."""
        self.ganged[client.number] = None

    def plan_no_more_for(self, client: Client) -> None:
        """They have not."""
        self.ganged.pop(client.number, None)

    def reconcile(self, now: float, new_grant: Callable[[], int]) -> list[Action]:
        """Makes the state follow the rules again; returns the actions that this takes."""
        actions: list[Action] = []
        self.requests.settle()
        self.lock.arbitrate(now, new_grant, actions)
        for _ in range(ROUNDS if self.residency.clients else 0):
            before = self.residency.answer
            moves = Moves(self.residency, self.lock.comers, self.lock.holders.paging_bytes, now)
            actions += moves.actions
            for client, growing_bytes in moves.resized:
                self._expect(client, growing_bytes)
            if not self.lock.holders.squeeze() and not moves.resized and self.residency.answer == before:
                break
            self.lock.arbitrate(now, new_grant, actions)
        self.lock.stuck.kill_for_room(actions)
        actions += self.limits.tell()
        actions += [] if self.residency.is_awaiting else self.requests.tell(self.uuid)
        deadlines = [moment for moment in (self.lock.deadline, self.residency.deadline) if moment is not None]
        self.deadline = min(deadlines, default=None)
        return actions

    def wake_at(self, moment: float) -> None:
        """There is something to do then as well."""
        self.deadline = moment if self.deadline is None else min(self.deadline, moment)

    def snapshot(self, now: float) -> DeviceSnapshot:
        """The device and its clients at ``now``."""
        lock = self.lock
        places = {client.number: line for client, line in lines(lock, self.residency, now)}
        kept = self.requests.kept_bytes
        clients = tuple(
            show(client, now, places.get(client.number), kept_bytes=kept(client.container))
            for client in self._clients.values()
        )
        return DeviceSnapshot(
            device=self.uuid,
            total_bytes=self.ledger.total_bytes,
            foreign_bytes=self.ledger.foreign_bytes,
            policy=lock.policy,
            quantum_seconds=lock.quantum_seconds,
            quantum_left_seconds=None if lock.quantum_end is None else max(0.0, lock.quantum_end - now),
            recovering=bool(lock.awaited),
            clients=clients,
            totals=Totals(
                grants=lock.grants,
                revokes=lock.revokes,
                unresponsive=lock.stuck.overdue,
                held_seconds=self._held_seconds + sum(client.held_seconds for client in clients),
                waited_seconds=self._waited_seconds + sum(client.waited_seconds for client in clients),
            ),
            traffic=self.residency.traffic.snapshot(),
            total_measured=self.ledger.total_measured,
            reserve_bytes=self.ledger.reserve_bytes,
            shortage_bytes=self.ledger.shortage_bytes,
            in_doubt=self.residency.is_measurement_awaited,
            mix=lock.mix.snapshot(now),
        )

    def line(self, client: Client, now: float) -> Line | None:
        """Where a client waits at ``now``; None: it does not."""
        return next((line for waiter, line in lines(self.lock, self.residency, now) if waiter is client), None)

    def _expect(self, client: Client, growing_bytes: int) -> None:
        """What the footprint of one that waits for memory will be; 0: it stays as it is."""
        client.memory.expect(growing_bytes)
        self._recount(client)

    def _recount(self, client: Client) -> None:
        """What is known of a client's memory changed."""
        self.lock.resize(client, lambda: self.ledger.recount(client.memory))

    def _lacking(self) -> list[Client]:
        """Who waits for memory or a context, one that comes back as well."""
        residency = self.residency
        return [*residency.growing, *residency.queue.clients, *residency.sleepers.coming_back]

    def _guess_context(self, client: Client) -> None:
        """It was not measured before its process slept, but maybe before its connection was cut."""
        memory = client.memory
        if memory.pinned_measured:
            return
        if client.former_context_bytes is not None:
            memory.pin(client.former_context_bytes, measured=True)
        else:
            assumed = self.ledger.assumed_pinned_bytes(memory, self._settings.assumed_pinned_bytes)
            memory.pin(UNKNOWN_CONTEXTS * assumed, measured=False)

    def _assume_context(self, client: Client) -> None:
        """It was assumed to have none, or a smaller one than there are here; but whoever wants to work has one."""
        memory = client.memory
        assumed = self.ledger.assumed_pinned_bytes(memory, self._settings.assumed_pinned_bytes)
        if not memory.pinned_measured and not memory.asleep and (not memory.pinned_bytes or not memory.has_context):
            self.ledger.pin(memory, max(memory.pinned_bytes, assumed), measured=False)
