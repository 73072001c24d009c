"""What every chart is expected to have: standard labels, network policies of least rights, and what helm test runs."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from nvshare.paths import ON_MISSING
from tests.deploy.rendering import RENDER, ROOT, hooks, rendered
from tests.deploy.test_manifests import PARTS, STACKS, documents

EVERYTHING = {
    "namespace.create": True,
    "networkPolicy.enabled": True,
    "metrics.podMonitor.enabled": True,
    "metrics.alerts.enabled": True,
    "metrics.dashboard.enabled": True,
}
STANDARD = {"name", "instance", "version", "part-of", "managed-by"}
FORMER_SELECTORS = {name: {"app.kubernetes.io/name": name} for name in PARTS}
"""Those of 0.2.0, which nobody can change."""


@pytest.fixture
def helm(tool: Callable[[str], str]) -> str:
    """The helm that ``make helm`` builds."""
    return tool(RENDER["find_helm"]() or "helm")


def standard(labels: Mapping[str, str]) -> set[str]:
    return {key.removeprefix("app.kubernetes.io/") for key in labels if key.startswith("app.kubernetes.io/")}


def with_tests(helm: str, *arguments: str) -> list[dict[str, Any]]:
    """All that helm makes, what ``helm test`` runs included."""
    done = RENDER["render"](helm, *arguments)
    done.check_returncode()
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_every_object_has_the_standard_labels(helm: str) -> None:
    """So have the pods of the DaemonSets; what belongs to one part says to which."""
    found = rendered(helm, EVERYTHING)
    assert {"PodMonitor", "PrometheusRule", "Namespace", "NetworkPolicy", "ResourceQuota"} <= {
        each["kind"] for each in found
    }
    for each in found:
        labels = each["metadata"]["labels"]
        assert standard(labels) >= STANDARD, each["metadata"]["name"]
        assert labels["helm.sh/chart"].startswith("nvshare-")
        if each["kind"] == "DaemonSet":
            assert labels["app.kubernetes.io/component"] == each["metadata"]["name"].removeprefix("nvshare-")
            assert labels.items() <= each["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("folder", STACKS, ids=lambda folder: folder.name)
def test_manifests_say_nothing_of_helm(folder: Any) -> None:
    """They have the same labels, but those that are true only of what helm installs."""
    for each in documents(folder):
        labels = each["metadata"]["labels"]
        assert standard(labels) - {"component"} == STANDARD - {"managed-by"}
        assert "helm.sh/chart" not in labels


def test_selectors_stay(helm: str) -> None:
    """A DaemonSet of 0.2.0 takes the present one: what it selects its pods by is the same."""
    selectors = {
        each["metadata"]["name"]: each["spec"]["selector"]["matchLabels"]
        for each in rendered(helm)
        if each["kind"] == "DaemonSet"
    }
    assert selectors == FORMER_SELECTORS


def test_network_policies_allow_what_is_needed(helm: str) -> None:
    """Metrics come in; only the node agent gets out, to the API and to its plugin's pages."""
    policies = {
        each["metadata"]["name"]: each["spec"] for each in rendered(helm, EVERYTHING) if each["kind"] == "NetworkPolicy"
    }
    assert {name: spec["podSelector"]["matchLabels"] for name, spec in policies.items()} == FORMER_SELECTORS
    for name, spec in policies.items():
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert spec["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
        assert ("egress" in spec) == (name == "nvshare-node-agent")
    api, pages = policies["nvshare-node-agent"]["egress"]
    assert {each["port"] for each in api["ports"]} == {443, 6443}
    assert pages["to"] == [{"podSelector": {"matchLabels": FORMER_SELECTORS["nvshare-device-plugin"]}}]
    assert [each["port"] for each in pages["ports"]] == [9403]


def test_claims_need_the_api(helm: str) -> None:
    """The plugin reads them there; the scheduler stays where it was."""
    found = rendered(helm, {"networkPolicy.enabled": True, "allocation": "dra"})
    policies = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "NetworkPolicy"}
    (api,) = policies["nvshare-device-plugin"]["egress"]
    assert {each["port"] for each in api["ports"]} == {443, 6443}
    assert "egress" not in policies["nvshare-scheduler"]


def test_closed_metrics_are_closed(helm: str) -> None:
    """Then nothing comes in from the network, and the plugin's pages can't be asked for."""
    found = rendered(helm, {"networkPolicy.enabled": True, "metrics.enabled": False})
    policies = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "NetworkPolicy"}
    assert not [name for name, spec in policies.items() if "ingress" in spec]
    assert len(policies["nvshare-node-agent"]["egress"]) == 1


def test_helm_test_asks_for_a_gpu(helm: str) -> None:
    """By the name that is configured, in the chart's image; without a scheduler it fails."""
    (pod,) = (each for each in hooks(helm, {"resourceName": "a.example/gpu"}) if each["kind"] == "Pod")
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert container["resources"]["limits"]["a.example/gpu"] == 1
    assert {"name": ON_MISSING, "value": "fail"} in container["env"]
    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in rendered(helm)
        if each["kind"] == "DaemonSet"
    }
    assert {container["image"]} == images
    module = container["command"][-1]
    assert "resourceClaims" not in pod["spec"]
    assert "main" in runpy.run_path(str(ROOT / "src" / f"{module.replace('.', '/')}.py"))


def test_helm_test_claims_where_gpus_are_claimed(helm: str) -> None:
    """Then it needs no extended resource, which Kubernetes may not have, and its GPU is to have the claim's size."""
    found = {each["kind"]: each for each in hooks(helm, {"allocation": "dra"}) if "test" in each["metadata"]["name"]}
    pod, template = found["Pod"], found["ResourceClaimTemplate"]
    (claim,) = pod["spec"]["resourceClaims"]
    (container,) = pod["spec"]["containers"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    assert "nvshare.com/gpu" not in container["resources"]["limits"]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    sizes = {each["capacity"]["requests"]["memory"] for each in request["firstAvailable"]}
    assert sizes == {container["command"][-1]}
    weights = [int(each["metadata"]["annotations"].get("helm.sh/hook-weight", 0)) for each in (template, pod)]
    assert weights == sorted(set(weights)), "the template comes first"
