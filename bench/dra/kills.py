"""Whether claims survive kill -9 of every part of a node that has to do with them.

    PYTHONPATH=src:. python -m bench.dra.kills [--waves N] [--claims N] [--kills N] [--seed N]

from the root of the project, where KUBECONFIG names a cluster of one node on which nothing of nvshare is, and that has
the image of this version. Pods come in waves, each with a claim of its own; together those of a wave claim more than
the GPUs have. A pod takes all that it claimed, uses it, ends, and is deleted. Meanwhile driver, scheduler, kubelet and
containerd are killed at random moments. One pod with a claim stays for all of the time.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from bench.dra.real_node import installed
from nvshare.deviceplugin.claims.quantity import whole
from tests.e2e.claims import (
    MIB,
    breaches,
    capacity_of,
    claiming,
    claims,
    devices,
    prepared,
    template,
    using_all,
)
from tests.e2e.kubectl import (
    PLUGIN,
    SCHEDULER,
    SYSTEM,
    TESTS,
    KubectlError,
    apply,
    eventually,
    get,
    kubectl,
    rolled_out,
    scheduler_status,
)
from tests.e2e.node import Node
from tests.e2e.programs import delete, events, is_untouched, phase, running, tell_to_end

PROGRAMS: Final = ("nvshare-device-plugin", "nvshare-scheduler", "kubelet", "containerd")
_SIZES: Final = (64, 128, 256)
"""Of claims, in MiB; the GPUs have 1024 and can be claimed nearly twice."""
_STAYING: Final = 64
_NAME_BYTES: Final = 15
"""Linux keeps so much of a program's name."""
_TOLD_TO_KUBELET: Final = ("sh", "-c", 'exec "$@" > /dev/termination-log', "sh")
"""What a program says is in its pod's status: logs lose lines when containerd dies."""
_CDI: Final = "/run/cdi"
"""``/var/run`` is a link, which leads to another place where the node is seen from."""
_DESCRIPTION: Final = "nvshare.com-claim-"
_LEFT_SECONDS: Final = 90.0
_WAVE_SECONDS: Final = 500.0
_LONGEST_PAUSE: Final = 8.0
"""Between two kills."""
_AWAY: Final = (KubectlError, subprocess.TimeoutExpired, json.JSONDecodeError)
"""What is asked while a part is down fails, or is cut off."""


Amounts = Mapping[str, Counter[str]]
"""Of each GPU by its name: ``memory`` in bytes, and ``shares``."""


@dataclass
class Seen:
    """What was looked at while claims came and went."""

    own: Amounts
    """What the GPUs have."""
    looks: Counter[str] = field(default_factory=Counter)
    """How often, by who was asked."""
    above: list[str] = field(default_factory=list)
    """Where more was given than there is."""
    most: Counter[str] = field(default_factory=Counter)
    """What was claimed of each GPU's memory when it was most."""

    def look(self) -> None:
        """What the API says is given of each GPU, and the scheduler if it answers."""
        given = _given()
        self._compare("the API", given)
        for name, amounts in given.items():
            self.most[name] = max(self.most[name], amounts["memory"])
        with suppress(*_AWAY):
            self._compare("the scheduler", _counted())
            self.above += breaches()

    def _compare(self, who: str, given: Amounts) -> None:
        self.looks[who] += 1
        self.above += [
            f"{who}: {given[name][what]} of {has} {what} of {name}"
            for name, own in self.own.items()
            for what, has in own.items()
            if given[name][what] > has
        ]


def _given() -> dict[str, Counter[str]]:
    """What claims have by the API: each counts once."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in claims():
        allocation = each.get("status", {}).get("allocation")
        for result in allocation["devices"]["results"] if allocation else ():
            found[result["device"]].update({what: whole(text) for what, text in result["consumedCapacity"].items()})
    return found


def _counted() -> dict[str, Counter[str]]:
    """What the scheduler counts."""
    told = {each["uuid"].lower(): each["claimed"] or {} for each in scheduler_status()["devices"]}
    return {
        name: Counter(memory=each.get("consumed_bytes", 0), shares=each.get("shares", 0)) for name, each in told.items()
    }


@dataclass
class Wave:
    """Pods that were made at once."""

    waiting: dict[str, int]
    """Those that have not ended, with what each claims, in MiB."""
    ran: int = 0
    wrong: list[str] = field(default_factory=list)
    """Those that ended with less than they claimed, or with contents that they had not written."""
    killed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def make(self) -> None:
        made = [
            claiming(name, [*_TOLD_TO_KUBELET, *using_all(1)], own=f"of-{size}") for name, size in self.waiting.items()
        ]
        for each in made:
            # A container that kubelet or containerd makes when it dies fails, whatever it is for.
            each["spec"]["restartPolicy"] = "OnFailure"
        apply(*made)

    def take_ended(self) -> None:
        """Deletes those that have ended, without waiting for it."""
        for each in get("pods")["items"]:
            name = each["metadata"]["name"]
            if name in self.waiting and each["status"]["phase"] == "Succeeded":
                told = each["status"]["containerStatuses"][0]["state"]["terminated"].get("message", "")
                if not _is_right(told, self.waiting[name]):
                    self.wrong.append(f"{name}: {told}")
                kubectl("delete", "pod", "--namespace", TESTS, "--wait=false", name)
                del self.waiting[name]
                self.ran += 1


def _is_right(told: str, mebibytes: int) -> bool:
    """Whether a program had all of its claim, and it kept its contents."""
    said = [json.loads(line) for line in told.splitlines()]
    return len(said) == 2 and said[0]["have"] == mebibytes and said[1]["right"]


def _kill_at_random(node: Node, wave: Wave, kills: int, dice: random.Random) -> None:
    """Each program so often, in any order. One that Kubernetes keeps down after a death is waited for."""
    programs = [*PROGRAMS] * kills
    dice.shuffle(programs)
    for program in programs:
        time.sleep(dice.uniform(0.0, _LONGEST_PAUSE))
        eventually(f"{program} runs", lambda program=program: _runs(node, program), 120)
        node.kill(program)
        wave.killed[program] += 1


def _runs(node: Node, program: str) -> bool:
    return node.started_at(program[:_NAME_BYTES]).strip() not in {"", "[]"}


def _run(node: Node, wave: Wave, kills: int, seen: Seen, dice: random.Random) -> None:
    """Until all of the wave has gone, and what it left would have been seen."""
    begin = time.monotonic()
    wave.make()
    killer = threading.Thread(target=_kill_at_random, args=(node, wave, kills, dice), daemon=True)
    killer.start()
    while (wave.waiting or killer.is_alive()) and time.monotonic() < begin + _WAVE_SECONDS:
        for act in (seen.look, wave.take_ended):
            with suppress(*_AWAY):
                act()
    killer.join()
    wave.seconds = time.monotonic() - begin


def _left(node: Node) -> dict[str, int]:
    """What there is of claims: objects, records, descriptions for the runtime, and what the scheduler counts."""
    with suppress(*_AWAY):
        counted = _counted().values()
        return {
            "claims": len(claims()),
            "records": len(prepared(node)),
            "CDI files": sum(name.startswith(_DESCRIPTION) for name in node.names(_CDI, ".json")),
            "shares": sum(amounts["shares"] for amounts in counted),
            "MiB": sum(amounts["memory"] for amounts in counted) // MIB,
        }
    return {}


def _of_one(mebibytes: int) -> dict[str, int]:
    return {"claims": 1, "records": 1, "CDI files": 1, "shares": 1, "MiB": mebibytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--waves", type=int, default=4)
    parser.add_argument("--claims", type=int, default=25, help="of each wave")
    parser.add_argument("--kills", type=int, default=2, help="of each program in each wave")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with installed("virtualDevices=20") as node:
        measure(node, arguments)


def measure(node: Node, arguments: argparse.Namespace) -> None:
    """Shows each wave when it is over."""
    dice = random.Random(arguments.seed)
    apply(*(template(f"of-{size}", size) for size in _SIZES))
    apply(claiming("stays", using_all(until_told=True), own=f"of-{_STAYING}"))
    stays = running("stays")
    own = {each["name"]: Counter({what: capacity_of(each, what) for what in each["capacity"]}) for each in devices()}
    seen = Seen(own)
    print(f"| wave | claims | MiB | ran | wrong | seconds | {' | '.join(PROGRAMS)} | left |", flush=True)
    print("|---" * (7 + len(PROGRAMS)) + "|", flush=True)
    for number in range(arguments.waves):
        wave = Wave({f"of-{number}-{place}": dice.choice(_SIZES) for place in range(arguments.claims)})
        size = sum(wave.waiting.values())
        _run(node, wave, arguments.kills, seen, dice)
        left = _waited_for(node, _of_one(_STAYING))
        killed = " | ".join(str(wave.killed[each]) for each in PROGRAMS)
        ran = f"{wave.ran} | {len(wave.wrong)} | {wave.seconds:.0f}"
        print(
            f"| {number + 1} | {arguments.claims} | {size} | {ran} | {killed} | {left} |",
            *wave.wrong,
            sep="\n",
            flush=True,
        )
        # What died often Kubernetes would keep down for minutes, and nothing would be prepared meanwhile.
        kubectl("rollout", "restart", "--namespace", SYSTEM, PLUGIN, SCHEDULER)
        rolled_out()
    print(f"looks: {dict(seen.looks)}; above what there is: {len(seen.above)}", *seen.above, sep="\n")
    for name, has in own.items():
        print(f"{name}: {seen.most[name] // MIB} of {has['memory'] // MIB} MiB were claimed at the most")
    print(f"the one that stays is untouched: {is_untouched(stays)}; it is told to end")
    tell_to_end("stays")
    eventually("it ends", lambda: phase("stays") == "Succeeded", 60)
    print(f"its contents are right: {events('stays')[-1].get('right', False)}")
    delete("stays")
    print(f"left: {_waited_for(node, dict.fromkeys(_of_one(0), 0))}", flush=True)


def _waited_for(node: Node, wanted: dict[str, int]) -> dict[str, int]:
    """What is left once it is as it should be, or after the time in which it should be."""
    with suppress(AssertionError):
        eventually("nothing else is left", lambda: _left(node) == wanted, _LEFT_SECONDS)
    return _left(node)


if __name__ == "__main__":
    main()
