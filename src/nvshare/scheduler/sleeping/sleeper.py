"""The sleeper: a program that brings one process to a goal by the driver's checkpoint, says what came of it, and ends.

There is one for each process, because a call takes as long as its target stands still, or for a minute when that is
killed meanwhile. It has no context, and does not even call cuInit, so nothing of it is on a device. It imports nothing
of nvshare: so it starts in 20 ms without the installed packages (``python -I -S``), and a program waits for it.

The driver has the steps taken by a thread of the target itself, to their end. So this program may be killed at any
time: the next one looks how far the target is, and a look waits for the end of a step.

The target must be the caller's own: of its user, or the caller is root with the capabilities SYS_PTRACE and
DAC_OVERRIDE, of which it needs none for targets of root that have no more capabilities than it has.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from enum import Enum
from typing import Any, Final, Protocol

_PR_SET_PDEATHSIG = 1
"""Of the kernel's linux/prctl.h."""
_LOCK_MILLISECONDS = 5000
"""For what the target has submitted. Its memory is out, so mostly nothing runs."""
_MOST_STEPS = 8
"""More than there are on any way: somebody else takes steps of this process, too."""

SUCCESS: Final = 0
NOT_INITIALIZED: Final = 3
OPERATING_SYSTEM: Final = 304
"""It is no process, or not one that the caller may look into."""
ILLEGAL_STATE: Final = 401
NOT_READY: Final = 600
NOT_SUPPORTED: Final = 801


class State(Enum):
    """CUprocessState."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3


class Goal(Enum):
    """What becomes of the target."""

    ASLEEP = "asleep"
    AWAKE = "awake"
    SETTLED = "settled"
    """One of these: what is only locked is unlocked."""


class End(Enum):
    """What became of it."""

    ASLEEP = "asleep"
    AWAKE = "awake"
    LOST = "lost"
    """The driver does not get it back: it is checkpointed for good."""
    UNKNOWN = "unknown"
    """It can't be looked at; most likely it has ended."""
    UNABLE = "unable"
    """There is no driver here that has checkpoints."""


class Driver(Protocol):
    """The driver's calls; each answers a number of CUresult."""

    def state(self, pid: int) -> tuple[int, State]:
        """How far a process is; that counts only if the result is 0."""

    def take(self, step: str, pid: int) -> int:
        """Takes one of the steps ``lock``, ``checkpoint``, ``restore``, ``unlock``."""


WAYS: Final = {
    Goal.ASLEEP: {State.RUNNING: "lock", State.LOCKED: "checkpoint"},
    Goal.AWAKE: {State.CHECKPOINTED: "restore", State.LOCKED: "unlock"},
    Goal.SETTLED: {State.LOCKED: "unlock"},
}
_ENDS: Final = {
    State.RUNNING: End.AWAKE,
    State.LOCKED: End.UNKNOWN,
    State.CHECKPOINTED: End.ASLEEP,
    State.FAILED: End.LOST,
}


def reach(driver: Driver, pid: int, goal: Goal) -> tuple[End, str, int]:
    """Brings a process there, or back to where it runs; the answer has the step that failed, if any, and its result.

    Of one that can't be looked at it has the step that was taken last, or ``state``: none was.
    """
    failed, failure, state, taken = "-", SUCCESS, State.LOCKED, "state"
    for _ in range(_MOST_STEPS):
        result, state = driver.state(pid)
        if result == NOT_INITIALIZED:
            # It has no context, so there is nothing to sleep or to wake.
            return End.AWAKE, "state", result
        if result != SUCCESS:
            return End.UNKNOWN, taken, result
        step = WAYS[goal].get(state)
        if step is None:
            break
        taken, result = step, driver.take(step, pid)
        if result in (SUCCESS, ILLEGAL_STATE):
            continue
        if goal is not Goal.ASLEEP:
            return End.LOST, step, result
        failed, failure, goal = step, result, Goal.SETTLED
    return _ENDS[state], failed, failure


class _LockArgs(ctypes.Structure):
    """CUcheckpointLockArgs: what is not said is reserved, and is 0."""

    _fields_ = (("timeoutMs", c_uint), ("reserved0", c_uint), ("reserved1", c_uint64 * 7))


class _Library:
    """The driver's library. OSError where there is none, AttributeError where it has no checkpoints."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        self._state = library.cuCheckpointProcessGetState
        self._steps: dict[str, Any] = {
            step: getattr(library, f"cuCheckpointProcess{step.capitalize()}")
            for step in ("lock", "checkpoint", "restore", "unlock")
        }

    def state(self, pid: int) -> tuple[int, State]:
        """See ``Driver``."""
        state = c_int()
        result = int(self._state(pid, byref(state)))
        return result, State(state.value)

    def take(self, step: str, pid: int) -> int:
        """See ``Driver``."""
        arguments = byref(_LockArgs(timeoutMs=_LOCK_MILLISECONDS)) if step == "lock" else c_void_p()
        return int(self._steps[step](pid, arguments))


def command(pid: int, goal: Goal) -> list[str]:
    """The command line of a sleeper that ends with this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(pid), goal.value]


def main(parent: str, pid: str, goal: str) -> None:
    """Writes one line: the end, the step that failed and its result, the seconds, and why it was not able to begin."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return  # It ended before that.
    try:
        driver = _Library()
    except OSError as error:
        print(End.UNABLE.value, "begin", SUCCESS, 0.0, error)
        return
    except AttributeError:
        print(End.UNABLE.value, "begin", SUCCESS, 0.0, "the driver is older than 570")
        return
    begun = time.monotonic()
    end, step, result = reach(driver, int(pid), Goal(goal))
    print(end.value, step, result, time.monotonic() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])
