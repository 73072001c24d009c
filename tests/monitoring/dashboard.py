"""The dashboard's panels and queries, as Grafana reads them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.layout.tree import ROOT

FILE = ROOT / "deploy" / "helm" / "nvshare" / "files" / "dashboard.json"
_SERIES = re.compile(r"\b(?:nvshare|process)_[a-z0-9_]+\b")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel."""

    panel: str
    legend: str
    expression: str

    def chosen(self, seconds: int) -> str:
        """With everything chosen, and rates over so many seconds."""
        return _all_chosen(self.expression.replace("$__rate_interval", f"{seconds}s"))


def _all_chosen(expression: str) -> str:
    return re.sub(r'"\$(node|gpu|namespace|pod)"', '".*"', expression)


def content() -> dict[str, Any]:
    """The whole file."""
    read: dict[str, Any] = json.loads(FILE.read_text())
    return read


def queries() -> list[Query]:
    """Every query of every panel."""
    return [
        Query(panel["title"], target["legendFormat"], target["expr"])
        for panel in content()["panels"]
        for target in panel.get("targets", ())
    ]


def variables() -> dict[str, tuple[str, str]]:
    """What can be chosen, by its name: of which series, with everything else chosen, and by which label."""
    found = {}
    for each in content()["templating"]["list"]:
        if each["type"] == "query":
            series, label = re.findall(r"^label_values\((.*), (\w+)\)$", each["query"]["query"])[0]
            found[each["name"]] = _all_chosen(series), label
    return found


def metrics_in(text: str) -> set[str]:
    """The names of metrics in an expression, or in several."""
    return set(_SERIES.findall(re.sub(r'"[^"]*"', '""', text)))
