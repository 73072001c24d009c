"""What is needed of a pod, from the API's document. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nvshare.nodeagent.annotations import Wishes, wishes_of
from nvshare.nodeagent.claims import ContainerClaim, claims_of

_STATIC_POD = "kubernetes.io/config.mirror"
"""The annotation with the uid that kubelet, and so the kernel, calls a pod by that it runs from a file."""
_ENDED = ("Succeeded", "Failed")
_PLUGIN_CONTAINER = "device-plugin"
_METRICS_PORT = "metrics"


@dataclass(frozen=True, slots=True)
class PluginPod:
    """A pod of nvshare's device plugin."""

    address: str
    """Empty: it has none yet."""
    port: int
    """Of its probes and metrics; 0: it serves none."""
    ready: bool
    """What kubelet found out by its probe."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node."""

    uid: str
    """As the API has it."""
    kernel_uid: str
    """As the cgroups of its processes have it."""
    namespace: str
    name: str
    ended: bool
    """None of its containers runs, or will run."""
    ending: bool
    """It has ended, or is to end: somebody deleted it."""
    wishes: Wishes
    claims: Mapping[str, tuple[ContainerClaim, ...]]
    """By container; the empty name: of the whole pod."""
    plugin: PluginPod | None = None


def reader(namespace: str) -> Callable[[dict[str, Any]], Pod]:
    """What reads pods; those of the device plugin are in this namespace.

    It raises KeyError, TypeError, ValueError or AttributeError for what is no pod.
    """
    return lambda document: _pod(document, namespace)


def _pod(document: dict[str, Any], plugin_namespace: str) -> Pod:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status") or {}
    annotations = metadata.get("annotations") or {}
    if not all(isinstance(text, str) for text in annotations.values()):
        raise TypeError("an annotation is no text")
    names = [
        str(container["name"])
        for kind in ("containers", "initContainers", "ephemeralContainers")
        for container in spec.get(kind) or ()
    ]
    namespace, ended = str(metadata["namespace"]), status.get("phase") in _ENDED
    return Pod(
        uid=str(metadata["uid"]),
        kernel_uid=annotations.get(_STATIC_POD) or str(metadata["uid"]),
        namespace=namespace,
        name=str(metadata["name"]),
        ended=ended,
        ending=ended or bool(metadata.get("deletionTimestamp")),
        wishes=wishes_of(annotations, names),
        claims=claims_of(spec, status),
        plugin=_plugin(spec, status) if namespace == plugin_namespace else None,
    )


def _plugin(spec: dict[str, Any], status: dict[str, Any]) -> PluginPod | None:
    container = next((each for each in spec["containers"] if each["name"] == _PLUGIN_CONTAINER), None)
    if container is None:
        return None
    ports = (port["containerPort"] for port in container.get("ports") or () if port.get("name") == _METRICS_PORT)
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return PluginPod(str(status.get("podIP") or ""), int(next(ports, 0)), conditions.get("Ready") == "True")
