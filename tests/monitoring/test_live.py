"""Real metrics: of a scheduler, a device plugin and programs that swap, read by a real Prometheus."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Libraries
from tests.layout.tree import ROOT
from tests.monitoring.dashboard import Query, metrics_in, queries, variables
from tests.monitoring.stack import JOBS, NAMESPACE, Stack, running
from tests.monitoring.test_alerts import ALERTS, RULES
from tests.polling import poll_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("monitoring"), pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "monitoring.md"
RATE_SECONDS = 10
EMPTY = {
    "Together against turns": "it takes minutes until it is measured",
    "Turns are better": "it takes minutes until it is measured",
    "Errors that the driver reported": "no GPU is sick",
}
"""Panels that may have nothing to show here, and why."""
ROW = re.compile(r"\| `((?:nvshare_)\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|")
DOES = {
    "NvshareGpuGivenTwice": "a GPU is given to a pod by another plugin, too",
    "NvshareAllocationWithoutClient": "a notebook does not use its GPU",
}
"""Alerts that have begun here, and why."""


@pytest.fixture(scope="module")
def stack(libraries: Libraries, tool: Callable[[str], str]) -> Iterator[Stack]:
    """One for all tests of this file."""
    # A short path, for the sockets in it.
    with (
        tempfile.TemporaryDirectory(prefix="nvshare-") as folder,
        running(libraries, Path(folder), tool("prometheus"), ALERTS) as made,
    ):
        yield made


def names_of(page: str) -> dict[str, tuple[str, str]]:
    """The metrics of a page, also those without figures: their types and texts."""
    texts = dict(re.findall(r"^# HELP (\w+) (.*)$", page, re.MULTILINE))
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE))
    assert texts.keys() == types.keys()
    return {name: (types[name], text) for name, text in texts.items() if not name.endswith("_created")}


def series_names(page: str) -> set[str]:
    """The names that series of a page can have."""
    found = set()
    for name, (kind, _text) in names_of(page).items():
        found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return found


def labels_of(page: str) -> dict[str, set[str]]:
    """The labels of the metrics of a page that have figures."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        family = re.sub(r"_(bucket|sum|count)$", "", name) if name.endswith(("_bucket", "_sum", "_count")) else name
        found.setdefault(family, set()).update(set(re.findall(r'(\w+)="', labels)) - {"le"})
    return found


def test_names_and_texts_are_as_prometheus_wants_them(stack: Stack, tool: Callable[[str], str]) -> None:
    """Units, suffixes, types and texts, of scheduler and plugin."""
    for page in stack.pages():
        done = subprocess.run(
            [tool("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_metric_that_is_asked_for_is_there(stack: Stack) -> None:
    """Those in the dashboard and in the alerts are those that scheduler and plugin have."""
    there = set().union(*map(series_names, stack.pages()))
    asked = metrics_in("\n".join(query.expression for query in queries()))
    assert asked - there == set()
    assert len(asked) > 50
    by_alerts = metrics_in("\n".join(rule["expr"] for rule in RULES.values()))
    assert by_alerts - there == set()
    patterns = re.findall(r'__name__=~"([^"]*)"', ALERTS.read_text())
    assert all(any(re.fullmatch(pattern, name) for name in there) for pattern in patterns)


def test_every_panel_shows_something(stack: Stack) -> None:
    """Each query parses, and gives figures while programs take turns and swap; but for those that are listed."""
    assert EMPTY.keys() <= {query.panel for query in queries()}

    def empty() -> set[Query]:
        return {query for query in asked if not stack.prometheus.query(query.chosen(RATE_SECONDS))}

    asked = {query for query in queries() if query.panel not in EMPTY}

    def shown() -> bool:
        """Each has to have shown something once: not all have to at the same moment."""
        nonlocal asked
        stack.make_mistakes()
        asked = empty()
        return not asked

    try:
        poll_until(shown, "every panel shows something", 90, interval=0.5)
    except AssertionError:
        pytest.fail("\n".join(f"{query.panel}: {query.chosen(RATE_SECONDS)}" for query in asked), pytrace=False)
    for query in queries():
        stack.prometheus.query(query.chosen(RATE_SECONDS))


def test_there_is_something_to_choose(stack: Stack) -> None:
    """Above the dashboard: the node, both GPUs, the programs' namespace and their pods, asked for as Grafana asks."""

    def choices() -> dict[str, set[str]]:
        asked = variables().items()
        return {
            name: set(stack.prometheus.get(f"label/{label}/values", **{"match[]": series}))
            for name, (series, label) in asked
        }

    gpus = {device.uuid for device in stack.scheduler.status().devices}
    pods = {job.pod for job in JOBS}
    expected = {"node": {"node-1"}, "gpu": gpus, "namespace": {NAMESPACE}, "pod": pods}
    poll_until(lambda: choices() == expected, "all can be chosen", 60, interval=0.2)


def test_pods_keep_their_names(stack: Stack) -> None:
    """The labels are those of the program's pod and not of the scheduler's, and each pod gets its share of the GPU."""
    held = 'sum by (namespace, pod) (nvshare_container_held_seconds_total{pod!="",node="node-1"})'

    def pods() -> set[tuple[str, str]]:
        found = [each["metric"] for each in stack.prometheus.query(f"{held} > 0")]
        return {(each["namespace"], each["pod"]) for each in found}

    poll_until(lambda: pods() == {(NAMESPACE, job.pod) for job in JOBS}, "all pods have held", 60, interval=0.2)
    ordinals = stack.prometheus.query("count by (gpu) (count by (gpu, pod) (nvshare_container_grants_total))")
    assert sorted(each["value"][1] for each in ordinals) == ["2", "3"]


@pytest.mark.parametrize("way", ["in", "out"])
def test_pods_moved_what_their_gpu_moved(stack: Stack, way: str) -> None:
    """What the containers of a GPU moved is what moved there, and nothing on the GPU where all fits."""
    moved = f"nvshare_swap_{way}_bytes_total"
    equal = f"sum by (gpu) (nvshare_container_swap_{way}_bytes_total) == on (gpu) {moved}"
    poll_until(lambda: stack.prometheus.query(f"{moved} > 0"), "memory moves", 60, interval=0.2)
    found = sorted(float(each["value"][1]) for each in stack.prometheus.query(equal))
    assert len(found) == 2
    assert 0 == found[0] < found[1]


def test_alerts_are_understood(stack: Stack) -> None:
    """By a real Prometheus: all can be computed, and those have begun for which there is a reason."""

    def rules() -> list[dict[str, str]]:
        return [rule for group in stack.prometheus.get("rules")["groups"] for rule in group["rules"]]

    def begun() -> set[str]:
        return {rule["name"] for rule in rules() if rule["state"] != "inactive"}

    poll_until(lambda: all(rule["health"] == "ok" for rule in rules()), "all were computed", 60, interval=0.2)
    assert {rule["name"] for rule in rules()} == RULES.keys()
    # On a busy machine with tiny GPUs time is lost to swapping, which is not the point here; and a scrape that took too
    # long makes what was scraped look absent until the next one.
    poll_until(
        lambda: begun() - {"NvshareThrashing"} == DOES.keys(), "the alerts begin, and no others last", 60, interval=0.2
    )


def test_page_names_what_is_exported(stack: Stack) -> None:
    """The tables of docs/monitoring.md have every metric with its type, its labels and its text, and no other."""
    told = {name: (kind, labels, text) for name, kind, labels, text in ROW.findall(PAGE.read_text())}
    there: dict[str, tuple[str, str]] = {}
    labels: dict[str, set[str]] = {}
    for page in stack.pages():
        there |= {name: facts for name, facts in names_of(page).items() if name.startswith("nvshare_")}
        labels |= labels_of(page)
    assert {name: (kind, text) for name, (kind, _, text) in told.items()} == there
    wrong = {
        name: named
        for name, (_, named, _) in told.items()
        if name in labels and set(re.findall(r"\w+", named)) != labels[name]
    }
    assert wrong == {}
