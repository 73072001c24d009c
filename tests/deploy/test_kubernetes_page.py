"""docs/kubernetes.md: the values, files and options that it names exist."""

from __future__ import annotations

import re

import yaml

from nvshare.nodeagent.node import GPU_LABELS, READY
from tests.deploy.rendering import CHART, ROOT, leaves

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_values_exist() -> None:
    """Each that is set on a command line is the chart's, or inside one that is a mapping."""
    known = set(leaves(VALUES))
    named = set(re.findall(r"--set(?:-string)? ([\w.]+)=", PAGE))
    assert {"simulated.enabled", "runtimeClassName"} <= named
    assert {each for each in named if each not in known and each.rpartition(".")[0] not in known} == set()


def test_quoted_values_exist() -> None:
    """So is each that a sentence names as `a.b`, or with what it is set to."""
    quoted = re.findall(r"`((?:config|scheduler|metrics|nodeAgent|networkPolicy|cdi)\.[\w.]+)(?:: \w+)?`", PAGE)
    quoted += re.findall(r"`([a-z]+[A-Z]\w+): [\w-]+`", PAGE)
    assert {"config.map", "scheduler.unresponsive", "nfdAffinity"} <= set(quoted)
    assert set(quoted) <= set(leaves(VALUES))


def test_what_the_agent_leaves_is_taken_away() -> None:
    """Where it could not end in peace: by the page's command for labels, all that it writes."""
    (command,) = re.findall(r"^    kubectl label nodes --all (.+)$", PAGE, re.MULTILINE)
    assert set(command.split()) == {f"{label}-" for label in (READY, *GPU_LABELS)}


def test_files_exist() -> None:
    """Each file and folder of the repository is there."""
    named = set(re.findall(r"(?<![\w./])((?:deploy|tests)/[\w./-]*\w)", PAGE))
    assert "deploy/helm/nvshare/values.yaml" in named
    assert {each for each in named if not (ROOT / each).exists()} == set()
