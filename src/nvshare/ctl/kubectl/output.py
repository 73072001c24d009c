"""The answers of the nodes, as people and scripts read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml
from rich.console import Console, Group, RenderableType
from rich.text import Text

from nvshare.ctl.kubectl.answers import NodeAnswer
from nvshare.ctl.showing.status_document import to_status
from nvshare.ctl.showing.status_table import render as status_table


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
        parts.append(heading(answer))
        if answer.document is None:
            parts.append(no_answer(answer))
        else:
            parts.append(status_table(to_status(answer.document)))
    return Group(*parts)


def heading(answer: NodeAnswer) -> Text:
    """The node's name."""
    return Text.assemble(("node  ", "dim"), (answer.node, "bold"))


def no_answer(answer: NodeAnswer) -> Text:
    """Why there is nothing to show."""
    return Text(f"no answer: {answer.error}", style="bold red")


def _document(answers: Sequence[NodeAnswer]) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "node": answer.node,
                "scheduler_pod": answer.pod,
                "error": answer.error or None,
                "status": answer.document,
            }
            for answer in answers
        ]
    }
