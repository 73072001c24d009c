"""While pods start and end all the time, kubelet restarts and the plugin is rolled out: no pod is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import VIRTUAL_DEVICES
from tests.e2e.kubectl import PLUGIN, SYSTEM, TESTS, Object, apply, are_offered, eventually, get, kubectl, rolled_out
from tests.e2e.node import Node
from tests.e2e.programs import delete, phase, pod

pytestmark = pytest.mark.timeout(240)
long = [pytest.mark.e2e_long, pytest.mark.timeout(3600)]

JOB = "churn"
AT_ONCE = 8
# Kubelet admits these again when it starts, and needs devices for it: one container of each does not run.
CRASHING, HALF_DONE = "crashing", "half-done"


@pytest.fixture
def churn(simulated: Node) -> Iterator[None]:
    """Eight pods at a time, each of which ends after some seconds, whatever becomes of the others."""
    template = {"spec": pod(JOB, ["sh", "-c", "sleep $((JOB_COMPLETION_INDEX % 4 + 1))"])["spec"]}
    many = {"completions": 10_000, "backoffLimit": 10_000, "completionMode": "Indexed"}
    spec = {"parallelism": AT_ONCE, "template": template, **many}
    apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOB, "namespace": TESTS}, "spec": spec})
    eventually("pods have ended", lambda: _succeeded() >= AT_ONCE, 90)
    yield
    kubectl("delete", "job", JOB, "--namespace", TESTS, "--cascade=foreground", timeout=120)


@pytest.fixture
def stopped(simulated: Node) -> Iterator[None]:
    """Pods with a container that does not run: it failed and is to be started again, or is done beside another."""
    apply(_crashing(), _half_done())
    eventually("one crashes", lambda: _restarts(CRASHING) > 0, 60)
    eventually("one is half done", lambda: len(_ended_containers(HALF_DONE)) == 1, 60)
    yield
    delete(CRASHING, HALF_DONE)


@pytest.mark.parametrize("restarts", [3, pytest.param(100, marks=long)])
def test_kubelet_restarts(simulated: Node, churn: None, stopped: None, restarts: int) -> None:
    """The plugin has registered with each new kubelet before that admits the pods."""
    for number in range(restarts):
        before, ended = simulated.started_at("kubelet"), _succeeded()
        simulated.kill("kubelet")
        eventually("there is a new kubelet", lambda before=before: simulated.started_at("kubelet") != before, 60)
        eventually("pods start and end again", lambda ended=ended: _succeeded() >= ended + AT_ONCE // 2, 90)
        assert not _refused(), f"after {number + 1} restarts"
        print(f"restarts without a refused pod: {number + 1}")
    assert [phase(name) for name in (CRASHING, HALF_DONE)] == ["Running", "Running"]


@pytest.mark.parametrize("rollouts", [2, pytest.param(20, marks=long)])
def test_rollouts(simulated: Node, churn: None, rollouts: int) -> None:
    """One instance of the plugin follows the other, and there is no moment without devices."""
    for number in range(rollouts):
        ended = _succeeded()
        kubectl("rollout", "restart", "--namespace", SYSTEM, PLUGIN)
        rolled_out()
        eventually("pods start and end again", lambda ended=ended: _succeeded() >= ended + AT_ONCE // 2, 90)
        assert not _refused(), f"after {number + 1} rollouts"
        print(f"rollouts without a refused pod: {number + 1}")
    assert are_offered(VIRTUAL_DEVICES)


def _crashing() -> Object:
    manifest = pod(CRASHING, ["sh", "-c", "exit 1"])
    manifest["spec"]["restartPolicy"] = "Always"
    return manifest


def _half_done() -> Object:
    manifest = pod(HALF_DONE, ["sh", "-c", "exit 0"])
    (done,) = manifest["spec"]["containers"]
    manifest["spec"]["containers"].append({**done, "name": "other", "command": ["sleep", "infinity"]})
    return manifest


def _restarts(name: str) -> int:
    return sum(status["restartCount"] for status in _containers(name))


def _ended_containers(name: str) -> list[str]:
    return [status["name"] for status in _containers(name) if "terminated" in status["state"]]


def _containers(name: str) -> list[Object]:
    found: list[Object] = get("pod", name)["status"].get("containerStatuses", [])
    return found


def _succeeded() -> int:
    """How many pods of the job have ended well so far."""
    return int(get("job", JOB)["status"].get("succeeded", 0))


def _refused() -> list[str]:
    """The pods that kubelet did not admit, with its reason.

    Others may fail as well: those whose container kubelet had made and not started when it was killed.
    """
    columns = "custom-columns=:.status.reason,:.metadata.name,:.status.message"
    failed = ("--namespace", TESTS, "--field-selector", "status.phase=Failed")
    lines = kubectl("get", "pods", *failed, "--no-headers", "--output", columns).splitlines()
    return [line for line in lines if line.startswith("UnexpectedAdmissionError")]
