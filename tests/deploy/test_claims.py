"""What the chart makes where GPUs are claimed: the driver's rights, the classes, and which settings each node gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.deploy.rendering import RENDER, rendered

DRIVER = "gpu.nvshare.com"
ONE_KIND_OF_NODES = {"config.map": {"big": "allocation: dra"}}


@pytest.fixture
def helm(tool: Callable[[str], str]) -> str:
    """The helm that ``make helm`` builds."""
    return tool(RENDER["find_helm"]() or "helm")


def found(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The object of this kind and name."""
    (each,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return each


def settings(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """What the plugin's files say, by their names."""
    data = found(objects, "ConfigMap", "nvshare-device-plugin")["data"]
    return {name.removesuffix(".yaml"): yaml.safe_load(text) for name, text in data.items()}


def test_the_driver_may_do_what_it_needs(helm: str) -> None:
    """Write slices, read a claim that it was asked for, read its node: nothing else, and nobody else that."""
    objects = rendered(helm, {"allocation": "dra"})
    role = found(objects, "ClusterRole", "nvshare-device-plugin")
    assert {rule["resources"][0]: rule["verbs"] for rule in role["rules"]} == {
        "resourceslices": ["get", "list", "watch", "create", "update", "delete"],
        "resourceclaims": ["get"],
        "nodes": ["get"],
    }
    assert [len(rule["resources"]) for rule in role["rules"]] == [1, 1, 1]
    binding = found(objects, "ClusterRoleBinding", "nvshare-device-plugin")
    assert [each["name"] for each in binding["subjects"]] == ["nvshare-device-plugin"]
    tokens = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for each in objects
        if each["kind"] == "DaemonSet"
    }
    assert tokens == {"nvshare-scheduler": False, "nvshare-device-plugin": True, "nvshare-node-agent": True}


def test_pods_with_claims_can_end_where_gpus_are_counted_again(helm: str) -> None:
    """The plugin has kubelet's folders for that in any case, and its node's name; a token it has not."""
    plugin = found(rendered(helm, {}), "DaemonSet", "nvshare-device-plugin")["spec"]["template"]["spec"]
    (container,) = plugin["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/var/lib/kubelet/plugins/gpu.nvshare.com", "/var/lib/kubelet/plugins_registry"} <= mounted
    assert "--node-name=$(NODE_NAME)" in container["args"]
    assert not plugin["automountServiceAccountToken"]


def test_its_slices_are_its_nodes(helm: str) -> None:
    """The policy is for the account that the plugin's pods have, whoever made it."""
    values = {"allocation": "dra", "serviceAccount.create": False, "serviceAccount.name": "mine"}
    objects = rendered(helm, values)
    policy = found(objects, "ValidatingAdmissionPolicy", "nvshare-own-slices")
    (condition,) = policy["spec"]["matchConditions"]
    plugin = found(objects, "DaemonSet", "nvshare-device-plugin")["spec"]["template"]["spec"]
    account = f"system:serviceaccount:nvshare-system:{plugin['serviceAccountName']}"
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["resourceslices"], ["CREATE", "UPDATE", "DELETE"])
    binding = found(objects, "ValidatingAdmissionPolicyBinding", "nvshare-own-slices")
    assert binding["spec"] == {"policyName": "nvshare-own-slices", "validationActions": ["Deny"]}


def test_the_classes(helm: str) -> None:
    """One for GPUs, by which the old name is served as well, and one for MIG devices."""
    objects = rendered(helm, {"allocation": "dra", "resourceName": "a.example/gpu"})
    gpu, mig = (found(objects, "DeviceClass", f"{kind}.nvshare.com")["spec"] for kind in ("gpu", "mig"))
    assert gpu["extendedResourceName"] == "a.example/gpu"
    assert "extendedResourceName" not in mig
    for kind, spec in (("gpu", gpu), ("mig", mig)):
        (selector,) = spec["selectors"]
        assert selector["cel"]["expression"] == (
            f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
        )


def test_some_nodes_are_enough(helm: str) -> None:
    """A file of the map that says it has all objects made, and counts for its nodes alone."""
    kinds = [
        {(each["kind"], each["metadata"]["name"]) for each in rendered(helm, values)}
        for values in ({"allocation": "dra"}, ONE_KIND_OF_NODES)
    ]
    assert kinds[0] == kinds[1]
    said = settings(rendered(helm, ONE_KIND_OF_NODES))
    assert "allocation" not in said["config"]
    assert said["big"]["allocation"] == "dra"


@pytest.mark.parametrize("default", ["plugin", "dra"])
def test_overcommit_is_for_claims(helm: str, default: str) -> None:
    """The plugin refuses it elsewhere: so each file has it only beside dra, whichever is the default."""
    files = {"claimed": "allocation: dra", "more": "allocation: dra\novercommit: 3", "counted": "allocation: plugin"}
    said = settings(rendered(helm, {"allocation": default, "overcommit": 2, "config.map": files}))
    assert {name: each.get("overcommit") for name, each in said.items()} == {
        "config": 2 if default == "dra" else None,
        "claimed": 2,
        "more": 3,
        "counted": None,
    }


@pytest.mark.parametrize("values", [("allocation=dra",), ("config.map.big=allocation: dra",)])
def test_old_clusters_are_refused(helm: str, values: tuple[str, ...]) -> None:
    """Kubernetes 1.33 has no v1 of the API; the message says what to do."""
    arguments = [word for value in values for word in ("--set", value)]
    old, new = (RENDER["render"](helm, "--kube-version", version, *arguments) for version in ("1.33.9", "1.34.0"))
    assert "needs Kubernetes 1.34 or later, and this is v1.33.9: leave it at plugin" in old.stderr
    assert new.returncode == 0, new.stderr
