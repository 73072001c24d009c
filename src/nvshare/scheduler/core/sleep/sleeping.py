"""Processes that sleep: **the rules**. The driver's checkpoint takes all that a sleeping process has on its devices.

- *Who can.* No client of the process holds or asks for memory, none is of a gang, host memory takes all that can move,
  and little can't. Not who keeps memory there by a request, and not who said ``never``.
- *When.* The operator asks, and it is idle; or it has been idle for so long as its terms or the scheduler's settings
  say; or somebody lacks room that there is only when others sleep (relief.py): then maybe while it waits for its turn.
- *How.* Its memory leaves first (moves.py). Then the shell has it close its door and checkpoints it. If it was needed
  meanwhile, or a thread of it is in the driver, it stays awake, and is not tried again for a while. Who waited for its
  turn does not any more; it wants to be awake at once, and asks for the lock again then.
- *Waking.* A call at its door wants it awake. Its host memory comes back first if it is elsewhere (storing.py). Then
  each of its clients asks for room for its context, as for a first one, but is never refused. Since the driver would
  lose it without room, its devices are measured before it is woken. Of processes on several devices one comes back at
  a time, so that no two wait for each other.
- *Standing still.* Nobody waits for one whose process is stopped (still.py).
- *Flapping.* Who woke without having asked for a device since it fell asleep (it polls events, or asks what memory is
  free) stays awake twice as long the next time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, assert_never

from nvshare.scheduler.core.actions import Action, Measure, Wake
from nvshare.scheduler.core.actions import Sleep as PutToSleep
from nvshare.scheduler.core.clients import Clients
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.process import REST_SECONDS, Process, Sleep
from nvshare.scheduler.core.sleep.idleness import grants, idle_seconds, idle_since, is_idle
from nvshare.scheduler.core.sleep.reasons import Reasons, is_out
from nvshare.scheduler.core.sleep.relief import Relief
from nvshare.scheduler.core.sleep.still import Still
from nvshare.scheduler.core.sleep.storing import Storing
from nvshare.scheduler.core.sleep_events import (
    FellAsleep,
    SleepAsked,
    SleepEvent,
    SleepOffered,
    StayedAwake,
    WakeWanted,
    Woke,
)

_ALLOWED: Final[Mapping[type[SleepEvent], tuple[Sleep, ...]]] = {
    FellAsleep: (Sleep.AWAKE, Sleep.LEAVING, Sleep.FALLING),
    StayedAwake: (Sleep.FALLING,),
    Woke: (Sleep.WAKING,),
}
"""In which states a process must be for what happened to it; for other events in any."""


class Sleeping:
    """All processes that can sleep."""

    def __init__(
        self,
        clients: Clients,
        host: Host,
        after_seconds: float | None,
        new_ticket: Callable[[], int],
    ) -> None:
        """``clients``: all there are, by number; ``after_seconds``: see ``Settings.sleep_after_seconds``;
        ``new_ticket``: a place behind all that wait."""
        self._clients, self._host = clients, host
        self._after_seconds, self._new_ticket = after_seconds, new_ticket
        self._processes: dict[int, Process] = {}
        self.storing = Storing(clients, self._processes, host)
        self._on: dict[str, dict[int, tuple[Client, Process]]] = {}
        """The clients of these processes on each device, by number."""
        self.moving: dict[int, Process] = {}
        """Those that are neither awake nor asleep, or are asked to be the other, or to let go of host memory."""
        self.reasons = Reasons(clients, host, self.storing, self.moving)
        self.relief = Relief(clients, self.reasons, self.storing, self.moving)
        self._still = Still(clients, self._processes, self.moving)
        self._alarms: dict[int, float] = {}
        """When to look whether a process has been idle for long enough, by its number."""
        self._moments: list[tuple[float, int]] = []
        """The same, the earliest first; what is not its process's alarm any more is passed over."""

    def on(self, device: str) -> Mapping[int, tuple[Client, Process]]:
        """The clients on a device whose processes can sleep, by number."""
        return self._on.get(device, {})

    # What happened.

    def offer(self, event: SleepOffered, client: Client, device: Device, now: float) -> list[Device]:
        """The process of a client can sleep; on which devices that may change something."""
        if not client.memory.swaps:
            raise IllegalEvent(f"client {client.number} does not swap", event)
        process = self._processes.get(event.process)
        if process is None:
            process = self._processes[event.process] = Process(event.process, woke_at=now)
            self._set_alarm(process, now)
        process.enter(client.number)
        client.may_sleep(process, event.context_bytes)
        self._host.may_sleep(any_may=True)
        self._rest(process)
        self._on.setdefault(device.uuid, {})[client.number] = client, process
        device.lock.blocking.may_sleep(any_may=True)
        if process.is_asleep:
            device.fall_asleep(client, now)
            if process.state is Sleep.COMING:
                # It is back while the others wait for room.
                device.come_back(client, now)
                process.measure(measured=False)
            self.moving[process.number] = process
            self.storing.look_again()
        return self._clients.devices_of(process.clients)

    def gone(self, client: Client, device: Device) -> list[Device]:
        """A client is gone; on which other devices that may change something."""
        self.storing.sharing.gone(client)
        touched, process = self.relief.forget(client), client.process
        if process is None:
            return touched
        process.lose_client(client.number, device.uuid)
        there = self._on[device.uuid]
        del there[client.number]
        if not there:
            del self._on[device.uuid]
            self.relief.none_sleeps(device)
        if not process.clients:
            del self._processes[process.number]
            self._alarms.pop(process.number, None)
            self.moving.pop(process.number, None)
        if not self._processes:
            self._moments.clear()
            self.storing.none_sleeps()
        if process.is_asleep:
            self.storing.look_again()
        return touched + self._clients.devices_of(process.clients)

    def handle(self, event: SleepEvent, now: float) -> list[Device]:
        """What happened to a process, on which devices that may change something. IllegalEvent if it can't have."""
        process = self._processes.get(event.process)
        if process is None:
            raise IllegalEvent(f"process {event.process} has no clients that can sleep", event)
        if process.state not in _ALLOWED.get(type(event), Sleep):
            raise IllegalEvent(f"process {process.number} is {process.state.name.lower()}", event)
        match event:
            case SleepAsked():
                return self._ask(process, event, now)
            case FellAsleep():
                self._fall_asleep(process, now)
            case StayedAwake():
                self._stay_awake(process, event, now)
            case WakeWanted():
                self._want(process)
            case Woke():
                self._wake(process, now)
            case _:
                assert_never(event)
        self.storing.look_again()
        return self._clients.devices_of(process.clients)

    def look_again(self, client: Client, now: float) -> list[Device]:
        """Its terms changed; on which devices that may change something."""
        if client.process is None:
            return []
        self._rest(client.process)
        self._set_alarm(client.process, now)
        return self._clients.devices_of(client.process.clients)

    # What is to be done.

    @property
    def is_possible(self) -> bool:
        """Whether there are any that can sleep."""
        return bool(self._processes)

    @property
    def deadline(self) -> float | None:
        """When there is something to do if nothing happens before; None: never."""
        if not self._processes:
            return None
        alarm = self._moments[0][0] if self._moments else None
        moments = (alarm, self.storing.deadline, *self._still.moments())
        return min((moment for moment in moments if moment is not None), default=None)

    def plan(self, devices: Iterable[Device], now: float) -> tuple[list[Action], list[Device]]:
        """What to do, and on which devices there is something to plan because of that.

        ``devices``: where something changed.
        """
        actions: list[Action] = []
        if changed := self._still.find(now):
            self.storing.look_again()
        touched = [device for process in changed for device in self._clients.devices_of(process.clients)]
        devices = [*devices, *touched]
        for process in list(self._due(now)):
            clients, seconds = self._clients.of(process.clients), self._idle_seconds(process)
            since = idle_since(process, clients)
            if since + seconds * process.patience(grants(clients)) <= now and self._may_rest(process):
                touched += self._begin(process)
            else:
                self._set_alarm(process, since + seconds if since + seconds > now else now + seconds)
        if self.storing.lacks:
            # Who sleeps for that may be on any of them.
            devices = self._clients.devices
        for device in self.relief.concerned(devices):
            touched += self._relieve(device, now)
        for process in list(self.moving.values()):
            touched += self._go_on(process, actions, now)
        actions += self.storing.plan(now)
        for action in actions:
            self._still.tell(action, now)
        if self.storing.sharing.is_less_possible:
            touched += self._clients.devices
        return actions, touched

    # The rest is its own.

    def _ask(self, process: Process, event: SleepAsked, now: float) -> list[Device]:
        if reason := self.reasons.unwilling(process):
            raise IllegalEvent(reason, event)
        if process.state is Sleep.AWAKE:
            process.ask()
            if self._may_rest(process):
                return self._begin(process)
            self._set_alarm(process, now)
        return self._clients.devices_of(process.clients)

    def _fall_asleep(self, process: Process, now: float) -> None:
        """It was told to, or registered asleep."""
        wanted, clients = process.wanted, self._clients.of(process.clients)
        process.fall_asleep(now, waited=not is_idle(clients))
        process.lose_patience(1, grants(clients))
        for client, device in self._clients.members(process.clients):
            device.fall_asleep(client, now)
        if wanted:
            self._want(process)

    def _stay_awake(self, process: Process, event: StayedAwake, now: float) -> None:
        process.resist(event.reason, now, final=event.final)
        process.lose_patience(2, grants(self._clients.of(process.clients)))
        self._be_awake(process, now)

    def _want(self, process: Process) -> None:
        if process.want():
            for client in self._clients.of(process.clients):
                if not client.keeps_place:
                    client.keep_place(self._new_ticket())
            self.moving[process.number] = process

    def _wake(self, process: Process, now: float) -> None:
        process.woke(now)
        clients = self._clients.of(process.clients)
        # In vain, unless it waits for its turn anyway.
        process.lose_patience(1 if process.waited else 2, grants(clients))
        for client, device in self._clients.members(process.clients):
            device.wake(client, now)
        self._be_awake(process, now)

    def _be_awake(self, process: Process, now: float) -> None:
        process.be_awake()
        self.moving.pop(process.number, None)
        self._set_alarm(process, float("inf") if process.never else now + self._idle_seconds(process))

    def _due(self, now: float) -> Iterator[Process]:
        """Those that are awake, can sleep, and may have been idle for long enough."""
        while self._moments and self._moments[0][0] <= now:
            moment, number = heapq.heappop(self._moments)
            if self._alarms.get(number) != moment:
                continue
            process = self._processes[number]
            if process.state is Sleep.AWAKE and not process.never:
                yield process

    def _rest(self, process: Process) -> None:
        """Whether it sleeps though nobody needs what it has may be something else."""
        process.rest(rests=self._idle_seconds(process) < float("inf"))

    def _set_alarm(self, process: Process, moment: float) -> None:
        """Looks at it then, and not before."""
        self._alarms[process.number] = moment
        if moment < float("inf"):
            heapq.heappush(self._moments, (moment, process.number))

    def _idle_seconds(self, process: Process) -> float:
        """How long it is to be idle before it sleeps though nobody needs what it has, if it woke for good reason."""
        if process.asked:
            return REST_SECONDS
        seconds = [idle_seconds(client, self._after_seconds) for client in self._clients.of(process.clients)]
        return max(seconds, default=float("inf"))

    def _may_rest(self, process: Process) -> bool:
        """Whether it can be put to sleep though nobody needs what it has."""
        return is_idle(self._clients.of(process.clients)) and self.reasons.let_sleep(process)

    def _begin(self, process: Process) -> list[Device]:
        """Its memory is to leave."""
        process.leave()
        self.moving[process.number] = process
        return self._clients.devices_of(process.clients)

    def _go_on(self, process: Process, actions: list[Action], now: float) -> list[Device]:
        """The next step of one that is neither awake nor simply asleep."""
        match process.state:
            case Sleep.LEAVING if process.wanted or self.reasons.unable(process) or not self.relief.may_sleep(process):
                self._be_awake(process, now)
                return self._clients.devices_of(process.clients)
            case Sleep.LEAVING if all(map(is_out, self._clients.of(process.clients))):
                self._let_fall(process, actions)
            case Sleep.ASLEEP if not any(client.memory.away.goes_to for client in self._clients.of(process.clients)):
                del self.moving[process.number]
            case Sleep.LOADING if self.storing.is_back(process, actions) and self._may_come(process):
                return self._come(process, now)
            case Sleep.COMING if reason := self._kept_out(process, now):
                return self._stay_asleep(process, reason, now)
            case Sleep.COMING if all(client.memory.has_context for client in self._clients.of(process.clients)):
                if self._has_room(process, actions, now):
                    process.wake()
                    actions.append(Wake(process.number, tuple(process.clients)))
                    return self._clients.devices_of(process.clients)
            case _:
                pass
        return []

    def _let_fall(self, process: Process, actions: list[Action]) -> None:
        """Has one put to sleep whose memory is out, when NVML was asked how much its contexts take to come back."""
        members = self._clients.members(process.clients)
        unmeasured = [device for client, device in members if not client.memory.pinned_measured]
        unknown = [device for device in unmeasured if device.ledger.total_measured]
        if unknown and not process.measured:
            self._measure(process, unknown, actions)
        elif all(device.residency.checked for device in unknown):
            process.fall()
            actions.append(PutToSleep(process.number, tuple(process.clients)))

    def _measure(self, process: Process, devices: Iterable[Device], actions: list[Action]) -> None:
        process.measure(measured=True)
        for device in devices:
            device.residency.check(measured=False)
            actions.append(Measure(device.uuid))

    def _may_come(self, process: Process) -> bool:
        """Whether no gang is before it, nor another process on several devices comes back, if it is on several."""
        coming = (each for each in self.moving.values() if each.state is Sleep.COMING)
        may_come = len(process.clients) < 2 or all(len(each.clients) < 2 for each in coming)
        return may_come and not self.relief.comes_later(process)

    def _has_room(self, process: Process, actions: list[Action], now: float) -> bool:
        """Whether measurements show it that were made since it had room by what was known, with as much again as is
        assumed of each first context that is being made."""
        devices = [device for device in self._clients.devices_of(process.clients) if device.ledger.total_measured]
        if not process.measured:
            self._measure(process, devices, actions)
        unknown = [device for device in devices if device.residency.lacks_for_contexts(now)]
        for device in unknown:
            device.wake_at(now + REST_SECONDS)
        rooms = [device.residency for device in devices]
        return not unknown and all(each.checked and each.is_free_to_wake for each in rooms)

    def _come(self, process: Process, now: float) -> list[Device]:
        for client, device in self._clients.members(process.clients):
            device.come_back(client, now)
        if reason := self._kept_out(process, now):
            self._stay_asleep(process, reason, now)
            return []
        process.come()
        return self._clients.devices_of(process.clients)

    def _kept_out(self, process: Process, now: float) -> str:
        """Why one that comes back may keep no room: others have to end. Who asks on its only device keeps none."""
        is_several = len(process.clients) > 1
        members = self._clients.members(process.clients)
        reasons = (on.keeps_out(each, now) for each, on in members if is_several or each.is_coming_back)
        return next(filter(None, reasons), "")

    def _stay_asleep(self, process: Process, reason: str, now: float) -> list[Device]:
        process.wait_for_ends(reason)
        for client, device in self._clients.members(process.clients):
            device.fall_asleep(client, now)
        return self._clients.devices_of(process.clients)

    def _relieve(self, device: Device, now: float) -> list[Device]:
        """Puts a process of a device to sleep, if others need that."""
        there = self.on(device.uuid)
        if not there:
            return []
        chosen, touched = self.relief.choose(device, there.values(), now)
        if chosen is None:
            return touched
        clients = self._clients.of(chosen.clients)
        seconds = REST_SECONDS * (chosen.patience(grants(clients)) if is_idle(clients) else 1)
        moment = idle_since(chosen, clients) + seconds
        if moment > now:
            device.wake_at(moment)
            return touched
        return touched + self._begin(chosen)
