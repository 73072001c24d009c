"""A node whose gangs are told step by step, and what the core answers, in words."""

from __future__ import annotations

from nvshare.scheduler.core.actions import (
    Action,
    ConfirmJoin,
    FormGang,
    Grant,
    Kill,
    LeaveGang,
    ReportMissing,
    ReportSize,
    ReportUnresponsive,
    Revoke,
    TellWaiters,
)
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    Event,
    GangJoined,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.settings import Settings, Unresponsive

GIB = 1 << 30


class Node:
    """A core with devices a, b and c of 16 GiB. A client is a letter for its device and a number: "a1" is on a."""

    def __init__(self, policy: Policy = Policy.EXCLUSIVE, unresponsive: Unresponsive = Unresponsive.REPORT) -> None:
        self.core = Core(Settings(policy=policy, assumed_pinned_bytes=0, unresponsive=unresponsive))
        self.now = 0.0
        self.grants: dict[str, int] = {}
        for device in "abc":
            self.core.handle(DeviceSeen(device, 16 * GIB), 0.0)

    def tell(self, event: Event) -> str:
        """What the core answers, in words."""
        return self._words(self.core.handle(event, self.now))

    def wait(self, moment: float) -> str:
        """The timer at this time, which is when the core wants it."""
        assert self.core.deadline() == moment
        self.now = moment
        return self._words(self.core.handle_timer(moment))

    def comes(self, *names: str, gib: int = 1, claimed: ClaimedState = ClaimedState.IDLE) -> None:
        for name in names:
            assert self.tell(ClientRegistered(number(name), name[0], gib * GIB, claimed)) == ""

    def joins(self, name: str, key: str = "k", size: int = 0) -> str:
        return self.tell(GangJoined(number(name), key, size, 1))

    def calls_itself(
        self, name: str, size: int = 0, process: int = 0, was_complete: bool = False, job: str = "job"
    ) -> str:
        """Joins by a name, of so many processes; it is a process of its own if none is said."""
        client = number(name)
        return self.tell(GangJoined(client, job, 0, 1, job, process or client, size, was_complete))

    def has_come(self, name: str) -> tuple[int, int]:
        """How many of its gang have come, of how many."""
        gang = self.core.client(number(name), self.now).gang
        assert gang is not None
        return gang.come, gang.expected

    def gang(self, *names: str, key: str = "k") -> None:
        """These come and join."""
        self.comes(*names)
        for name in names:
            self.joins(name, key, len(names))

    def asks(self, name: str) -> str:
        return self.tell(LockRequested(number(name)))

    def releases(self, name: str) -> str:
        return self.tell(LockReleased(number(name), self.grants[name]))

    def _words(self, actions: list[Action]) -> str:
        return ", ".join(self._text(action) for action in actions)

    def _text(self, action: Action) -> str:
        match action:
            case FormGang(_, members):
                return "gang " + "+".join(map(name_of, members))
            case Grant(client, grant):
                self.grants[name_of(client)] = grant
                return f"grant {name_of(client)}"
            case Revoke(client, grant):
                assert grant == self.grants.get(name_of(client), grant)
                return f"revoke {name_of(client)}"
            case TellWaiters(client, waiters, _):
                return f"waiters {name_of(client)} {waiters}"
            case LeaveGang(client):
                return f"no gang {name_of(client)}"
            case ConfirmJoin(client):
                return f"joined {name_of(client)}"
            case ReportUnresponsive(client):
                return f"unresponsive {name_of(client)}"
            case Kill(client):
                return f"kill {name_of(client)}"
            case ReportMissing(clients, name, come, expected, seconds):
                return f"{'+'.join(map(name_of, clients))} of {name}: {come} of {expected} after {seconds:g} s"
            case ReportSize(client, name, said, counts):
                return f"{name_of(client)} of {name} says {said}, not {counts}"
            case _:
                raise AssertionError(f"{action} is not expected")


def number(name: str) -> int:
    return ord(name[0]) * 100 + int(name[1:])


def name_of(client: int) -> str:
    return f"{chr(client // 100)}{client % 100}"
