"""Claims of memory, the pods that have them, and what the node's parts say of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.e2e.kubectl import TESTS, Object, get, kubectl, scheduler_status
from tests.e2e.node import Node
from tests.e2e.programs import pod

DRIVER = "gpu.nvshare.com"
"""Also the name of the class for whole GPUs."""
MIG_CLASS = "mig.nvshare.com"
MIB = 1 << 20
_API = "resource.k8s.io/v1"
_VALUES = (
    "simulated.enabled=true",
    "scheduler.reserve=64MiB",
    "allocation=dra",
    "overcommit=2",
)
_RECORDS = f"/var/lib/kubelet/plugins/{DRIVER}/claims"

_USE_ALL = """
import ctypes, json, sys, time
from pathlib import Path
cuda = ctypes.CDLL("libcuda.so.1")
MIB, seconds, until = 1 << 20, float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
def call(name, *arguments):
    assert not (answer := getattr(cuda, name)(*arguments)), (name, answer)
device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
identity = ctypes.create_string_buffer(16)
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDeviceGetUuid_v2", identity, device)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
have, places = 0, []
while not (answer := cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(32 * MIB))):
    places.append(place.value)
    have += 32
def write(value):
    for each in places:
        call("cuMemsetD8_v2", ctypes.c_void_p(each), ctypes.c_ubyte(value), ctypes.c_size_t(32 * MIB))
def look(value):
    seen = (ctypes.c_ubyte * 4096)()
    for each in places:
        call("cuMemcpyDtoH_v2", seen, ctypes.c_void_p(each + 32 * MIB - 4096), ctypes.c_size_t(4096))
        assert bytes(seen) == bytes([value]) * 4096, each
said = {"device": identity.raw.hex(), "total": total.value // MIB, "have": have, "answer": answer}
print(json.dumps({"event": "Started", **said}), flush=True)
end, value = time.monotonic() + seconds, 0
while time.monotonic() < end or until and not Path(until).exists():
    value = (value + 1) % 256
    write(value)
    time.sleep(0.2)
    look(value)
print(json.dumps({"event": "Ended", "right": True}), flush=True)
"""
"""Allocates until it is refused more, says so, and writes to all that it has and looks at it for so many seconds.

It fails when it sees anything else than what it wrote.
"""

UNTIL = "/dev/shm/end"


def settings(*more: str) -> list[str]:
    """The chart's values for claims, and more of them, as words of helm."""
    return [word for value in (*_VALUES, *more) for word in ("--set", value)]


def prepared(node: Node) -> list[str]:
    """The records of claims on the node."""
    return node.names(_RECORDS, ".json")


def using_all(seconds: float = 0.0, *, until_told: bool = False) -> list[str]:
    """A program that takes all memory that it may have on its GPU and uses it."""
    return ["python3", "-c", _USE_ALL, str(seconds), *([UNTIL] if until_told else [])]


def claim_spec(
    mebibytes: int | None,
    parameters: Mapping[str, object] | None = None,
    count: int = 1,
    constraints: Sequence[Object] = (),
    device_class: str = DRIVER,
) -> Object:
    """Of a claim with one request, ``gpu``, for so much memory; None: as much as a share has."""
    exactly: Object = {"deviceClassName": device_class, "count": count}
    if mebibytes is not None:
        exactly["capacity"] = {"requests": {"memory": f"{mebibytes}Mi"}}
    devices: Object = {"requests": [{"name": "gpu", "exactly": exactly}], "constraints": list(constraints)}
    if parameters is not None:
        said = {"apiVersion": f"{DRIVER}/v1", "kind": "ShareConfig", **parameters}
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": said}}]
    return {"devices": devices}


def claim(
    name: str,
    mebibytes: int | None,
    parameters: Mapping[str, object] | None = None,
    *,
    count: int = 1,
    device_class: str = DRIVER,
) -> Object:
    """A claim of its own, which several pods may have."""
    metadata = {"name": name, "namespace": TESTS}
    spec = claim_spec(mebibytes, parameters, count, device_class=device_class)
    return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def template(name: str, mebibytes: int | None, parameters: Mapping[str, object] | None = None) -> Object:
    """A claim of which each pod gets one of its own."""
    metadata = {"name": name, "namespace": TESTS}
    spec = {"spec": claim_spec(mebibytes, parameters)}
    return {"apiVersion": _API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def claiming(name: str, command: Sequence[str], *, own: str | None = None, shared: str | None = None) -> Object:
    """A pod of one container with a claim made from the template ``own``, or with the claim ``shared``."""
    made = pod(name, command)
    source = {"resourceClaimTemplateName": own} if own else {"resourceClaimName": shared}
    made["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return made


def claims() -> list[Object]:
    """All claims of the tests' namespace."""
    found: list[Object] = get("resourceclaims")["items"]
    return found


def slices() -> list[Object]:
    """What the nodes say that they have."""
    found = get("resourceslices")["items"]
    return [each for each in found if each["spec"]["driver"] == DRIVER]


def devices() -> list[Object]:
    """Of all slices."""
    return [device for each in slices() for device in each["spec"].get("devices", [])]


def capacity_of(device: Object, name: str) -> int:
    """A capacity that is written in bytes, or as Kubernetes writes them."""
    text = str(device["capacity"][name]["value"])
    for suffix, factor in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * factor
    return int(text)


def accounts(device: Object) -> dict[str, list[Object]]:
    """The clients of a device in the scheduler's status by their account."""
    found: dict[str, list[Any]] = {}
    for client in device["clients"]:
        found.setdefault(client["member_of"], []).append(client)
    return found


def breaches() -> list[str]:
    """What the scheduler's status shows now that no claim may lead to."""
    found = []
    for device in scheduler_status()["devices"]:
        requested = (device["claimed"] or {}).get("requested_bytes", 0)
        if requested > device["total_bytes"]:
            found.append(f"{requested} of {device['total_bytes']} bytes are requested")
        for account, clients in accounts(device).items():
            limit = clients[0]["terms"].get("memory_limit_bytes")
            have = sum(client["footprint_bytes"] or 0 for client in clients)
            if account.startswith("claim:") and (limit is None or have > limit):
                found.append(f"{account} has {have} bytes, of {limit}")
    return found


def events_of(name: str) -> str:
    """What the cluster says of a pod, as a person sees it."""
    return kubectl("get", "events", "--namespace", TESTS, "--field-selector", f"involvedObject.name={name}")
