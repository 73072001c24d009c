"""How long a turn is beside programs that ask for much weight, or of which many ask for little.

Usage, as root: ``python -m bench.weights [QUANTUM]``, in seconds (1). A real scheduler process without bursts; the
clients are real processes of several users. Prints how long the turns of one of them were: from LOCK_OK to DROP_LOCK
while all others wait.
"""

from __future__ import annotations

import select
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.handover import frames
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.real_user import as_real_user
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler, WireClient

TURNS: Final = 3
ROOT, ALICE, BOB = 0, 1000, 1001


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many processes of a user."""

    user: int
    weight: float = 1.0
    """What each asks for."""
    count: int = 1
    apart: bool = True
    """Each is in a container of its own."""


SITUATIONS: Final[dict[str, tuple[Crowd, Crowd]]] = {
    "one beside one": (Crowd(ALICE), Crowd(BOB)),
    "one of weight 1000 beside one of weight 0.01": (Crowd(ALICE, 1000), Crowd(BOB, 0.01)),
    "the same, both root's": (Crowd(ROOT, 1000), Crowd(ROOT, 0.01)),
    "one beside 128 of weight 0.01": (Crowd(ALICE), Crowd(BOB, 0.01, 128)),
    "one beside 128 of weight 0.01 in one container": (Crowd(ALICE), Crowd(BOB, 0.01, 128, apart=False)),
    "the same, the 128 root's": (Crowd(ALICE), Crowd(ROOT, 0.01, 128, apart=False)),
}


def _come(scheduler: Scheduler, crowd: Crowd) -> list[WireClient]:
    clients = scheduler.clients_of_others(crowd.count, 1, before=as_real_user(crowd.user) if crowd.user else ())
    for number, client in enumerate(clients):
        name = f"w{crowd.weight:g}-{number if crowd.apart else ''}"
        client.register()
        client.send(wire.Terms(container=name, weight_thousandths=round(1000 * crowd.weight)))
    return clients


def _turns(scheduler: Scheduler, first: WireClient, others: list[WireClient], quantum: float) -> list[float]:
    """The seconds of some turns of the first one; the others give their locks back at once."""
    turns: list[float] = []
    while len(turns) < TURNS:
        first.send(wire.ReqLock())
        grant = _next(first, wire.LockOk, quantum).grant
        began = time.monotonic()
        for client in others:
            client.send(wire.ReqLock())
        poll_until(lambda: "idle" not in scheduler.states().values(), "all others wait", TIMEOUT_SECONDS)
        _next(first, wire.DropLock, quantum)
        turns.append(time.monotonic() - began)
        first.send(wire.LockReleased(grant))
        _pass_on(others)
    return turns


def _pass_on(others: list[WireClient]) -> None:
    """Each gets the lock, in whatever order, and gives it back."""
    left = {client.raw.socket: client for client in others}
    while left:
        for end in select.select(list(left), [], [], TIMEOUT_SECONDS)[0]:
            for frame in frames(left[end]):
                if isinstance(frame, wire.LockOk):
                    left.pop(end).send(wire.LockReleased(frame.grant))


def _next(client: WireClient, kind: type[wire.LockOk | wire.DropLock], quantum: float) -> wire.LockOk | wire.DropLock:
    """The next frame of this kind; what comes before it says who waits."""
    while not isinstance(frame := client.receive(20 * quantum + TIMEOUT_SECONDS), kind):
        pass
    return frame


def main() -> None:
    """Prints the figures."""
    quantum = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    print(f"quantum {quantum:g} s; turns in seconds")
    for what, (one, crowd) in SITUATIONS.items():
        with (
            tempfile.TemporaryDirectory(prefix="nvshare-") as folder,
            Scheduler(
                Path(folder) / "run", "--policy", "exclusive", "--burst", "0", "--quantum", f"{quantum:g}"
            ) as scheduler,
        ):
            Path(folder).chmod(0o755)
            [first] = _come(scheduler, one)
            turns = _turns(scheduler, first, _come(scheduler, crowd), quantum)
        print(f"{what}: {', '.join(f'{each:.2f}' for each in turns)}", flush=True)


if __name__ == "__main__":
    main()
