"""Makes the Grafana dashboard from ``panels.yaml``: ``python deploy/dashboard/generate.py [FILE]``."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
DASHBOARD = FOLDER.parent / "helm" / "nvshare" / "files" / "dashboard.json"

_SCHEMA = 39
"""Of Grafana 11; a newer one reads it, too."""
_WIDTH = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_NODE = 'node=~"$node"'
_GPU = f'{_NODE},gpu=~"$gpu"'
_SELECTED = {"NODE": _NODE, "GPU": _GPU, "POD": f'{_GPU},namespace=~"$namespace",pod=~"$pod"'}
_LABELS = {"GPU": ("node", "gpu"), "CONTAINER": ("node", "gpu", "namespace", "pod", "container")}
_LEGENDS = {"GPU": "{{node}} {{gpu}}", "CONTAINER": "{{namespace}}/{{pod}}/{{container}} {{gpu}}"}
_STATES = {
    "container": {
        0: ("asleep", "dark-purple"),
        1: ("idle", "semi-dark-blue"),
        2: ("wakes", "light-purple"),
        3: ("waits", "yellow"),
        4: ("holds", "green"),
        5: ("leaves", "orange"),
        6: ("unresponsive", "red"),
    },
    "yes_no": {0: ("no", "semi-dark-blue"), 1: ("yes", "blue")},
    "so": {1: ("is so", "blue")},
    "health": {0: ("unhealthy", "red"), 1: ("healthy", "green")},
    "problem": {0: ("no", "green"), 1: ("yes", "red")},
}
_LONG_UUID, _SHORT_UUID = "(.*(?:GPU|MIG)-[0-9a-f]{8})[-0-9a-f]*([0-9a-f]{4}.*)", "$1…$2"
_SHORT_UUIDS = {"id": "renameByRegex", "options": {"regex": _LONG_UUID, "renamePattern": _SHORT_UUID}}
_PIXELS = {"gpu": 155, "namespace": 105, "pod": 180}
_LEAST_PIXELS = 80
"""Of the other columns: so all are seen on a page that is 1600 pixels wide."""


@dataclass(frozen=True)
class Panel:
    """One picture, as ``panels.yaml`` describes it."""

    title: str
    text: str
    queries: dict[str, str]
    """By their legends; an empty one: Grafana makes it."""
    unit: str = "short"
    kind: str = "timeseries"
    """Or stat, table, state-timeline."""
    width: int = 12
    height: int = 8
    stacked: bool = False
    most: float | None = None
    """The end of the axis; None: as the figures are."""
    states: str = ""
    """What figures mean: a key of _STATES."""
    nothing: str = ""
    """What is said where there is nothing to show; empty: Grafana's "No data"."""
    alarm: bool = False
    """Of a stat: 0 is green, and more than that red."""
    colours: dict[str, str] = field(default_factory=dict)
    """Of lines, by their legends; the others: as Grafana likes."""
    units: dict[str, str] = field(default_factory=dict)
    """Of a table: the units of those columns that have another one, by their legends."""


def dashboard() -> str:
    """The file's content."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in yaml.safe_load((FOLDER / "panels.yaml").read_text()):
        panels.append({"type": "row", "title": row["row"], "collapsed": False, "panels": []} | _at(0, top, _WIDTH, 1))
        top += 1
        left = height = 0
        for panel in (Panel(**each) for each in row["panels"]):
            if left + panel.width > _WIDTH:
                left, top = 0, top + height
            panels.append(_panel(panel) | _at(left, top, panel.width, panel.height))
            left, height = left + panel.width, panel.height
        top += height
    content = {
        "uid": "nvshare",
        "title": "nvshare",
        "description": "GPUs that programs share: who holds them, who waits, and where their memory is.",
        "tags": ["nvshare", "gpu"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": [panel | {"id": number} for number, panel in enumerate(panels, 1)],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _at(left: int, top: int, width: int, height: int) -> dict[str, Any]:
    return {"gridPos": {"x": left, "y": top, "w": width, "h": height}}


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    held = "nvshare_container_held_seconds_total"
    return [
        source | {"hide": 0, "refresh": 1, "regex": "", "multi": False, "includeAll": False},
        _variable("node", "Node", "label_values(nvshare_scheduler_info, node)"),
        _variable("gpu", "GPU", f"label_values(nvshare_total_bytes{{{_NODE}}}, gpu)"),
        _variable("namespace", "Namespace", f"label_values({held}{{{_GPU}}}, namespace)"),
        _variable("pod", "Pod", f'label_values({held}{{{_GPU},namespace=~"$namespace"}}, pod)'),
    ]


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    """All is everything, also what has no such label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": _custom(panel)}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.nothing:
        defaults["noValue"] = panel.nothing
    fixed = {legend: {"mode": "fixed", "fixedColor": colour} for legend, colour in panel.colours.items()}
    overrides = [_override(legend, {"color": colour}) for legend, colour in fixed.items()]
    if panel.kind == "table":
        overrides = [_label_column(label, pixels) for label, pixels in _PIXELS.items()]
        overrides += [_column(panel, legend, unit) for legend, unit in panel.units.items()]
    elif panel.states:
        # With its own colours of a timeline Grafana makes no legend of the states.
        defaults |= {"mappings": _mappings(panel), "color": {"mode": "fixed"}}
    if panel.alarm:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": 1}]
        defaults |= {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _DATASOURCE,
        "targets": [_target(panel, number, *query) for number, query in enumerate(panel.queries.items())],
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "options": _options(panel),
        "transformations": _columns(panel) if panel.kind == "table" else [_SHORT_UUIDS],
    }


def _target(panel: Panel, number: int, legend: str, query: str) -> dict[str, Any]:
    at_once = panel.kind in ("stat", "table")
    target = {
        "refId": _letter(number),
        "datasource": _DATASOURCE,
        "editorMode": "code",
        "expr": _expression(query),
        "legendFormat": _legend(legend) or "__auto",
        "range": not at_once,
        "instant": at_once,
    }
    return target | ({"format": "table", "legendFormat": legend} if panel.kind == "table" else {})


def _legend(legend: str) -> str:
    return re.sub("|".join(_LEGENDS), lambda found: _LEGENDS[found[0]], legend)


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _expression(query: str) -> str:
    for short, selected in _SELECTED.items():
        query = re.sub(rf"\{{{short}\b", lambda _, text=selected: "{" + text, query)  # type: ignore[misc]
    for short, labels in _LABELS.items():
        query = query.replace(f"by {short}", f"by ({', '.join(labels)})")
    return query.replace("[RATE]", "[$__rate_interval]")


def _custom(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "timeseries":
            return {
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": 30 if panel.stacked else 5,
                "showPoints": "auto",
                "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            }
        case "state-timeline":
            return {"fillOpacity": 80, "lineWidth": 0}
        case "table":
            return {"minWidth": _LEAST_PIXELS}
        case _:
            return {}


def _options(panel: Panel) -> dict[str, Any]:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    match panel.kind:
        case "timeseries":
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "state-timeline":
            tooltip = {"mode": "single", "sort": "none"}
            return {"showValue": "never", "mergeValues": True, "rowHeight": 0.9, "legend": legend, "tooltip": tooltip}
        case "stat":
            reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            colours = "value" if panel.alarm else "none"
            return {"reduceOptions": reduced, "colorMode": colours, "graphMode": "none", "textMode": "auto"}
        case _:
            return {"showHeader": True, "cellHeight": "sm"}


def _mappings(panel: Panel) -> list[dict[str, Any]]:
    states = _STATES[panel.states]
    shown = {
        str(figure): {"text": text, "color": colour, "index": place}
        for place, (figure, (text, colour)) in enumerate(states.items())
    }
    return [{"type": "value", "options": shown}]


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """One line for each container, one column for each query."""
    legends = {f"Value #{_letter(number)}": legend for number, legend in enumerate(panel.queries)}
    order = {name: place for place, name in enumerate((*_LABELS["CONTAINER"], *legends))}
    organize = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": legends}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]


def _column(panel: Panel, legend: str, unit: str) -> dict[str, Any]:
    properties: dict[str, Any] = {"unit": unit}
    if panel.states and legend == "state":
        properties |= {"mappings": _mappings(panel), "custom.cellOptions": {"type": "color-text"}}
    return _override(legend, properties)


def _label_column(label: str, pixels: int) -> dict[str, Any]:
    properties: dict[str, Any] = {"custom.width": pixels}
    if label == "gpu":
        result = {"text": _SHORT_UUID, "index": 0}
        properties["mappings"] = [{"type": "regex", "options": {"pattern": _LONG_UUID, "result": result}}]
    return _override(label, properties)


def _override(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """What is different for the lines or the column of this name."""
    changed = [{"id": key, "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": changed}


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DASHBOARD
    target.write_text(dashboard())
