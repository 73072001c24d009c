"""Gangs: clients whose GPU work waits for each other. They get the locks of all their devices in one step, or none.

Who belongs together is said by keys (ties.py). The rules, which hold after every event for the members of a gang that
hold and wait as one:

- All of them hold, or none is a holder that was not asked to leave. So when one must leave, all are asked in the same
  step, and those that hold while another one does not are asked at once. But one by name may have begun to work before
  all were here: who holds keeps that until the others come in; and the first waits for them a moment before.
- When one waits all wait, with the earliest of their places in the order of waiting: who is idle is *summoned*. They
  are in line when all of them wait. The members on one device count as one there.
- A gang on several devices never holds one together with others. It is *next* when it is the first in line on all its
  devices. Then whoever holds them keeps its quantum, and when the last one has had it all are asked to leave at once.
  They come in together, when there is room for all of them and all their memory is there.
- Until it is next it is passed over, and until those who hold have had their quantum others may come in where there is
  room: on time that they *borrow* from the gang, for they have had theirs as soon as it can come in.
- The order of waiting is the same on all devices, and nobody holds one device while it waits for another: so no two
  gangs can wait for each other. Who is before a gang on one of its devices gets its turn as if there were no gangs.
- A gang is asked to leave before its quantum is over when all its members were idle of late and some block a waiter.
- Members on devices where everyone runs (policy ``off``) are by themselves. A gang that has no room on one device for
  all its members there, or too many of them, does not hold together anywhere. There is room where others can sleep for
  it, which they do when it would be next; there is none beside what others can't leave, nor while a member that holds
  waits for memory that only the others of them could leave.
- One that does not stop within the grace time may wait for work of the others: then they are in line without it, and
  leave a moment after they came in, or as soon as it has stopped, since else they could not stop without it. No
  compute limit keeps them out, nor a holder that does not stop either, where there is room beside it: it may be one
  that waits for theirs.
- A gang of which a user said how many processes it has gets nothing before all of them have come, and holds up nobody.
- It is told who it is (FormGang) whenever that changed, but not while some of it leave together.
- A holder that is lost, or was recorded by the scheduler before this one, may be one of a gang: while such a one is
  awaited, and shortly after, nobody leaves the devices of holders whose gang may lack members. One that does not hold
  and is gone may be back soon, too: so long the others are not in line, nor is one that comes back alone.
- Who is tied to nobody on this node is by itself, and nothing is planned for it but that wait for the others. While
  all its members are idle nothing is planned for a gang.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from nvshare.scheduler.core.actions import Action, ConfirmJoin, FormGang, LeaveGang, ReportMissing, TellWaiters
from nvshare.scheduler.core.clients import Clients, Member
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.events import ClientIdle, GangJoined, GangLeft
from nvshare.scheduler.core.gangs.as_one import renew, set_part
from nvshare.scheduler.core.gangs.belonging import Belonging
from nvshare.scheduler.core.records.client import Client, Unit
from nvshare.scheduler.core.records.gang import REJOIN_SECONDS, Gang, Phase, is_short
from nvshare.scheduler.core.snapshot import GangWait
from nvshare.scheduler.core.transitions import ClientState

IDLE_WORD_SECONDS: Final = 0.25
"""How old what a member said of its idleness may be, or twice the time between two such words if that is more: each
says it every 20 ms, and a thread that comes late on a busy machine is not to keep the gang busy."""

MOST_ROUNDS: Final = 32
"""How often the rules of gangs, lock and memory look at each other's answers to one event."""
AGAIN_SECONDS: Final = 0.1
"""When they do again where they did not agree in so many rounds: nobody waits for what was left over, nor the node for
the scheduler."""

HELPING_SECONDS: Final = 1.0
"""For how long members hold the lock whose work one that can't stop may wait for."""

MISSING_SECONDS: Final = 10.0
"""After so long it is said that clients wait because not all processes of their gang have come."""


class Gangs:
    """The gangs of all devices. What is illegal raises IllegalEvent and changes nothing."""

    def __init__(self, clients: Clients) -> None:
        """``clients``: all that are registered, as they are at any time."""
        self._clients = clients
        self._belonging = Belonging(clients)
        self._told: dict[int, tuple[Gang, tuple[int, ...]]] = {}
        """Who has which gang's page, and who was said to be that gang."""
        self._joining: dict[int, dict[str, int]] = {}
        """By client: the keys whose join is not confirmed, each with the last request."""
        self._awaited = 0
        self._frozen: dict[str, Device] = {}
        self._frozen_until = float("-inf")
        self.unsettled = 0
        """How often the rules of gangs, or all rules, did not agree in MOST_ROUNDS; none is to undo what another one
        does."""

    def note_unsettled(self) -> None:
        """All rules did not agree."""
        self.unsettled += 1

    def await_holders(self, awaited: int, now: float, lost_grant: int = 0) -> None:
        """A recorded holder is awaited, or is not any more; ``awaited``: how many are now, on all devices.

        ``lost_grant``: what a client holds that is about to be gone, and may come back.
        """
        self._awaited, self._frozen_until = awaited, now + REJOIN_SECONDS
        self._belonging.touch(self._frozen)
        for client, _ in self._clients.values() if lost_grant else ():
            if client.tied is not None and client.holds and client.grant == lost_grant:
                client.tied.lack()

    def handle(self, event: GangJoined | GangLeft, client: Client, _device: Device, now: float) -> bool:
        """To whom a client is tied changed; there may be something to do then."""
        match event:
            case GangJoined():
                self._belonging.join(event, client, now)
                self._joining.setdefault(event.client, {})[event.key] = event.request
            case GangLeft():
                self._belonging.leave(event, client)
            case _:
                assert_never(event)
        return True

    def idles(self, _event: ClientIdle, client: Client, _device: Device, now: float) -> bool:
        """A client said that it is idle; whether its gang may have to leave because of that."""
        client.idles(now)
        gang = client.gang
        if gang is None or not client.told:
            return False
        return all(member.idle_at >= now - gang.idle_seconds for member, _ in self._clients.members(gang.together))

    def asks(self, client: Client, device: Device, now: float) -> None:
        """A client wants the lock; it may have to wait for others that do not."""
        gang = client.tied
        if gang is not None and (not gang.is_lone or gang.expected or is_short(gang, now)):
            self._belonging.plan_for(gang)

    def gone(self, client: Client, device: Device, now: float) -> None:
        """A client is about to be gone."""
        if client.tied is not None:
            self._belonging.gone(client, now)
        self._told.pop(client.number, None)
        self._joining.pop(client.number, None)
        device.plan_no_more_for(client)

    def touch(self, device: Device, now: float) -> bool:
        """Whether gangs have a say in what is to be done on a device; then ``reconcile`` does it."""
        return bool(device.ganged or self._belonging.touched or device.lock.frozen or self._may_freeze(now))

    def reconcile(
        self, device: Device, now: float, new_grant: Callable[[], int], actions: list[Action]
    ) -> list[Device]:
        """Makes a device, and all that gangs connect with it, follow the rules again; returns them all."""
        devices = self._belonging.connected(device)
        self._belonging.touched.clear()
        actions += self._belonging.reports
        self._belonging.reports.clear()
        for each in devices:
            # What a gang is kept out by on one device is looked at before that device is.
            each.lock.look(now)
            self._freeze(each, now)
        if not any(self._settle(devices, now, new_grant, actions) for _ in range(MOST_ROUNDS)):
            self.unsettled += 1
            for each in devices:
                each.wake_at(now + AGAIN_SECONDS)
        if self._frozen and not self._awaited:
            for each in devices:
                if each.lock.frozen:
                    each.wake_at(self._frozen_until)
        for gang in self._belonging.tied_on(devices):
            if is_short(gang, now):
                self._clients[gang.members[0]][1].wake_at(gang.lost_at + REJOIN_SECONDS)
            self._report_missing(gang, now, actions)
        for gang in self._belonging.gangs_on(devices):
            for client, device in self._clients.members(gang.together) if gang.stuck else ():
                if client.state is ClientState.HOLDING:
                    device.wake_at(client.since + HELPING_SECONDS)
            self._belonging.rest(gang)
        return devices

    def _settle(self, devices: list[Device], now: float, new_grant: Callable[[], int], actions: list[Action]) -> bool:
        """Applies all rules once; whether they changed nothing that one of them goes by."""
        gangs = self._belonging.gangs_on(devices)
        before = self._seen(devices, gangs, actions)
        for gang in gangs:
            renew(gang, self._clients)
        for each in devices:
            self._let_loose(each, now, actions)
        summoned = [self._gather(gang, now, actions) for gang in gangs]
        for gang in gangs:
            self._form(gang, actions)
        self._admit([gang for gang in gangs if self._is_in_line(gang)], now, new_grant, actions)
        for each in devices:
            actions += each.reconcile(now, new_grant)
        for gang in gangs:
            self._tell(gang, now, actions)
        # What was asked for or granted may make more so, and what was found of the memory, and of what a turn is worth.
        return self._seen(devices, gangs, actions) == before and not any(summoned)

    def _seen(self, devices: list[Device], gangs: list[Gang], actions: list[Action]) -> object:
        """What the rules go by that they change themselves: of each device what its memory's plan found, and what is
        left for how much of the gangs' members, who may wait for more without it; and how far the gangs are."""
        sizes = [client.memory.movable_bytes for each in devices for client in self._clients.of(each.ganged)]
        memory = [(each.residency.answer, each.ledger.left_bytes) for each in devices]
        return len(actions), sizes, memory, [(gang.phase, gang.due_at) for gang in gangs]

    def wait(self, client: Client) -> GangWait | None:
        """What the gang of a client that waits, waits for; None: it has none, or does not wait."""
        if client.state is ClientState.WAITING and client.tied is not None and client.tied.expected:
            return GangWait(len(client.tied.members), "", 0, client.tied.come, client.tied.expected)
        if (gang := client.gang) is None or client.state is not ClientState.WAITING:
            return None
        members = self._clients.members(gang.together)
        late = next((each for each, _ in members if each.holds), None)
        if late is not None:
            return GangWait(len(members), "", late.number)
        for mate, device in members:
            if mate.silent:
                return GangWait(len(members), "", mate.number, silent=True)
            if device.residency.never_fits(mate) and not device.residency.fits_asleep(mate):
                return GangWait(len(members), device.uuid, mate.number, too_large=True)
        for unit, device in self._coming(gang).items():
            holders = [*device.lock.holders.staying(), *device.lock.holders.holding()]
            if holders:
                return GangWait(len(members), device.uuid, holders[0].number)
            if not device.lock.is_next(unit):
                return GangWait(len(members), device.uuid, 0)
        return None

    def _freeze(self, device: Device, now: float) -> None:
        """Nobody leaves for others while those who wait for its work may not be back, or not have said so."""
        frozen = self._may_freeze(now) and any(
            client.tied is not None and client.tied.may_lack for client in device.lock.holders.holding()
        )
        device.lock.freeze(frozen=frozen)
        self._frozen.pop(device.uuid, None)
        if frozen:
            self._frozen[device.uuid] = device

    def _may_freeze(self, now: float) -> bool:
        return (self._awaited > 0 or now < self._frozen_until) and self._belonging.are_there()

    # Who holds and waits as one.

    def _let_loose(self, device: Device, now: float, actions: list[Action]) -> None:
        """Those that hold and wait by themselves are in line by themselves, and are told."""
        for client, _ in self._clients.members(device.ganged):
            lone = client.tied is None or client.tied.is_lone
            if lone:
                set_part(client, device, None)
            if client.part is not None:
                continue
            lacks = client.tied is not None and client.tied.expected > 0
            short = is_short(client.tied, now)
            may_hold = device.lock.is_off or not lacks
            waits = client.state is ClientState.WAITING and may_hold and not short
            device.lock.turns.line_up(client, waits=waits)
            if client.state is ClientState.HOLDING and not may_hold:
                device.lock.revoke(client, now, actions)
            if client.state in (ClientState.LEAVING, ClientState.UNRESPONSIVE):
                continue
            if client.number in self._told:
                del self._told[client.number]
                actions.append(LeaveGang(client.number))
            self._confirm(client, actions)
            # Nothing more is to be done for it until it asks for the lock, or somebody joins or leaves it.
            if lone and (client.state is ClientState.IDLE or not (lacks or short)):
                device.plan_no_more_for(client)

    def _gather(self, gang: Gang, now: float, actions: list[Action]) -> bool:
        """All hold or none, and all wait or none; whether somebody was summoned."""
        members = self._clients.members(gang.together)
        holding = [(client, device) for client, device in members if client.state is ClientState.HOLDING]
        stuck = sum(client.state is ClientState.UNRESPONSIVE for client, _ in members)
        has_stopped = gang.stuck and not stuck
        gang.be_stuck(stuck=stuck > 0)
        leaves = any(client.state is ClientState.LEAVING for client, _ in members)
        lacking = leaves or (len(holding) + stuck < len(members) and (has_stopped or not gang.in_part))
        for client, device in holding:
            if lacking or (stuck and now >= client.since + HELPING_SECONDS):
                device.lock.revoke(client, now, actions)
        tickets = [client.ticket for client, _ in members if client.state is ClientState.WAITING]
        summoned = False
        for client, device in members if tickets else ():
            if client.state is ClientState.IDLE:
                device.summon(client, now)
                summoned = True
            if client.state is ClientState.WAITING and client.ticket != min(tickets):
                device.lock.turns.line_up(client.unit, waits=False)
                client.line_up(min(tickets))
        in_line = _can_be_in_line(members, in_part=gang.in_part) and not is_short(gang, now)
        for unit, device in {client.unit: device for client, device in members}.items():
            device.lock.turns.line_up(unit, waits=in_line and bool(unit.coming))
        return summoned

    def _form(self, gang: Gang, actions: list[Action]) -> None:
        """Tells the members who they are, and those that joined that it counts now."""
        states = {client.state for client, _ in self._clients.members(gang.together)}
        if not states or states & {ClientState.LEAVING, ClientState.UNRESPONSIVE}:
            return
        told = gang, gang.together
        if any(self._told.get(number) != told for number in gang.together):
            self._told |= dict.fromkeys(gang.together, told)
            actions.append(FormGang(gang.number, gang.together))
        for client, _ in self._clients.members(gang.together):
            self._confirm(client, actions)

    def _confirm(self, client: Client, actions: list[Action]) -> None:
        joining = self._joining.get(client.number)
        if not joining:
            return
        for key in [key for key in joining if not self._belonging.lacks(key)]:
            actions.append(ConfirmJoin(client.number, joining.pop(key)))

    # Who comes in, and who leaves.

    def _coming(self, gang: Gang) -> dict[Unit, Device]:
        """Its units that wait, each with its device."""
        members = self._clients.members(gang.together)
        return {client.unit: device for client, device in members if client.state is ClientState.WAITING}

    def _is_in_line(self, gang: Gang) -> bool:
        units = self._coming(gang)
        return gang.wide and bool(units) and all(unit in device.lock.turns for unit, device in units.items())

    def _admit(self, gangs: list[Gang], now: float, new_grant: Callable[[], int], actions: list[Action]) -> None:
        """Grants to the gangs on several devices that can come in, in their order, after those before them."""
        gangs.sort(key=lambda gang: (-gang.priority, next(iter(self._coming(gang))).ticket))
        for gang in gangs:
            may_come = all(device.lock.may_come(unit, asleep=True) for unit, device in self._coming(gang).items())
            gang.come_in(Phase.UNDECIDED if may_come else Phase.KEPT_OUT)
            if not may_come:
                gang.lack_sleep(lacks=False)
        for gang in gangs:
            units = self._coming(gang)
            for device in units.values():
                device.lock.admit(now, new_grant, actions)
            if not all(device.lock.is_next(unit) for unit, device in units.items()):
                if gang.phase is Phase.UNDECIDED:
                    if all(device.lock.is_next(unit, asleep=True) for unit, device in units.items()):
                        gang.lack_sleep(lacks=True)
                    gang.come_in(Phase.PASSED_OVER)
                continue
            due_at = max(device.lock.free_at(unit) for unit, device in units.items())
            gang.come_in(Phase.NEXT if now < due_at else Phase.DUE, due_at)
            may_grant = all(device.lock.may_grant(unit, now) for unit, device in units.items())
            if gang.phase is Phase.DUE and may_grant:
                gang.lack_sleep(lacks=False)
                for unit, device in units.items():
                    device.lock.grant(unit, now, new_grant, actions)

    def _tell(self, gang: Gang, now: float, actions: list[Action]) -> None:
        """Tells all members whether somebody waits for one of them; asks them to leave where all are idle then."""
        members = self._clients.members(gang.together)
        if any(client.state is not ClientState.HOLDING for client, _ in members):
            return
        blocked = [device.lock for client, device in members if client.number in device.lock.blocking.clients]
        waiters = max((len(lock.turns) for lock in blocked), default=0)
        idle_seconds = max((lock.blocking.idle_seconds for lock in blocked), default=0.0)
        gang.listen(max(IDLE_WORD_SECONDS, 2 * idle_seconds))
        if blocked and all(client.idle_at >= now - gang.idle_seconds for client, _ in members):
            for client, device in members:
                device.lock.revoke(client, now, actions)
            return
        for client, _ in members:
            if client.told is not bool(blocked):
                client.tell(leaves=bool(blocked), rests=client.told_to_rest)
                actions.append(TellWaiters(client.number, max(1, waiters) if blocked else 0, idle_seconds))

    def _report_missing(self, gang: Gang, now: float, actions: list[Action]) -> None:
        """Says once that some wait because others have not come."""
        if not gang.expected or gang.reported:
            return
        waiting = [member for member in self._clients.members(gang.members) if member[0].state is ClientState.WAITING]
        if not waiting:
            return
        since = min(client.since for client, _ in waiting)
        if now < since + MISSING_SECONDS:
            waiting[0][1].wake_at(since + MISSING_SECONDS)
            return
        gang.report()
        actions.append(ReportMissing(gang.members, gang.name, gang.come, gang.expected, now - since))


def _can_be_in_line(members: list[Member], *, in_part: bool) -> bool:
    states = {client.state for client, _ in members} - ({ClientState.HOLDING} if in_part else set())
    return ClientState.WAITING in states and states <= {ClientState.WAITING, ClientState.UNRESPONSIVE}
