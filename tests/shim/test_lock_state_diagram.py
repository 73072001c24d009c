"""The diagram of a client's lock, drawn from what lock_state.c does in every state.

    python -m tests.shim.test_lock_state_diagram

prints it, for the client's README.md.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from tests.shim.lock_state_model import Event, IllegalEventError, Link, Lock, LockState, OnMissing

PAGE = Path(__file__).parents[2] / "src" / "nvshare" / "shim" / "csrc" / "client" / "README.md"


@dataclass(frozen=True, slots=True)
class Case:
    """One event under one condition; ``label`` is what the diagram says of it."""

    label: str
    event: Event
    fields: dict[str, int | bool] = field(default_factory=dict)
    link: Link = Link.UP
    on_missing: OnMissing = OnMissing.WAIT
    before: dict[str, int | bool] = field(default_factory=dict)
    """Fields of the state when the event comes."""


PLAIN = [Case(event.name.lower(), event) for event in (Event.WANTED, Event.WAITERS, Event.TIMER)]
FRAMES = [Case(event.name, event) for event in (Event.LOCK_OK, Event.DROP_LOCK)]
LOSSES = [Case(event.name.lower().replace("_", " "), event) for event in (Event.DISCONNECTED, Event.BAD_FRAME)]
CASES = [
    *PLAIN,
    *FRAMES,
    *LOSSES,
    Case("idle while others wait", Event.LOOKED, before={"gives_way": True, "completed": True}),
    Case("drained", Event.DRAINED),
    Case("drained, threads wait", Event.DRAINED, {"waiting": True}),
    Case("drained, no connection", Event.DRAINED, link=Link.DOWN),
    Case("put off", Event.PUT_OFF),
    Case("tried again", Event.TIMER, before={"drain_at": 0, "report": wire.Drain.PUT_OFF}),
    Case("no scheduler, ON_MISSING=run", Event.CONNECT_FAILED, link=Link.CONNECTING, on_missing=OnMissing.RUN),
    Case("no scheduler, ON_MISSING=fail", Event.CONNECT_FAILED, link=Link.CONNECTING, on_missing=OnMissing.FAIL),
]


def after(lock: Lock, case: Case) -> Lock:
    """The lock's state after the case; the same where nothing changes or the event is illegal."""
    state = LockState(case.on_missing)
    state.raw.link, state.raw.lock, state.raw.grant = case.link, lock, 3
    for name, value in case.before.items():
        setattr(state.raw, name, value)
    fields = dict(case.fields)
    if case.event in (Event.LOCK_OK, Event.DROP_LOCK):
        fields["grant"] = 3
    with suppress(IllegalEventError):
        state.handle(case.event, **fields)
    return state.lock


def diagram() -> str:
    """All changes of the lock's state as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {LockState().lock.name.lower()}"]
    for lock, case in itertools.product(Lock, CASES):
        if (to := after(lock, case)) is not lock:
            lines.append(f"    {lock.name.lower()} --> {to.name.lower()}: {case.label}")
    return "\n".join(lines)


def test_the_page_shows_the_table() -> None:
    """The client's README.md has the diagram as lock_state.c behaves today."""
    assert diagram() in PAGE.read_text()


if __name__ == "__main__":
    print(diagram())
