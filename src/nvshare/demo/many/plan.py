"""What one program of many has to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """A program: fill ``data_bytes`` of memory, then rest and answer a request, as often as there are rests."""

    seed: int
    """What the data is made of; another one for each program."""
    data_bytes: int
    rests: Sequence[float]
    """Seconds before each request."""
    work_ns: int
    """For how long a request keeps the GPU busy."""


def plan_to_text(plan: Plan) -> str:
    """For the program's command line."""
    return json.dumps(asdict(plan))


def plan_from_text(text: str) -> Plan:
    """The reverse of ``plan_to_text``."""
    return Plan(**json.loads(text))
