"""What dies under running pods comes back, and the pods notice nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import VIRTUAL_DEVICES
from tests.e2e.kubectl import PLUGIN, SYSTEM, apply, are_offered, eventually, get, kubectl, parts, scheduler_status
from tests.e2e.node import TURN_SECONDS, Node, check_turns
from tests.e2e.programs import Running, delete, ended, is_untouched, pod, probing

pytestmark = pytest.mark.timeout(240)

WITHIN_SECONDS = 10


def unharmed(node: Node, four: list[Running], since_ns: int) -> None:
    """The four run on in their containers, and have gone on taking turns since then, two on each GPU."""
    eventually("the turns go on", lambda: node.took_turns(since_ns, [2, 2]), TURN_SECONDS)
    check_turns(node.spans(since_ns))
    assert all(is_untouched(each) for each in four)


def test_the_four_take_turns(simulated: Node, four: list[Running]) -> None:
    """Before anything dies."""
    unharmed(simulated, four, simulated.clock_ns())


@pytest.mark.parametrize("program", ["nvshare-device-plugin", "nvshare-scheduler", "kubelet", "containerd"])
def test_killed_under_running_pods(simulated: Node, four: list[Running], program: str) -> None:
    """After kill -9 the pods run on, the devices are there within ten seconds, and new pods start."""
    since = simulated.clock_ns()
    incarnation = _incarnation(simulated, program)
    before = incarnation()
    simulated.kill(program)
    killed = time.monotonic()
    eventually(f"{program} is back", lambda: _differ(incarnation(), before), 60)
    eventually("the devices are back", lambda: are_offered(VIRTUAL_DEVICES), 60)
    took = time.monotonic() - killed
    print(f"{program}: the devices were back after {took:.1f} s")
    unharmed(simulated, four, since)
    apply(pod("after", probing()))
    assert ended("after") == "Succeeded"
    delete("after")
    assert took <= WITHIN_SECONDS


def test_the_runtimes_shim_is_killed(simulated: Node, four: list[Running]) -> None:
    """The scheduler that it leaves behind makes way for the next one, and the four go on."""
    since = simulated.clock_ns()
    incarnation = _incarnation(simulated, "nvshare-scheduler")
    before = incarnation()
    simulated.kill_shim("nvshare-scheduler")
    eventually("there is another scheduler", lambda: _differ(incarnation(), before), 60)
    unharmed(simulated, four, since)


def test_the_scheduler_knows_its_clients_again(simulated: Node, four: list[Running]) -> None:
    """A new scheduler learns from the clients who they are."""
    clients = [client for device in scheduler_status()["devices"] for client in device["clients"]]
    uids = simulated.pod_uids([client["pid"] for client in clients])
    assert sorted(uids.values()) == sorted(each.uid for each in four)


def test_two_plugins_at_once(simulated: Node, four: list[Running]) -> None:
    """A second instance waits while the first one lives, and takes over; in the end kubelet has all devices."""
    since = simulated.clock_ns()
    spec = get("daemonset", "nvshare-device-plugin", namespace=SYSTEM)["spec"]["template"]["spec"]
    metadata = {"name": "second-plugin", "namespace": SYSTEM}
    apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    eventually("the second plugin waits", lambda: "waiting" in _log("pod/second-plugin"), 60)
    assert are_offered(VIRTUAL_DEVICES)
    first = _plugin_pod()["metadata"]["name"]
    kubectl("delete", "pod", "--namespace", SYSTEM, first, "--grace-period=0", "--force")
    eventually("there is a new first plugin", lambda: _plugin_pod()["metadata"]["name"] != first, 60)
    eventually("one of the two offers the devices", lambda: are_offered(VIRTUAL_DEVICES), 60)
    kubectl("delete", "pod", "--namespace", SYSTEM, "second-plugin", "--grace-period=0", "--force")
    kubectl("rollout", "status", "--namespace", SYSTEM, PLUGIN, "--timeout=60s")
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    unharmed(simulated, four, since)
    apply(pod("after-two", probing()))
    assert ended("after-two") == "Succeeded"
    delete("after-two")


def _incarnation(node: Node, program: str) -> Callable[[], Any]:
    """What tells one life of the program from the next."""
    match program:
        case "nvshare-device-plugin" | "nvshare-scheduler":
            return lambda: (
                [
                    (status["containerID"], status["ready"])
                    for each in parts(program.removeprefix("nvshare-"))
                    for status in each["status"]["containerStatuses"]
                    if status["ready"]
                ]
                or None
            )
        case "kubelet":
            # What the API says of the node is of the former kubelet until the plugin has registered with the new one.
            return lambda: (node.started_at(program), _registrations())
        case _:
            return lambda: node.started_at(program)


def _differ(now: Any, before: Any) -> bool:
    """Whether all that tells two lives apart is another."""
    if isinstance(now, tuple):
        return all(one != other for one, other in zip(now, before, strict=True))
    return bool(now and now != before)


def _registrations() -> str:
    """How often the plugin has registered with kubelet, as its metrics have it."""
    name = _plugin_pod()["metadata"]["name"]
    text = kubectl("get", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{name}:9403/proxy/metrics")
    return next(
        line for line in text.splitlines() if line.startswith('nvshare_plugin_registrations_total{result="ok"}')
    )


def _plugin_pod() -> Any:
    return parts("device-plugin")[0]


def _log(name: str) -> str:
    return kubectl("logs", "--namespace", SYSTEM, name)
