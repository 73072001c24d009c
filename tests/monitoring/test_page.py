"""docs/monitoring.md: what it tells people to copy is right."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.layout.tree import ROOT
from tests.monitoring.test_alerts import RULES, promtool

TEXT = (ROOT / "docs" / "monitoring.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
CONFIGURATIONS = [text for kind, text in BLOCKS if kind == "yaml" and "scrape_configs" in text]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=["cluster", "workstation"])
def test_configurations_are_right(configuration: str, tool: Callable[[str], str], tmp_path: Path) -> None:
    """For Prometheus; and they keep the pods' own labels and name the node."""
    content = yaml.safe_load(configuration)
    (scraped,) = content["scrape_configs"]
    assert scraped["honor_labels"]
    assert "node" in str(scraped)
    # Debian's Prometheus has no service discovery of Kubernetes: it can't check that part.
    if found := scraped.pop("kubernetes_sd_configs", None):
        assert found == [{"role": "pod", "namespaces": {"names": ["nvshare-system"]}}]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(content))
    promtool(tool("promtool"), "check", "config", str(file))


def test_manifests_have_what_the_configuration_looks_for() -> None:
    """The label, the port's name and the namespace by which pods are found."""
    for name in ("30-scheduler", "40-device-plugin"):
        manifest = yaml.safe_load((ROOT / "deploy" / f"{name}.yaml").read_text())
        template = manifest["spec"]["template"]
        assert manifest["metadata"]["namespace"] == "nvshare-system"
        assert template["metadata"]["labels"]["app.kubernetes.io/part-of"] == "nvshare"
        assert [port["name"] for port in template["spec"]["containers"][0]["ports"]] == ["metrics"]


def test_table_of_alerts() -> None:
    """Every alert with its severity and its time, and no other."""
    told = re.findall(r"^\| `(Nvshare\w+)` \| (\w+) \| (\w+) \|", TEXT, re.MULTILINE)
    assert told == [(name, rule["labels"]["severity"], rule.get("for", "0m")) for name, rule in RULES.items()]


def test_join_with_dcgm_exporter(tool: Callable[[str], str], tmp_path: Path) -> None:
    """Two pods that share a busy GPU in turns get what each of them does, and one on another GPU gets that one's."""
    (query,) = (text for kind, text in BLOCKS if kind == "promql")
    held = 'nvshare_container_held_seconds_total{gpu="%s",namespace="s",pod="%s",container="c",node="n"}'
    busy = 'DCGM_FI_DEV_GPU_UTIL{gpu="%d",UUID="%s",modelName="H200",Hostname="n"}'
    series = {
        held % ("GPU-a", "one"): "0+45x10",
        held % ("GPU-a", "two"): "0+15x10",
        held % ("GPU-b", "three"): "0+60x10",
        busy % (0, "GPU-a"): "80x10",
        busy % (1, "GPU-b"): "50x10",
    }
    shares = {("GPU-a", "one"): 60, ("GPU-a", "two"): 20, ("GPU-b", "three"): 50}
    samples = [
        {"labels": f'{{gpu="{gpu}",namespace="s",pod="{pod}"}}', "value": share} for (gpu, pod), share in shares.items()
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "10m", "exp_samples": samples}],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    done = subprocess.run([tool("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
