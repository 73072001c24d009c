"""The chart, where nothing is left of what kubectl installed: installed, upgraded, rolled back and uninstalled."""

from __future__ import annotations

import time

import pytest

from tests.deploy.rendering import CHART
from tests.e2e.conftest import GPUS, VIRTUAL_DEVICES, Helm
from tests.e2e.kubectl import (
    SYSTEM,
    Object,
    allocatable,
    apply,
    are_offered,
    eventually,
    get,
    kubectl,
    parts,
    rolled_out,
)
from tests.e2e.node import TURN_SECONDS, Node, check_turns
from tests.e2e.programs import (
    Running,
    computing_until_told,
    delete,
    end_well,
    is_untouched,
    pod,
    running,
    tell_to_end,
)
from tests.e2e.test_6_upgrade import install_former

pytestmark = pytest.mark.timeout(400)

PROGRAMS = [f"chart-{number}" for number in range(2 * GPUS)]
KINDS = "all,configmaps,serviceaccounts,roles,resourcequotas,networkpolicies,clusterroles,clusterrolebindings"
OURS = "app.kubernetes.io/part-of=nvshare"


@pytest.fixture(scope="module")
def installed(emptied: Node, helm: Helm) -> list[Running]:
    """The chart's release, and two programs on each GPU that were there before the GPUs were."""
    begin = time.monotonic()
    said = helm("install", str(CHART), "--create-namespace", "--set", "simulated.enabled=true")
    apply(*(pod(name, computing_until_told()) for name in PROGRAMS))
    found = [running(name, timeout=180) for name in PROGRAMS[:1]]
    print(f"from helm install to a running pod: {time.monotonic() - begin:.1f} s")
    assert f"kubectl --namespace {SYSTEM} rollout status daemonset/nvshare-device-plugin" in said
    found += [running(name, timeout=180) for name in PROGRAMS[1:]]
    rolled_out()
    return found


def test_installation(emptied: Node, installed: list[Running]) -> None:
    """One command, and pods that were waiting run; nothing has failed meanwhile."""
    assert are_offered(VIRTUAL_DEVICES)
    assert emptied.locks()
    events = get("events", namespace=SYSTEM)["items"]
    assert not [each["message"] for each in events if "Startup probe failed" in each["message"]]
    go_on(emptied, installed)


def test_a_pod_shows_that_it_works(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """``helm test``: a pod uses a GPU, says so and is taken away; and the node's labels say which GPUs there are."""
    assert "GPU 0: NVIDIA Simulated GPU, 1.0 GiB: used" in helm("test")
    assert not [each for each in get("pods", namespace=SYSTEM)["items"] if each["metadata"]["name"] == "nvshare-test"]
    labels = get("nodes")["items"][0]["metadata"]["labels"]
    shown = {key: value for key, value in labels.items() if key.startswith("nvshare.com/gpu.")}
    assert shown == {
        "nvshare.com/gpu.count": str(GPUS),
        "nvshare.com/gpu.product": "NVIDIA-Simulated-GPU",
        "nvshare.com/gpu.memory": "1024",
    }


def test_upgrade_restarts_what_the_value_concerns(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """A setting of the plugin makes its pods anew, and nobody else's; programs go on."""
    before = {part: uids(part) for part in ("scheduler", "device-plugin", "node-agent")}
    helm("upgrade", str(CHART), "--reset-then-reuse-values", "--set", "virtualDevices=5")
    eventually("there are other devices", lambda: are_offered(5 * GPUS), 90)
    rolled_out()
    assert {part for part in before if uids(part) != before[part]} == {"device-plugin"}
    go_on(emptied, installed)


def test_upgrade_of_the_scheduler(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """Without metrics for others the parts are probed all the same, and the scheduler has its new quantum."""
    values = ("metrics.enabled=false", "scheduler.quantum=3", "networkPolicy.enabled=true")
    helm("upgrade", str(CHART), "--reuse-values", *(word for value in values for word in ("--set", value)))
    rolled_out()
    eventually("the scheduler has it", lambda: "--quantum=3" in arguments("scheduler"), 30)
    assert "--metrics-address=127.0.0.1:9402" in arguments("scheduler")
    eventually("the devices are there", lambda: are_offered(5 * GPUS), 60)
    go_on(emptied, installed)


def test_a_nodes_label_chooses_settings(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """Where it names a file of ``config.map`` that counts, elsewhere the values do; the plugin's pod stays for that."""
    helm("upgrade", str(CHART), "--reuse-values", "--set-string", "config.map.notebooks=virtual_devices: 7")
    rolled_out()
    eventually("the values count", lambda: are_offered(5 * GPUS), 60)
    before = uids("device-plugin")
    kubectl("label", "nodes", "--all", "nvshare.com/device-plugin.config=notebooks")
    try:
        eventually("the label's file counts", lambda: are_offered(7 * GPUS), 60)
    finally:
        kubectl("label", "nodes", "--all", "nvshare.com/device-plugin.config-")
    eventually("the values count again", lambda: are_offered(5 * GPUS), 60)
    assert uids("device-plugin") == before
    go_on(emptied, installed)


def test_a_node_is_paused(emptied: Node, installed: list[Running]) -> None:
    """With the label no part of nvshare is on the node, and without it all are back; programs stay alive."""
    kubectl("label", "nodes", "--all", "nvshare.com/deploy=paused")
    try:
        eventually("no part is left", lambda: not get("pods", namespace=SYSTEM)["items"], 90)
        assert all(is_untouched(each) for each in installed)
    finally:
        kubectl("label", "nodes", "--all", "nvshare.com/deploy-")
    eventually("all are back", lambda: all(parts(part) for part in ("scheduler", "device-plugin", "node-agent")), 60)
    rolled_out()
    go_on(emptied, installed)


def test_rollback(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """The first revision's settings count again, under the same programs, which end well."""
    helm("rollback", "1")
    eventually("the first devices are there", lambda: are_offered(VIRTUAL_DEVICES), 120)
    rolled_out()
    assert "--quantum=2" in arguments("scheduler")
    go_on(emptied, installed)
    for each in installed:
        tell_to_end(each.name)
    end_well([each.name for each in installed])
    delete(*(each.name for each in installed))


def test_without_the_node_agent(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """Switched off, it takes off the node what it wrote there; switched on, it says it again."""
    eventually("the node is ready", lambda: len(said_of_the_node()) == SAID, 60)
    helm("upgrade", str(CHART), "--reuse-values", "--set", "nodeAgent.enabled=false")
    assert not said_of_the_node()
    eventually("it is gone", lambda: not parts("node-agent"), 60)
    helm("upgrade", str(CHART), "--reuse-values", "--set", "nodeAgent.enabled=true")
    rolled_out()
    eventually("the node is ready", lambda: len(said_of_the_node()) == SAID, 60)


def test_uninstallation(emptied: Node, installed: list[Running], helm: Helm) -> None:
    """Nothing of the release is left but the namespace, which was not part of it, and the node's folders."""
    helm("uninstall", "--wait")
    eventually("no object is left", lambda: not ours(), 60)
    kinds = "pods,secrets,configmaps,serviceaccounts,resourcequotas,controllerrevisions"
    left = kubectl("get", kinds, "--namespace", SYSTEM, "--output=name").split()
    assert sorted(left) == ["configmap/kube-root-ca.crt", "serviceaccount/default"]
    eventually("no virtual device is left", lambda: allocatable() == 0, 60)
    assert not said_of_the_node()
    eventually("no lock is left", lambda: not emptied.locks(), 60)
    assert emptied.libraries()
    kubectl("delete", "namespace", SYSTEM, timeout=120)


def test_takes_over_what_kubectl_installed(emptied: Node, helm: Helm) -> None:
    """From version 0.2.0 by its manifests to a release of this one, and its running pod goes on."""
    install_former()
    apply(pod("taken-over", computing_until_told()))
    old = running("taken-over")
    helm("install", str(CHART), "--take-ownership", "--force", "--set", "simulated.enabled=true")
    rolled_out()
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    for part in ("scheduler", "device-plugin"):
        inits = [each["name"] for each in template(part)["spec"]["initContainers"]]
        assert inits == ["install-simulated-driver"]
    since = emptied.clock_ns()
    eventually("it computes", lambda: any(emptied.spans(since)), TURN_SECONDS)
    assert is_untouched(old)
    tell_to_end(old.name)
    end_well([old.name])
    delete(old.name)
    helm("uninstall", "--wait")
    eventually("only the namespace is left", lambda: ours() == [f"namespace/{SYSTEM}"], 60)


SAID = 5
"""The condition, its label, and three labels of the GPUs."""


def said_of_the_node() -> list[object]:
    """Labels and conditions of nvshare."""
    (node,) = get("nodes")["items"]
    labels = [each for each in node["metadata"]["labels"] if each.startswith("nvshare.com/")]
    return [*labels, *(each for each in node["status"]["conditions"] if each["type"].startswith("nvshare.com/"))]


def go_on(node: Node, pods: list[Running]) -> None:
    """Both GPUs compute, for one program at a time each, and all programs are in the containers that they had."""
    since = node.clock_ns()
    eventually("both GPUs compute", lambda: all(node.spans(since)), TURN_SECONDS)
    check_turns(node.spans(since))
    assert all(is_untouched(each) for each in pods)


def uids(part: str) -> set[str]:
    """The present pods of a part."""
    return {each["metadata"]["uid"] for each in parts(part)}


def template(part: str) -> Object:
    """Of the part's pods."""
    found: Object = get("daemonset", f"nvshare-{part}", namespace=SYSTEM)["spec"]["template"]
    return found


def arguments(part: str) -> list[str]:
    """Those of the part's container that runs now."""
    return [argument for each in parts(part) for argument in each["spec"]["containers"][0]["args"]]


def ours() -> list[str]:
    """All objects of nvshare that the cluster has."""
    return kubectl("get", f"{KINDS},namespaces", "--all-namespaces", "--selector", OURS, "--output=name").split()
