"""What the chart renders to, as lines that tests compare: ``KIND/NAME path = value``."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
RENDER = runpy.run_path(str(ROOT / "deploy" / "helm" / "render.py"))
CHART: Path = RENDER["CHART"]


def helm_template(helm: str, values: Mapping[str, object], *, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    """``helm template`` with these values, each by its path, without what ``helm test`` runs."""
    arguments = ["--skip-tests"] + [
        word for path, value in values.items() for word in ("--set-json", f"{path}={json.dumps(value)}")
    ]
    done: subprocess.CompletedProcess[str] = RENDER["render"](helm, *arguments, chart=chart)
    return done


def rendered(helm: str, values: Mapping[str, object] | None = None, *, chart: Path = CHART) -> list[dict[str, Any]]:
    """The objects that the chart makes of these values."""
    done = helm_template(helm, values or {}, chart=chart)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def hooks(helm: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
    """The objects that only helm itself makes, each before or after something that it does."""
    arguments = [word for path, value in values.items() for word in ("--set-json", f"{path}={json.dumps(value)}")]
    place = ["--namespace", RENDER["NAMESPACE"], "--kube-version", RENDER["KUBERNETES"]]
    command = [helm, "template", "nvshare", str(CHART), *place, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    made = [each for each in yaml.safe_load_all(done.stdout) if each]
    return [each for each in made if "helm.sh/hook" in each["metadata"].get("annotations", {})]


def lines(objects: list[dict[str, Any]]) -> frozenset[str]:
    """Each scalar of each object, with its path. Items of lists are called by their names, others are ``-``."""
    return frozenset(
        f"{each['kind']}/{each['metadata']['name']} {line}"
        for each in objects
        for line in _flat(each, "")
        if not line.startswith("metadata.name = ")
    )


def lines_of(helm: str, values: Mapping[str, object]) -> frozenset[str]:
    """The lines of what the chart makes of these values."""
    return _lines_of(helm, json.dumps(values))


@cache
def _lines_of(helm: str, values: str) -> frozenset[str]:
    return lines(rendered(helm, json.loads(values)))


def leaves(value: object, path: str = "") -> Iterator[str]:
    """The path of everything in values.yaml that is no mapping with something in it."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path


def _flat(value: object, path: str) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _flat(inner, f"{path}.{key}" if path else str(key))
        case list():
            for inner in value:
                yield from _flat(inner, f"{path}.{_name(inner)}")
        case str() if path.endswith(".yaml"):
            yield from _flat(yaml.safe_load(value), path)
        case _:
            yield f"{path} = {json.dumps(value) if isinstance(value, bool) else value}"


def _name(item: object) -> str:
    if isinstance(item, dict):
        return str(next((item[key] for key in ("name", "key", "host_path") if key in item), "-"))
    return "-"
