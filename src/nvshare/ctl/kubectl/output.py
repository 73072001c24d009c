"""The answers of the nodes, as people and scripts read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.admin.admin_pb2 import ClaimedMemory
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
    return Group(*parts, *_claims(answers))


def _claims(answers: Sequence[NodeAnswer]) -> Iterator[RenderableType]:
    """What claims have of all GPUs of the cluster, a line for each; nothing where there are no claims."""
    table = Table("NODE", "GPU", box=None, pad_edge=False)
    for name in ("PROMISED", "CONSUMED", "RESIDENT", "SHARES"):
        table.add_column(name, justify="right")
    total = ClaimedMemory()
    for answer in answers:
        for device in to_status(answer.document or {}).devices:
            claimed = device.claimed
            if device.HasField("claimed"):
                table.add_row(answer.node, device.index or device.uuid, *_cells(claimed))
                total.promised_bytes += claimed.promised_bytes
                total.consumed_bytes += claimed.consumed_bytes
                total.resident_bytes += claimed.resident_bytes
                total.shares += claimed.shares
    if table.row_count:
        table.add_row("all", "", *_cells(total), style="bold")
        yield from (Text(), Text("claims", style="dim"), table)


def _cells(claimed: ClaimedMemory) -> tuple[str, str, str, str]:
    sizes = (claimed.promised_bytes, claimed.consumed_bytes, claimed.resident_bytes)
    promised, consumed, resident = map(display.size, sizes)
    return promised, consumed, resident, str(claimed.shares)


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
