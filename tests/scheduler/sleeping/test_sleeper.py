"""The way of a sleeper, with a driver that says what a test wants."""

from __future__ import annotations

import pytest

from nvshare.scheduler.sleeping.sleeper import (
    ILLEGAL_STATE,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_SUPPORTED,
    OPERATING_SYSTEM,
    End,
    Goal,
    State,
    reach,
)

OUT_OF_MEMORY = 2
_AFTER = {
    ("lock", State.RUNNING): State.LOCKED,
    ("checkpoint", State.LOCKED): State.CHECKPOINTED,
    ("restore", State.CHECKPOINTED): State.LOCKED,
    ("unlock", State.LOCKED): State.RUNNING,
}


class FakeDriver:
    """One process, in a state; ``fails``: what the driver answers to a step instead of taking it.

    ``looks``: how often it can be looked at.
    """

    def __init__(self, state: State, fails: dict[str, int], looks: int = 100) -> None:
        self._state = state
        self._fails = fails
        self._looks = looks
        self.taken: list[str] = []

    def state(self, pid: int) -> tuple[int, State]:
        """See ``Driver``."""
        assert pid == 1
        self._looks -= 1
        return self._fails.get("state", 0) if self._looks >= 0 else OPERATING_SYSTEM, self._state

    def take(self, step: str, pid: int) -> int:
        """See ``Driver``."""
        assert pid == 1
        self.taken.append(step)
        if step in self._fails:
            return self._fails[step]
        if (step, self._state) not in _AFTER:
            return ILLEGAL_STATE
        self._state = _AFTER[step, self._state]
        return 0


GOOD = {
    (Goal.ASLEEP, State.RUNNING): (End.ASLEEP, ["lock", "checkpoint"]),
    (Goal.ASLEEP, State.LOCKED): (End.ASLEEP, ["checkpoint"]),
    (Goal.ASLEEP, State.CHECKPOINTED): (End.ASLEEP, []),
    (Goal.AWAKE, State.RUNNING): (End.AWAKE, []),
    (Goal.AWAKE, State.LOCKED): (End.AWAKE, ["unlock"]),
    (Goal.AWAKE, State.CHECKPOINTED): (End.AWAKE, ["restore", "unlock"]),
    (Goal.SETTLED, State.RUNNING): (End.AWAKE, []),
    (Goal.SETTLED, State.LOCKED): (End.AWAKE, ["unlock"]),
    (Goal.SETTLED, State.CHECKPOINTED): (End.ASLEEP, []),
    (Goal.ASLEEP, State.FAILED): (End.LOST, []),
    (Goal.AWAKE, State.FAILED): (End.LOST, []),
    (Goal.SETTLED, State.FAILED): (End.LOST, []),
}


@pytest.mark.parametrize(("goal", "state"), GOOD, ids=str)
def test_from_everywhere(goal: Goal, state: State) -> None:
    """Wherever the sleeper before it ended."""
    driver = FakeDriver(state, {})
    assert (reach(driver, 1, goal), driver.taken) == ((GOOD[goal, state][0], "-", 0), GOOD[goal, state][1])


@pytest.mark.parametrize(
    ("goal", "fails", "end", "taken"),
    [
        (Goal.ASLEEP, {"lock": NOT_READY}, (End.AWAKE, "lock", NOT_READY), ["lock"]),
        (
            Goal.ASLEEP,
            {"checkpoint": NOT_SUPPORTED},
            (End.AWAKE, "checkpoint", NOT_SUPPORTED),
            ["lock", "checkpoint", "unlock"],
        ),
        (
            Goal.ASLEEP,
            {"checkpoint": NOT_SUPPORTED, "unlock": OPERATING_SYSTEM},
            (End.LOST, "unlock", OPERATING_SYSTEM),
            ["lock", "checkpoint", "unlock"],
        ),
        (Goal.ASLEEP, {"state": OPERATING_SYSTEM}, (End.UNKNOWN, "state", OPERATING_SYSTEM), []),
        (Goal.ASLEEP, {"state": NOT_INITIALIZED}, (End.AWAKE, "state", NOT_INITIALIZED), []),
        (Goal.ASLEEP, {"lock": ILLEGAL_STATE}, (End.AWAKE, "-", 0), ["lock"] * 8),
    ],
    ids=["lock", "checkpoint", "both", "state", "no context", "somebody else"],
)
def test_what_fails_on_the_way_to_sleep(
    goal: Goal, fails: dict[str, int], end: tuple[End, str, int], taken: list[str]
) -> None:
    """It is taken back, where it can be."""
    driver = FakeDriver(State.RUNNING, fails)
    assert (reach(driver, 1, goal), driver.taken) == (end, taken)


@pytest.mark.parametrize("taken", [["lock"], ["lock", "checkpoint"]])
def test_what_it_did_can_not_be_seen(taken: list[str]) -> None:
    """It says how far it was: nobody is to take the process for one that runs."""
    driver = FakeDriver(State.RUNNING, {}, looks=len(taken))
    assert reach(driver, 1, Goal.ASLEEP) == (End.UNKNOWN, taken[-1], OPERATING_SYSTEM)
    assert driver.taken == taken


@pytest.mark.parametrize(
    ("fails", "end"),
    [
        ({"restore": OUT_OF_MEMORY}, (End.LOST, "restore", OUT_OF_MEMORY)),
        ({"unlock": OPERATING_SYSTEM}, (End.LOST, "unlock", OPERATING_SYSTEM)),
        ({"state": OPERATING_SYSTEM}, (End.UNKNOWN, "state", OPERATING_SYSTEM)),
    ],
    ids=["restore", "unlock", "state"],
)
def test_what_fails_on_the_way_back(fails: dict[str, int], end: tuple[End, str, int]) -> None:
    """The driver does not get it back."""
    assert reach(FakeDriver(State.CHECKPOINTED, fails), 1, Goal.AWAKE) == end
