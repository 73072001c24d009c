"""The Grafana dashboard as a file: fresh, whole, and with nothing that covers something else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.layout.tree import ROOT
from tests.monitoring.dashboard import FILE, content, queries


def test_it_is_fresh(tmp_path: Path) -> None:
    """The committed file is what the generator makes now."""
    made = tmp_path / "dashboard.json"
    generator = ROOT / "deploy" / "dashboard" / "generate.py"
    subprocess.run([sys.executable, str(generator), str(made)], check=True, timeout=60)
    assert made.read_text() == FILE.read_text(), "run make generate"


def changes(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Where something is gone or is another; what came in addition does not count."""
    match before, after:
        case dict(), dict():
            for key, value in before.items():
                yield from changes(value, after.get(key), f"{place}.{key}")
        case list(), list() if len(before) == len(after):
            for number, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from changes(one, other, f"{place}[{number}]")
        case _ if before != after:
            yield f"{place}: {before!r}, {after!r}"


def test_grafana_knows_every_field() -> None:
    """Read and written by the models of Grafana's schema, which drop what they don't know, nothing is gone.

    But for ``definition``: Grafana writes it, for its list of variables, and its schema does not have it.
    """
    register_default_plugins()
    written = json.loads(JSONEncoder().encode(Dashboard.from_json(content())))
    found = [change for change in changes(content(), written) if ".definition: " not in change]
    assert found == []


def test_panels_lie_beside_each_other() -> None:
    """None covers another, none is wider than the page, and each row's panels come after its title."""
    panels = content()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    assert all(one["gridPos"]["y"] <= other["gridPos"]["y"] for one, other in pairwise(panels))


def test_panels_say_what_they_show() -> None:
    """A title of its own, a text, a unit, and a legend for each line where there are several."""
    panels = [panel for panel in content()["panels"] if panel["type"] != "row"]
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert panel["type"] == "stat" or "__auto" not in legends


def test_timelines_say_what_their_colours_mean() -> None:
    """In a legend of the states, which Grafana makes unless the colours come from a scale or from thresholds."""
    timelines = [panel for panel in content()["panels"] if panel["type"] == "state-timeline"]
    assert timelines
    for panel in timelines:
        assert panel["options"]["legend"]["showLegend"]
        assert panel["fieldConfig"]["defaults"]["color"]["mode"] == "fixed"
        assert panel["fieldConfig"]["defaults"]["mappings"]


def test_labels_in_legends_are_there() -> None:
    """A query keeps the labels that its legend names."""
    for query in queries():
        named = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
        kept = re.search(r"\bby \(([^)]*)\)", query.expression)
        if kept and named:
            assert named <= set(re.split(r",\s*", kept[1])), query


def test_every_query_can_be_narrowed() -> None:
    """By the variables above the dashboard, each of which is there; and the data source is one of them."""
    names = {variable["name"] for variable in content()["templating"]["list"]}
    assert names == {"datasource", "node", "gpu", "namespace", "pod"}
    for query in queries():
        assert '=~"$node"' in query.expression
        assert set(re.findall(r'"\$(\w+)"', query.expression)) <= names
    sources = re.findall(r'"uid": "(\$[^"]*)"', FILE.read_text())
    assert set(sources) == {"${datasource}"}
