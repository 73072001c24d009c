"""What containers get that use a claim."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvshare.deviceplugin.answers.allocation import DeviceListStrategy, Injection, Mount
from nvshare.deviceplugin.claims.claim import Record, record_of
from nvshare.deviceplugin.claims.edits import device_ids, specification
from tests.deviceplugin.claims.bench import GPU_A, GPU_B, NODE, claim, configuration, result

INJECTION = Injection(Path("/var/lib/nvshare/lib"), Path("/run/host/client"))


def record(*results: dict[str, Any]) -> Record:
    return record_of(claim("u", *results), "u", NODE, (GPU_A, GPU_B))


def edits(made: Record, injection: Injection, **nodes: tuple[Path, ...]) -> dict[str, Any]:
    """By the CDI device's name."""
    document = json.loads(specification(made, injection, lambda uuid: nodes.get(uuid[-1], ())))
    assert document["kind"] == "nvshare.com/claim"
    return {device["name"]: device["containerEdits"] for device in document["devices"]}


def strategies(*names: str) -> Injection:
    return replace(INJECTION, strategies=frozenset(map(DeviceListStrategy, names)))


def test_the_library() -> None:
    """Every container gets the library, the scheduler's socket and what the settings add, as with virtual devices."""
    injection = replace(
        INJECTION, environment={"A": "b"}, mounts=(Mount(Path("/data"), Path("/mnt"), read_only=False),)
    )
    (of_request,) = edits(record(result()), injection).values()
    assert of_request["env"] == [
        "A=b",
        "LD_PRELOAD=/usr/lib/nvshare/libnvshare.so",
        "NVSHARE_RUN_DIR=/var/run/nvshare",
        f"NVIDIA_VISIBLE_DEVICES={GPU_A}",
        f"NVSHARE_MEMORY_LIMIT={8 << 30}",
    ]
    assert [(each["hostPath"], each["containerPath"], each["options"][0]) for each in of_request["mounts"]] == [
        ("/var/lib/nvshare/lib", "/usr/lib/nvshare", "ro"),
        ("/run/host/client", "/var/run/nvshare/client", "ro"),
        ("/data", "/mnt", "rw"),
    ]


def test_a_device_for_each_request() -> None:
    """Each has the variables of the whole claim: of a name that comes twice the last counts. Mounts are its own."""
    made = record(result(GPU_A, "a"), result(GPU_B, "b/small"))
    found = edits(made, strategies("envvar"))
    assert list(found) == ["u.a", "u.b"]
    for each in found.values():
        assert f"NVIDIA_VISIBLE_DEVICES={GPU_A},{GPU_B}" in each["env"]
    found = edits(made, strategies("volume-mounts"))
    ends = {name: [each["containerPath"] for each in of["mounts"]][2:] for name, of in found.items()}
    folder = "/var/run/nvidia-container-devices"
    assert ends == {"u.a": [f"{folder}/{GPU_A}"], "u.b": [f"{folder}/{GPU_B}"]}


def test_containers_that_count_see_their_own() -> None:
    """In the claim that Kubernetes makes for a pod: what one container was given another one does not see."""
    results = (
        result(GPU_A, "container-0-request-0"),
        result(GPU_B, "container-1-request-0"),
        result(GPU_A, "container-10-request-0"),
        result(GPU_B, "container-10-request-1"),
    )
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    found = edits(record_of(claim("u", *results, annotations=annotations), "u", NODE, (GPU_A, GPU_B)), INJECTION)
    seen = [
        line.removeprefix("NVIDIA_VISIBLE_DEVICES=")
        for each in found.values()
        for line in each["env"]
        if line.startswith("NVIDIA_VISIBLE_DEVICES=")
    ]
    assert seen == [GPU_A, GPU_B, f"{GPU_A},{GPU_B}", f"{GPU_A},{GPU_B}"]


def test_device_nodes() -> None:
    """Where the plugin gives device nodes itself, a request has those of its GPUs, each once."""
    made = record(result(GPU_A, "a"), result(GPU_B, "a"), result(GPU_B, "b"))
    control = Path("/dev/nvidiactl")
    injection = replace(INJECTION, dev_root=Path("/host"))
    found = edits(made, injection, a=(control, Path("/dev/nvidia0")), b=(control, Path("/dev/nvidia1")))
    assert [each["path"] for each in found["u.a"]["deviceNodes"]] == ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"]
    assert [each["hostPath"] for each in found["u.b"]["deviceNodes"]] == ["/host/dev/nvidiactl", "/host/dev/nvidia1"]


def test_what_kubelet_is_told() -> None:
    """A request's CDI device comes once, with its first GPU; NVIDIA's of each GPU where those are asked for."""
    made = record(result(GPU_A, "a"), result(GPU_B, "a"), result(GPU_A, "a", shareID="2"))
    (request,) = made.requests
    own = "nvshare.com/claim=u.a"
    assert device_ids(made, request, INJECTION) == ((own,), (), ())
    a, b = (f"nvidia.com/gpu={uuid}" for uuid in (GPU_A, GPU_B))
    for strategy in ("cdi-cri", "cdi-annotations"):
        assert device_ids(made, request, strategies(strategy)) == ((own, a), (b,), ())


def test_a_limit_for_when_there_is_no_scheduler() -> None:
    """What the claim may have of each GPU; none where that is not one number."""

    def said(*results: dict[str, Any], **more: Any) -> set[str]:
        made = record_of(claim("u", *results, **more), "u", NODE, (GPU_A, GPU_B))
        found = [line for each in edits(made, INJECTION).values() for line in each["env"]]
        return {line for line in found if line.startswith("NVSHARE_MEMORY_LIMIT=")}

    a, b = result(GPU_A, "a"), result(GPU_B, "b")
    assert said(a, b) == {f"NVSHARE_MEMORY_LIMIT={8 << 30}"}
    assert said(a, result(GPU_A, "b")) == {f"NVSHARE_MEMORY_LIMIT={16 << 30}"}
    assert said(a, config=[configuration(memoryLimit="12Gi")]) == {f"NVSHARE_MEMORY_LIMIT={12 << 30}"}
    assert said(a, result(GPU_B, "b", memory="4Gi")) == set()
    assert said(a, result(GPU_B, "b", adminAccess=True)) == set()
    assert said(a, annotations={"resource.kubernetes.io/extended-resource-claim": "true"}) == set()
