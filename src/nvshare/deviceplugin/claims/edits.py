"""What containers get that use a claim, as CDI describes it. Pure.

Each request of a claim is a CDI device of its own: a container may use one request, or the whole claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from nvshare import cdi
from nvshare.deviceplugin.answers.allocation import Injection, device_nodes, environment, mounts, uses_cdi
from nvshare.deviceplugin.claims.claim import Record, Request
from nvshare.paths import MEMORY_LIMIT

KIND: Final = "nvshare.com/claim"


def file_name(uid: str) -> str:
    """What the file of a claim is called."""
    return cdi.file_name(f"{KIND}-{uid}")


def device_name(uid: str, request: str) -> str:
    """What the CDI device of a request is called: no other claim of the node has one of that name."""
    return f"{uid}.{request}"


def device_ids(record: Record, request: Request, injection: Injection) -> tuple[tuple[str, ...], ...]:
    """How the CDI devices of a request are asked for, with each of its GPUs; none twice."""
    own = [(cdi.device(KIND, device_name(record.uid, request.name)),), *[()] * (len(request.devices) - 1)]
    if not uses_cdi(injection.strategies):
        return tuple(own)
    firsts = {device.uuid: place for place, device in reversed(list(enumerate(request.devices)))}
    return tuple(
        (*ids, *((cdi.device(injection.cdi_kind, device.uuid),) if firsts[device.uuid] == place else ()))
        for place, (ids, device) in enumerate(zip(own, request.devices, strict=True))
    )


def specification(record: Record, injection: Injection, nodes: Callable[[str], Iterable[Path]]) -> bytes:
    """The content of a claim's file. ``nodes``: the device nodes of a GPU."""
    devices = [
        {
            "name": device_name(record.uid, request.name),
            "containerEdits": _edits(record, request, injection, nodes),
        }
        for request in record.requests
    ]
    return cdi.document(KIND, devices)


def _memory_limit(record: Record) -> dict[str, str]:
    """The variable that limits a program of the claim which begins while there is no scheduler; later the scheduler's
    word counts. Where GPUs of the claim have different limits, or none, one variable can't say it.
    """
    first, *others = set(record.limits().values())
    return {} if others or first is None else {MEMORY_LIMIT: str(first)}


def _edits(
    record: Record, request: Request, injection: Injection, nodes: Callable[[str], Iterable[Path]]
) -> dict[str, Any]:
    uuids = tuple(dict.fromkeys(device.uuid for device in request.devices))
    # A container with several requests gets the variables of each, and the last of a name counts.
    variables = environment(record.visible_with(request.name), injection) | _memory_limit(record)
    paths = (path for uuid in uuids for path in nodes(uuid))
    return {
        "env": [f"{name}={value}" for name, value in variables.items()],
        "mounts": [
            {
                "hostPath": str(mount.host_path),
                "containerPath": str(mount.container_path),
                "options": ("ro" if mount.read_only else "rw", "rbind", "rprivate"),
            }
            for mount in mounts(uuids, injection)
        ],
        "deviceNodes": [
            {"path": str(node.container_path), "hostPath": str(node.host_path), "permissions": "rw"}
            for node in device_nodes(paths, injection)
        ],
    }
