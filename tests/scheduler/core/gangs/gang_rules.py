"""What holds of gangs after every answer of the core, by what can be seen of it: written a second time, over sets."""

from __future__ import annotations

from collections.abc import Mapping

from nvshare.scheduler.core.actions import Action, Grant
from nvshare.scheduler.core.snapshot import DeviceSnapshot, ShownState

RESTS = (ShownState.IDLE, ShownState.WAITING)


def gangs(keys: Mapping[int, set[str]]) -> list[set[int]]:
    """Who belongs together by these keys, by client: all that are tied, directly or not."""
    found: list[set[int]] = []
    for number, said in keys.items():
        mine = {number}
        for other in [each for each in found if any(keys[member] & said for member in each)]:
            mine |= other
            found.remove(other)
        found.append(mine)
    return found


def check(
    seen: tuple[DeviceSnapshot, ...],
    devices: Mapping[int, str],
    keys: Mapping[int, set[str]],
    actions: list[Action],
    incomplete: set[int],
    rejoined: set[str],
) -> None:
    """AssertionError where a rule does not hold; ``devices`` and ``keys`` are those of each client.

    ``incomplete``: clients of gangs with a size of which not all were ever there. ``rejoined``: devices where a holder
    is back that may not have said yet to whom it is tied.
    """
    states = {client.client: client.state for device in seen for client in device.clients}
    granted = {action.client for action in actions if isinstance(action, Grant)}
    hold = {number for number in incomplete if states[number] not in RESTS}
    assert not hold | granted & incomplete, f"{hold} have a device, but not all of their gang have come"
    found = gangs(keys)
    stuck_gangs = [gang for gang in found if any(states[number] is ShownState.UNRESPONSIVE for number in gang)]
    for gang in found:
        holding = {number for number in gang if states[number] is ShownState.HOLDING}
        # One that can't stop may need the others for that.
        stuck = {number for number in gang if states[number] is ShownState.UNRESPONSIVE}
        assert holding in (set(), gang - stuck), f"of gang {gang} only {holding} hold"
        assert granted & gang in (set(), gang - stuck), f"of gang {gang} only {granted & gang} were granted"
        places = {devices[number] for number in gang}
        if len(places) == 1:
            continue
        others = {number for number, device in devices.items() if device in places} - gang
        if stuck:
            # Who helps one that can't stop does so beside others that can't, and beside their helpers.
            others -= {number for number in others if states[number] is ShownState.UNRESPONSIVE}.union(*stuck_gangs)
        judged = {number for number in others if devices[number] not in rejoined}
        stay = {number for number in judged if states[number] is ShownState.HOLDING}
        leave = {number for number in others if states[number] not in RESTS}
        assert not (holding and stay), f"{stay} hold beside gang {gang}"
        # Those that held beside it before it was one may still leave.
        assert not (granted & gang and leave), f"gang {gang} was granted while {leave} held"
        runs = {devices[number] for number in gang if states[number] not in RESTS}
        beside = {number for number in granted & others if devices[number] in runs}
        assert not beside, f"{beside} were granted beside gang {gang}"
