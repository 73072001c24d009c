"""What an operator can add: the policy that keeps pods from overriding nvshare's environment, and a quota of GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.kubectl import RESOURCE, SCHEDULER, SYSTEM, TESTS, KubectlError, Object, apply, eventually, get, kubectl
from tests.e2e.node import Node
from tests.e2e.programs import delete, pod

pytestmark = pytest.mark.timeout(240)

POLICY = "deploy/policies/admission-policy.yaml"
LIBRARY = "/usr/lib/nvshare/libnvshare.so"
LOOK_ONLY = "deploy/policies/look-only.yaml"
QUOTA = "deploy/samples/resource-quota.yaml"


def never_placed(name: str, environment: Mapping[str, str] | None = None, gpus: int = 1) -> Object:
    """A pod that no node takes: only whether the API server has something against it counts."""
    made = pod(name, ["sleep", "infinity"], gpus=gpus, environment=environment)
    made["spec"]["nodeSelector"] = {"nvshare.example/nowhere": "yes"}
    return made


def refusal(made: Object) -> str:
    """What the API server has against a pod; empty: nothing. The pod is not made."""
    try:
        kubectl("create", "--dry-run=server", "--filename", "-", stdin=json.dumps(made))
    except KubectlError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def policy(node: Node) -> Iterator[None]:
    """The policy is in force; it is gone after these tests, which every other pod of the tests counts on."""
    kubectl("apply", "--filename", POLICY)
    try:
        eventually("it is in force", lambda: refusal(never_placed("asks", {"LD_PRELOAD": "/lib/other.so"})), 60)
        yield
    finally:
        kubectl("delete", "--filename", POLICY)


def test_the_policy_is_understood(policy: None) -> None:
    """The API server finds nothing wrong in its expressions."""

    def checked() -> object:
        return get("validatingadmissionpolicy", "nvshare-environment").get("status", {}).get("typeChecking")

    eventually("its expressions are checked", lambda: checked() is not None, 60)
    assert checked() == {}


def with_source(made: Object) -> None:
    """LD_PRELOAD from elsewhere, whose value nobody knows when the pod is made."""
    source = {"configMapKeyRef": {"name": "some", "key": "preload", "optional": True}}
    made["spec"]["containers"][0]["env"] = [{"name": "LD_PRELOAD", "valueFrom": source}]


def in_init_container(made: Object) -> None:
    """An init container that has no GPU of its own."""
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    (program,) = made["spec"]["containers"]
    made["spec"]["initContainers"] = [{"name": "first", "image": program["image"], "env": environment}]


def without_gpu(made: Object) -> None:
    """A pod that has nothing to do with nvshare."""
    made["spec"]["containers"][0]["resources"] = {}


def with_nothing(_made: Object) -> None:
    """As it is."""


@pytest.mark.parametrize(
    ("environment", "change", "said"),
    [
        ({"LD_PRELOAD": "/lib/other.so"}, with_nothing, "container program sets LD_PRELOAD"),
        ({"LD_PRELOAD": ""}, with_nothing, "sets LD_PRELOAD"),
        ({"LD_PRELOAD": f"/lib/other.so:{LIBRARY}"}, with_nothing, f"begin it with nvshare's library: {LIBRARY}:"),
        ({"LD_PRELOAD": f"{LIBRARY}.old"}, with_nothing, "sets LD_PRELOAD"),
        ({}, with_source, "sets LD_PRELOAD"),
        ({"NVSHARE_RUN_DIR": "/tmp"}, with_nothing, "container program sets NVSHARE_RUN_DIR"),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, with_nothing, "container program sets NVIDIA_VISIBLE_DEVICES"),
        ({}, in_init_container, "container first sets NVIDIA_VISIBLE_DEVICES"),
    ],
)
def test_overriding_is_refused(
    policy: None, environment: Mapping[str, str], change: Callable[[Object], None], said: str
) -> None:
    """A pod that asks for a GPU and would not take turns is refused; the message names the container and what to do."""
    made = never_placed("overrides", environment)
    change(made)
    assert said in refusal(made)


@pytest.mark.parametrize(
    ("environment", "change"),
    [
        ({}, with_nothing),
        ({"LD_PRELOAD": LIBRARY}, with_nothing),
        ({"LD_PRELOAD": f"{LIBRARY}:/lib/other.so"}, with_nothing),
        ({"OTHER": "LD_PRELOAD"}, with_nothing),
        ({"LD_PRELOAD": "/lib/other.so", "NVIDIA_VISIBLE_DEVICES": "all"}, without_gpu),
    ],
)
def test_others_are_allowed(policy: None, environment: Mapping[str, str], change: Callable[[Object], None]) -> None:
    """Nvshare's library first, or no GPU asked for: the policy has nothing against it."""
    made = never_placed("keeps", environment)
    change(made)
    assert refusal(made) == ""


def test_ephemeral_containers(policy: None) -> None:
    """What is added to a pod that is there is looked at, too; what the pod itself has stays as it is."""
    name = "debugged"
    apply(never_placed(name))
    try:
        with pytest.raises(KubectlError, match="container look sets NVIDIA_VISIBLE_DEVICES"):
            add_ephemeral(name, {"NVIDIA_VISIBLE_DEVICES": "all"})
        add_ephemeral(name, {"OTHER": "all"})
        assert get("pod", name)["spec"]["ephemeralContainers"][0]["name"] == "look"
    finally:
        delete(name)


def add_ephemeral(name: str, environment: Mapping[str, str]) -> None:
    """As ``kubectl debug`` does."""
    container: dict[str, Any] = {
        "name": "look",
        "image": "docker.io/nvshare/nvshare:none",
        "env": [{"name": key, "value": value} for key, value in environment.items()],
    }
    patch = json.dumps({"spec": {"ephemeralContainers": [container]}})
    kubectl("patch", "pod", name, "--namespace", TESTS, "--subresource=ephemeralcontainers", "--patch", patch)


def test_a_deployment_says_why_it_has_no_pods(policy: None) -> None:
    """The Deployment is taken, its pod is not; the message is in its condition."""
    template = never_placed("template", {"LD_PRELOAD": "/lib/other.so"})
    labels = {"app": "overrides"}
    spec = {**template["spec"], "restartPolicy": "Always"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "overrides", "namespace": TESTS},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    apply(deployment)
    try:
        eventually(
            "its condition says why",
            lambda: "sets LD_PRELOAD" in str(get("deployment", "overrides")["status"].get("conditions")),
            60,
        )
    finally:
        kubectl("delete", "deployment", "overrides", "--namespace", TESTS)


def test_a_quota_limits_a_namespace(node: Node) -> None:
    """With the sample a namespace has four virtual GPUs: the pod that asks for a fifth is refused."""
    kubectl("apply", "--namespace", TESTS, "--filename", QUOTA)
    try:
        eventually("it counts", lambda: get("resourcequota", "shared-gpus")["status"]["hard"], 60)
        apply(never_placed("within", gpus=4))
        with pytest.raises(KubectlError, match=f"exceeded quota: shared-gpus, requested: requests.{RESOURCE}=1"):
            apply(never_placed("beyond"))
        delete("within")
    finally:
        kubectl("delete", "--namespace", TESTS, "--filename", QUOTA)


@pytest.fixture
def looker(simulated: Node) -> Iterator[str]:
    """A user with the role nvshare-operator and no other right."""
    name = "looker"
    kubectl("create", "rolebinding", name, "--namespace", SYSTEM, "--role=nvshare-operator", f"--user={name}")
    try:
        yield name
    finally:
        kubectl("delete", "rolebinding", name, "--namespace", SYSTEM)


def test_who_may_only_look(looker: str) -> None:
    """With the policy the role is for what ``kubectl nvshare`` executes; administrators execute what they like."""

    def executed(*command: str, user: str = looker) -> str:
        return kubectl("exec", "--namespace", SYSTEM, *([f"--as={user}"] if user else []), SCHEDULER, "--", *command)

    def refused(*command: str) -> bool:
        try:
            executed(*command)
        except KubectlError as error:
            return "only nvshare-ctl status and nvshare-ctl timeline may be executed here" in str(error)
        return False

    assert not refused("true"), "without the policy the role is for every command"
    kubectl("apply", "--filename", LOOK_ONLY)
    try:
        eventually("it is in force", lambda: refused("true"), 60)
        assert all(
            refused(*each) for each in (["nvshare-ctl", "set", "quantum", "2"], ["nvshare-ctl"], ["sh", "-c", ":"])
        )
        assert '"devices"' in executed("nvshare-ctl", "status", "--output", "json")
        assert '"seconds"' in executed("nvshare-ctl", "timeline", "--seconds", "1", "--output", "json")
        assert executed("echo", "all", user="") == "all\n"
    finally:
        kubectl("delete", "--filename", LOOK_ONLY)
