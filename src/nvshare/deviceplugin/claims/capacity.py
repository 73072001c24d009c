"""How much of a GPU claims may have: memory and shares, and how much a request may consume of them. Pure.

The words are those of the API: a request without a size consumes the default; a size is rounded up to the next step,
and no request is more than the most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nvshare.deviceplugin.claims.quantity import written

STEP_BYTES = 64 << 20
"""Memory is claimed in these steps, one at the least."""
_CONTEXTS_PART = 4
"""Contexts take no more of a GPU than one part of so many: a small GPU would have nothing left for claims."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What claims may have of one GPU, in bytes; multiples of ``STEP_BYTES``, but for ``own_bytes``."""

    memory_bytes: int
    """All of them together; more than the GPU has where it is overcommitted."""
    most_bytes: int
    """One request."""
    default_bytes: int
    """A request that says no size."""
    shares: int
    own_bytes: int
    """What the GPU itself has for them."""


def own_bytes(total_bytes: int, reserve_bytes: int, foreign_bytes: int, context_bytes: int, shares: int) -> int:
    """What a GPU has for its programs' memory, beside a context for each share; 0 at the least."""
    contexts_bytes = min(context_bytes * shares, total_bytes // _CONTEXTS_PART)
    return max(0, total_bytes - reserve_bytes - foreign_bytes - contexts_bytes)


def capacity(own: int, host: int, shares: int, held: int, overcommit: float) -> Capacity | None:
    """Of a GPU with ``own`` bytes and ``host`` bytes of host memory to swap into; None: there is none for claims.

    ``held`` of its ``shares`` are virtual devices that pods have by the device plugin: each has memory as a request of
    no size has it.
    """
    memory = min(int(own * overcommit), own + host)
    default = max(STEP_BYTES, min(_in_steps(memory // shares), _in_steps(own)))
    memory = _in_steps(max(0, memory - held * default))
    most = min(_in_steps(own), memory)
    if most < STEP_BYTES or held >= shares:
        return None
    return Capacity(memory, most, min(default, most), shares - held, max(0, own - held * (own // shares)))


def document(found: Capacity) -> dict[str, Any]:
    """As the device of a slice has it."""
    return {
        "memory": _consumable(found.memory_bytes, STEP_BYTES, {"max": written(found.most_bytes)}, found.default_bytes),
        "shares": _consumable(found.shares, 1, {}, 1),
    }


def _consumable(value: int, step: int, more: dict[str, str], default: int) -> dict[str, Any]:
    allowed = {"min": written(step), **more}
    # The API refuses a step that no second request could make.
    if value >= 2 * step:
        allowed["step"] = written(step)
    policy = {"default": written(default), "validRange": allowed}
    return {"value": written(value), "requestPolicy": policy}


def _in_steps(number: int) -> int:
    return number // STEP_BYTES * STEP_BYTES
