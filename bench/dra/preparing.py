"""How long the driver takes to prepare a claim, and kubelet until it has all that a pod claims, on a node with pods.

    PYTHONPATH=src:. python -m bench.dra.preparing [--pods N]

from the root of the project, where KUBECONFIG names a cluster of one node on which nothing of nvshare is, and that has
the image of this version. Pods with a claim each are made one after another, and then as many at once; the figures are
from the driver's and kubelet's own histograms: between two bounds answers are taken for evenly spread.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from bench.dra.real_node import installed
from tests.e2e.claims import claiming, claims, template
from tests.e2e.kubectl import PLUGIN, SYSTEM, apply, eventually, get, kubectl
from tests.e2e.programs import delete, ended

_SIZE: Final = 64
_PORT: Final = 9403
_READ: Final = f"""
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:{_PORT}/metrics").read().decode())
"""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Answers until some moment; times are in seconds."""

    counts: Mapping[float, float]
    """How many were not longer, by the bounds."""
    sum_seconds: float

    @property
    def count(self) -> float:
        return self.counts[float("inf")]

    def since(self, before: Histogram) -> Histogram:
        """What came after another moment."""
        counts = {bound: count - before.counts.get(bound, 0.0) for bound, count in self.counts.items()}
        return Histogram(counts, self.sum_seconds - before.sum_seconds)

    def steps(self) -> Iterator[tuple[float, float, float, float]]:
        """The bounds between which there are any; how many up to the first one, and up to the second."""
        for (first, until), (last, after) in pairwise([(0.0, 0.0), *sorted(self.counts.items())]):
            if after > until:
                yield first, last, until, after

    def quantile(self, part: float) -> float:
        wanted = part * self.count
        first, last, until, after = next(step for step in self.steps() if step[3] >= wanted)
        return first + (last - first) * (wanted - until) / (after - until)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pods", type=int, default=40)
    arguments = parser.parse_args()
    names = [f"pod-{number}" for number in range(arguments.pods)]
    with installed("virtualDevices=40"):
        apply(template("least", _SIZE))
        print("| what | number | mean | p50 | p99 | within |\n|---|---|---|---|---|---|", flush=True)
        before = _histograms()
        for name in names:
            _run(name)
        before = _show("one after another", before)
        _run(*names)
        _show("at once", before)


def _run(*names: str) -> None:
    """Pods that end by themselves, until nothing is left of their claims."""
    apply(*(claiming(name, ["true"], own="least") for name in names))
    for name in names:
        assert ended(name, 300) == "Succeeded"
    delete(*names)
    eventually("their claims are gone", lambda: not claims(), 60)


def _histograms() -> dict[str, Histogram]:
    """Of the driver's answers, and of all that kubelet does to prepare what a pod claims."""
    of_driver = kubectl("exec", "--namespace", SYSTEM, PLUGIN, "--", "python3", "-c", _READ)
    (node,) = (each["metadata"]["name"] for each in get("nodes")["items"])
    of_kubelet = kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics")
    return {
        "the driver's answer to NodePrepareResources": _read(
            of_driver, "nvshare_plugin_request_seconds", 'method="NodePrepareResources"'
        ),
        "the driver's answer to NodeUnprepareResources": _read(
            of_driver, "nvshare_plugin_request_seconds", 'method="NodeUnprepareResources"'
        ),
        "kubelet's whole preparing": _read(
            of_kubelet, "dra_operations_duration_seconds", 'operation_name="PrepareResources"'
        ),
    }


def _read(text: str, name: str, label: str) -> Histogram:
    """All lines with this label."""
    counts: dict[float, float] = {float("inf"): 0.0}
    sum_seconds = 0.0
    for kind, labels, value in re.findall(rf"^{name}_(bucket|sum)\{{(.*)\}} (\S+)$", text, re.MULTILINE):
        if label not in labels:
            continue
        if kind == "sum":
            sum_seconds += float(value)
        else:
            bound = float(labels.partition('le="')[2].partition('"')[0])
            counts[bound] = counts.get(bound, 0.0) + float(value)
    return Histogram(counts, sum_seconds)


def _show(how: str, before: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """What has been counted since; what is counted now."""
    now = _histograms()
    for what, histogram in now.items():
        since = histogram.since(before[what])
        within = ", ".join(
            f"{after - until:.0f} in {_ms(first)} to {_ms(last)}" for first, last, until, after in since.steps()
        )
        figures = " | ".join(
            _ms(each) for each in (since.sum_seconds / since.count, since.quantile(0.5), since.quantile(0.99))
        )
        print(f"| {what}, {how} | {since.count:.0f} | {figures} | {within} |", flush=True)
    return now


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    main()
