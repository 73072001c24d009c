"""What the nodes of a cluster answer, and how they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer of one node's scheduler, or why there is none."""

    node: str
    pod: str
    """The scheduler's pod."""
    document: dict[str, Any] | None = None
    """What nvshare-ctl printed there."""
    error: str = ""


Ask = Callable[..., list[NodeAnswer]]
"""``nodes.Cluster.ask_all``"""
