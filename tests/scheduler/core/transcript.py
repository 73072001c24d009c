"""Feeds a transcript, which is a text, to the core and compares every answer.

One line is one event: its time, what happened, and after ``->`` what the core must answer (nothing: no action).
Clients are capital letters, sizes are GiB, grants are numbers below 65. A client releases the grant that it was given
last unless the line says which; ``of`` is the device's memory as the client says it::

    0   device 16
    0   A comes 12        -> grant A
    5   B asks            -> waiters A 1
    30  timer             -> revoke A
    30  A releases        -> grant B
    31  A releases 1      -> illegal: A is idle
    32  C comes 4 native of 16 waiting

A client is in a container of its own until ``A is in box`` says in which. ``A weighs 2``, ``A is high``, ``A at most
30%`` and ``A without limit`` set the terms of its container.

``recorded 7`` is a holder of the scheduler before, ``died 7`` its end, and ``A comes 12 holding 7 was 7`` its return; a
client that is ``doubted`` has claimed to hold before, without a record.

``timer`` also demands that the core wanted to be woken at exactly that time, and every other line that it did not want
to be woken before; ``late timer`` comes when the deadline has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nvshare.scheduler.core.actions import Action, Grant, Kill, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    DeviceForgotten,
    DeviceSeen,
    Event,
    FootprintChanged,
    HolderDied,
    HolderRecorded,
    LockReleased,
    LockRequested,
    PinnedAssumed,
    PinnedMeasured,
    Policy,
    PolicySet,
    QuantumSet,
    TermsSet,
)
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.terms import Priority, Terms

DEVICE = "GPU-a"
GIB = 1 << 30


@dataclass(slots=True)
class Told:
    """What the lines before said."""

    grants: dict[int, int] = field(default_factory=dict)
    """The last one of each client."""
    containers: dict[str, str] = field(default_factory=dict)
    """By client."""
    terms: dict[str, Terms] = field(default_factory=dict)
    """By container."""


def replay(
    transcript: str,
    policy: Policy = Policy.EXCLUSIVE,
    *,
    assumed_pinned_bytes: int = 0,
    unresponsive: Unresponsive = Unresponsive.REPORT,
    floor: float = 0.05,
    burst_seconds: float = 0.0,
) -> Core:
    """Feeds the transcript to a core and returns it: quantum 30 s, grace time 10 s."""
    settings = Settings(
        policy=policy,
        assumed_pinned_bytes=assumed_pinned_bytes,
        unresponsive=unresponsive,
        floor=floor,
        burst_seconds=burst_seconds,
    )
    core = Core(settings)
    told = Told()
    for line in filter(None, map(str.strip, transcript.splitlines())):
        said, _, expected = line.partition("->")
        time, *words = said.split()
        answer = _answer(core, words, float(time), told, line)
        assert answer == expected.strip(), f"{line!r} was answered with {answer!r}"
    return core


def number(name: str) -> int:
    """The client number that a name stands for."""
    return ord(name)


def _answer(core: Core, words: list[str], now: float, told: Told, line: str) -> str:
    deadline = core.deadline()
    match words:
        case ["timer"]:
            assert deadline == now, f"{line!r}: the core's deadline is {deadline}"
            actions = core.handle_timer(now)
        case ["late", "timer"]:
            assert deadline is not None
            assert deadline < now
            actions = core.handle_timer(now)
        case _:
            assert deadline is None or deadline >= now, f"{line!r}: the core wanted to be woken at {deadline}"
            try:
                actions = core.handle(_event(words, told), now)
            except IllegalEvent as error:
                return "illegal: " + " ".join(map(_name_in_text, error.state.removeprefix("client ").split()))
    for action in actions:
        if isinstance(action, Grant):
            told.grants[action.client] = action.grant
    return ", ".join(_text(action, told.grants) for action in actions)


def _event(words: list[str], told: Told) -> Event:
    match words:
        case [("device" | "forget" | "policy" | "quantum" | "recorded" | "died"), *_]:
            return _of_device(words)
        case [_, ("is" | "weighs" | "without" | "at"), *_]:
            return _of_terms(words, told)
        case _:
            return _of_client(words, told.grants)


def _of_device(words: list[str]) -> Event:
    match words:
        case ["device", *rest]:
            return _device(rest)
        case ["forget", "device"]:
            return DeviceForgotten(DEVICE)
        case ["policy", policy]:
            return PolicySet(Policy(policy))
        case ["quantum", seconds]:
            return QuantumSet(float(seconds))
        case ["recorded", grant]:
            return HolderRecorded(DEVICE, int(grant))
        case ["died", grant]:
            return HolderDied(int(grant))
        case _:
            raise AssertionError(f"not a line of a transcript: {words}")


def _of_terms(words: list[str], told: Told) -> Event:
    match words:
        case [name, "is", "in", container]:
            told.containers[name] = container
            return ContainerFound(number(name), container, told.terms.setdefault(container, Terms()))
        case [name, "weighs", weight]:
            return _terms(name, told, lambda terms: replace(terms, weight=float(weight)))
        case [name, "without", "limit"]:
            return _terms(name, told, lambda terms: replace(terms, compute_limit=None))
        case [name, "is", priority]:
            return _terms(name, told, lambda terms: replace(terms, priority=Priority[priority.upper()]))
        case [name, "at", "most", share]:
            return _terms(name, told, lambda terms: replace(terms, compute_limit=float(share.rstrip("%")) / 100))
        case _:
            raise AssertionError(f"not a line of a transcript: {words}")


def _of_client(words: list[str], grants: dict[int, int]) -> Event:
    match words:
        case [name, "comes", size, *claim]:
            return _registration(name, size, claim, grants)
        case [name, "asks"]:
            return LockRequested(number(name))
        case [name, "releases"]:
            return LockReleased(number(name), grants[number(name)])
        case [name, "releases", grant]:
            return LockReleased(number(name), int(grant))
        case [name, "has", size]:
            return FootprintChanged(number(name), _bytes(size))
        case [name, "pins", size]:
            return PinnedMeasured(number(name), _bytes(size))
        case [name, "assumed", size]:
            return PinnedAssumed(number(name), _bytes(size))
        case [name, "goes"]:
            return ClientGone(number(name))
        case _:
            raise AssertionError(f"not a line of a transcript: {words}")


def _terms(name: str, told: Told, change: Callable[[Terms], Terms]) -> Event:
    """The terms of a client's container change. The container of one that is in none gets the client's name."""
    is_known = name in told.containers
    container = told.containers.setdefault(name, name)
    told.terms[container] = change(told.terms.get(container, Terms()))
    if is_known:
        return TermsSet(container, told.terms[container])
    return ContainerFound(number(name), container, told.terms[container])


def _device(words: list[str]) -> DeviceSeen:
    match words:
        case [total]:
            return DeviceSeen(DEVICE, _bytes(total))
        case [total, "foreign", foreign]:
            return DeviceSeen(DEVICE, _bytes(total), _bytes(foreign))
        case _:
            raise AssertionError(f"not a device: {words}")


def _registration(name: str, size: str, claim: list[str], grants: dict[int, int]) -> ClientRegistered:
    footprint = None if size == "?" else _bytes(size)
    event = ClientRegistered(number(name), DEVICE, footprint, ClaimedState.IDLE)
    while claim:
        match claim:
            case ["native", *claim]:
                event = replace(event, backend=Backend.NATIVE)
            case ["of", gib, *claim]:
                event = replace(event, device_bytes=_bytes(gib))
            case ["waiting", *claim]:
                event = replace(event, claimed=ClaimedState.WAITING)
            case [("holding" | "draining") as state, grant, *claim]:
                grants[number(name)] = int(grant)
                event = replace(event, claimed=ClaimedState(state), grant=int(grant))
            case ["was", grant, *claim]:
                event = replace(event, recorded_grant=int(grant))
            case ["doubted", *claim]:
                event = replace(event, doubted=True)
            case _:
                raise AssertionError(f"not a claim: {claim}")
    return event


def _bytes(gib: str) -> int:
    return int(float(gib) * GIB)


def _text(action: Action, grants: dict[int, int]) -> str:
    match action:
        case Grant(client):
            return f"grant {chr(client)}"
        case Revoke(client, grant):
            assert grant == grants[client], f"{action} names another grant than the last one, {grants[client]}"
            return f"revoke {chr(client)}"
        case TellWaiters(client, waiters, _):
            return f"waiters {chr(client)} {waiters}"
        case ReportUnresponsive(client, grant, overdue_seconds):
            assert grant == grants[client], f"{action} names another grant than the last one, {grants[client]}"
            return f"unresponsive {chr(client)} {overdue_seconds:g}"
        case Kill(client, grant):
            assert grant == grants[client], f"{action} names another grant than the last one, {grants[client]}"
            return f"kill {chr(client)}"
        case _:
            raise AssertionError(f"{action} though nothing swaps")


def _name_in_text(word: str) -> str:
    return chr(int(word)) if word.isdigit() and ord("A") <= int(word) <= ord("Z") else word
