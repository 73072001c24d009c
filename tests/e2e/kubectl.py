"""kubectl, as a person calls it; the cluster is the one that KUBECONFIG names."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.polling import poll_until

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "nvshare-system"
TESTS = "nvshare-e2e"
SCHEDULER = "daemonset/nvshare-scheduler"
PLUGIN = "daemonset/nvshare-device-plugin"
AGENT = "daemonset/nvshare-node-agent"
RESOURCE = "nvshare.com/gpu"

Object = dict[str, Any]


class KubectlError(Exception):
    """kubectl failed; the text has its command and its message."""


def kubectl(*arguments: str, stdin: str | None = None, timeout: float = 90) -> str:
    """What it printed; KubectlError if it fails."""
    done = subprocess.run(
        ["kubectl", *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def get(kind: str, *name: str, namespace: str = TESTS) -> Object:
    """An object, or a list of all of the kind in ``items``."""
    answer: Object = json.loads(kubectl("get", kind, *name, "--namespace", namespace, "--output", "json"))
    return answer


def apply(*documents: Object) -> None:
    """Creates or changes objects."""
    objects = {"apiVersion": "v1", "kind": "List", "items": documents}
    kubectl("apply", "--filename", "-", stdin=json.dumps(objects))


def eventually(what: str, condition: Callable[[], object], timeout: float) -> None:
    """Waits until the condition holds. While the API or the node's runtime is away, it does not."""

    def holds() -> object:
        try:
            return condition()
        except (KubectlError, subprocess.TimeoutExpired):
            return False

    poll_until(holds, what, timeout=timeout, interval=0.5)


def allocatable() -> int:
    """The virtual devices of the cluster's nodes that kubelet would give to pods."""
    nodes = get("nodes")["items"]
    return sum(int(node["status"]["allocatable"].get(RESOURCE, 0)) for node in nodes)


def are_offered(virtual_devices: int) -> bool:
    """Whether the nodes have so many: pods may have them, or programs of tests leave them no memory."""
    return 0.75 * virtual_devices <= allocatable() <= virtual_devices


def scheduler_status() -> Object:
    """What ``nvshare-ctl status`` says in the scheduler's pod."""
    text = kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "nvshare-ctl", "status", "--output", "json")
    status: Object = json.loads(text)
    return status


def rolled_out(daemon_sets: Sequence[str] = (SCHEDULER, PLUGIN, AGENT)) -> None:
    """Waits until the DaemonSets are as they should be, and no former plugin serves any more."""
    for daemon_set in daemon_sets:
        kubectl("rollout", "status", "--namespace", SYSTEM, daemon_set, "--timeout=100s", timeout=110)
    wanted = get("daemonset", "nvshare-device-plugin", namespace=SYSTEM)["status"]["desiredNumberScheduled"]
    eventually("no former plugin is left", lambda: len(parts("device-plugin")) == wanted, 60)


def parts(name: str) -> list[Object]:
    """The pods of a part of nvshare."""
    selector = f"app.kubernetes.io/name=nvshare-{name}"
    text = kubectl("get", "pods", "--namespace", SYSTEM, "--selector", selector, "--output", "json")
    found: list[Object] = json.loads(text)["items"]
    return found


def configure(settings: Mapping[str, object]) -> None:
    """Changes settings of the plugin, as an operator does: the ConfigMap's text, then a restart."""
    name = ("configmap", "nvshare-device-plugin")
    before = yaml.safe_load(get(*name, namespace=SYSTEM)["data"]["config.yaml"])
    patch = json.dumps({"data": {"config.yaml": yaml.safe_dump({**before, **settings})}})
    kubectl("patch", *name, "--namespace", SYSTEM, "--type=merge", "--patch", patch)
    kubectl("rollout", "restart", "--namespace", SYSTEM, PLUGIN)
    rolled_out()


def restarts(part: str) -> int:
    """How often containers of a part were made anew."""
    pods = get("pods", "--selector", f"app.kubernetes.io/name={part}", namespace=SYSTEM)["items"]
    return sum(status["restartCount"] for each in pods for status in each["status"]["containerStatuses"])
