"""The answers of the nodes, as people and scripts read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from rich.console import Console, Group, RenderableType
from rich.text import Text

from nvshare.ctl.status_document import Document, to_status
from nvshare.ctl.status_table import render as status_table


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer of one node's scheduler, or why there is none."""

    node: str
    pod: str
    """The scheduler's pod."""
    status: Document | None = None
    error: str = ""


def show(answers: Sequence[NodeAnswer], output: str) -> None:
    """Prints them as ``table``, ``json`` or ``yaml``."""
    match output:
        case "json":
            print(json.dumps(_document(answers), indent=2))
        case "yaml":
            print(yaml.safe_dump(_document(answers), sort_keys=False), end="")
        case _:
            Console().print(render(answers))


def render(answers: Sequence[NodeAnswer]) -> RenderableType:
    """Node by node: what nvshare-ctl shows there, or one line that says why there is nothing to show."""
    parts: list[RenderableType] = []
    for answer in answers:
        if parts:
            parts.append(Text())
        parts.append(Text.assemble(("node  ", "dim"), (answer.node, "bold")))
        if answer.status is None:
            parts.append(Text(f"no answer: {answer.error}", style="bold red"))
        else:
            parts.append(status_table(to_status(answer.status)))
    return Group(*parts)


def _document(answers: Sequence[NodeAnswer]) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "node": answer.node,
                "scheduler_pod": answer.pod,
                "error": answer.error or None,
                "status": answer.status,
            }
            for answer in answers
        ]
    }
