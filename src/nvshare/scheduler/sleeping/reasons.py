"""Why a process is not asleep, in words."""

from __future__ import annotations

from typing import Final

from nvshare.scheduler.sleeping.sleeper import NOT_INITIALIZED, NOT_READY, NOT_SUPPORTED, OPERATING_SYSTEM

_FINAL: Final = {
    ("checkpoint", NOT_SUPPORTED): "the driver can't checkpoint what it has, as managed memory",
    ("lock", NOT_SUPPORTED): "the driver can't checkpoint a process here",
    ("state", NOT_SUPPORTED): "the driver can't checkpoint a process here",
    ("state", OPERATING_SYSTEM): "the scheduler may not look into it: it lacks SYS_PTRACE and DAC_OVERRIDE",
}
"""What stays so, by the step that failed and its result."""
_FOR_NOW: Final = {
    ("state", NOT_INITIALIZED): "it has no context",
    ("lock", NOT_READY): "its work on the device did not end",
}


def why(step: str, result: int) -> tuple[str, bool]:
    """Why a process that lives did not fall asleep, and whether it never will."""
    if (step, result) in _FINAL:
        return _FINAL[step, result], True
    return _FOR_NOW.get((step, result), f"the driver answered {result} to its {step}"), False
