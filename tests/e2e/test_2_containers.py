"""Pods as they come: of several containers, with init containers, of another C library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import GPUS
from tests.e2e.kubectl import TESTS, Object, apply, eventually, get, kubectl, scheduler_status
from tests.e2e.node import TURN_SECONDS, Node, check_turns
from tests.e2e.programs import computing, computing_until_told, delete, ended, events, log, pod_of, tell_to_end
from tests.programs.compiler import ordinary

pytestmark = pytest.mark.timeout(240)

MUSL = Path("/lib/ld-musl-x86_64.so.1")


def test_containers_of_one_pod_take_turns(simulated: Node) -> None:
    """Two containers of a pod on each GPU: each is shown by its name, and has turns of its own."""
    names = [f"part-{number}" for number in range(2 * GPUS)]
    since = simulated.clock_ns()
    apply(pod_of("of-four", {name: computing_until_told() for name in names}))
    try:
        eventually("all are shown", lambda: _shown() == {("of-four", name, "kernel") for name in names}, 60)
        eventually("they take turns", lambda: simulated.took_turns(since, [2] * GPUS), TURN_SECONDS)
        tell_to_end("of-four", names[0])
        assert ended("of-four", timeout=120) == "Succeeded"
        assert [events("of-four", name)[-1]["right"] for name in names] == [True] * len(names)
        check_turns(simulated.spans(since))
    finally:
        delete("of-four")


def test_init_container_before_the_main_one(simulated: Node) -> None:
    """Both compute, one after the other, on the GPU that kubelet gave to both; the one that ended is not missed."""
    apply(pod_of("prepared", {"main": computing_until_told()}, before={"prepare": computing(steps=20)}))
    try:
        eventually("the main one is shown", lambda: _shown() == {("prepared", "main", "kernel")}, 60)
        assert events("prepared", "prepare")[-1]["right"]
        unheard = [each for device in scheduler_status()["devices"] for each in device["allocations_without_client"]]
        assert unheard == []
        tell_to_end("prepared", "main")
        assert ended("prepared") == "Succeeded"
        assert events("prepared", "main")[-1]["right"]
        assert events("prepared", "main")[0]["device"] == events("prepared", "prepare")[0]["device"]
    finally:
        delete("prepared")


def test_musl_programs_run_unchanged(simulated: Node, tool: Callable[[str], str], tmp_path: Path) -> None:
    """Programs of another C library than ours, dynamic and static, in containers with a GPU: as if they had none."""
    compiler = tool("musl-gcc")
    files = [ordinary([compiler], tmp_path / "dynamic"), ordinary([compiler, "-static"], tmp_path / "static")]
    sources = [f"--from-file={path.name}={path}" for path in (*files, MUSL)]
    kubectl("create", "configmap", "musl", "--namespace", TESTS, *sources)
    made = pod_of("musl", {path.name: [f"/musl/{path.name}"] for path in files})
    made["spec"]["volumes"] = [{"name": "musl", "configMap": {"name": "musl", "defaultMode": 0o555}}]
    mounts = [
        {"name": "musl", "mountPath": "/musl"},
        {"name": "musl", "mountPath": str(MUSL), "subPath": MUSL.name},
    ]
    for container in made["spec"]["containers"]:
        container["volumeMounts"] = mounts
    apply(made)
    try:
        ended("musl")
        statuses: list[Object] = get("pod", "musl")["status"]["containerStatuses"]
        ends = {each["name"]: each["state"]["terminated"].get("exitCode") for each in statuses}
        assert ends == {"dynamic": 3, "static": 3}, json.dumps(statuses)
        assert [log("musl", path.name) for path in files] == ["42 7\n"] * 2
    finally:
        delete("musl")
        kubectl("delete", "configmap", "musl", "--namespace", TESTS)


def _shown() -> set[tuple[str, str, str]]:
    """Pod, container and whose word that is, of each client."""
    clients = [client for device in scheduler_status()["devices"] for client in device["clients"]]
    return {(client["pod"], client["container"], client["identity_source"]) for client in clients}
