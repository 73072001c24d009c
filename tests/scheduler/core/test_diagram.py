"""The diagram of a client's states, drawn from the table of transitions.

    python -m tests.scheduler.core.test_diagram

prints it, for the core's README.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from nvshare.scheduler.core.transitions import INITIAL, TRANSITIONS, ClientState, Step

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "src" / "nvshare" / "scheduler" / "core" / "README.md"
HOW_IT_WORKS = ROOT / "docs" / "how-it-works.md"
AT_ONCE = ("idle", "holding")
"""Asked for and granted in one step, so that nobody sees it wait."""
SLEEP = {("idle", "asleep"), ("waiting", "asleep"), ("asleep", "waking"), ("waking", "idle")}
"""The steps of whole processes (core/sleep)."""


def diagram() -> str:
    """The table as a Mermaid state diagram, without steps that change no state; a client may end in each of them."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.value}: registered {claimed.value}" for claimed, state in INITIAL.items()]
    for state, steps in TRANSITIONS.items():
        lines += [f"    {state.value} --> {to.value}: {step.value}" for step, to in steps.items() if to is not state]
    lines += [f"    {state.value} --> [*]: gone" for state in ClientState]
    return "\n".join(lines)


def test_every_state_can_be_left_and_reached() -> None:
    """No state is a trap, none is unreachable, and whoever holds can give back."""
    reached = set(INITIAL.values()) | {to for steps in TRANSITIONS.values() for to in steps.values()}
    assert reached == set(ClientState) == set(TRANSITIONS)
    for state in (ClientState.HOLDING, ClientState.LEAVING, ClientState.UNRESPONSIVE):
        assert TRANSITIONS[state][Step.RELEASED] is ClientState.IDLE


def test_the_page_shows_the_table() -> None:
    """The core's README.md has the diagram as it is drawn from the table today."""
    assert diagram() in PAGE.read_text()


def test_the_users_page_shows_the_table() -> None:
    """docs/how-it-works.md has in its own words what the status shows: each step to another state, and no other."""
    found = set(re.findall(r"^    (\w+) --> (\w+): ", HOW_IT_WORKS.read_text(), re.MULTILINE))
    steps = [(state, step, to) for state, steps in TRANSITIONS.items() for step, to in steps.items()]
    table = {(state, to) for state, step, to in steps if to is not state and step is not Step.FELL_ASLEEP}
    assert found == {(state.value, to.value) for state, to in table} | {AT_ONCE} | SLEEP


if __name__ == "__main__":
    print(diagram())
