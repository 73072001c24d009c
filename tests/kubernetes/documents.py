"""Objects of the Kubernetes API, as a node agent and a device plugin see them."""

from __future__ import annotations

from typing import Any

from nvshare.kubernetes.api_server import Document

NODE = "worker-1"
NAMESPACE = "nvshare-system"


def pod(name: str, annotations: dict[str, str] | None = None, uid: str = "", **more: Any) -> Document:
    """A running pod with the containers ``main`` and ``side``."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "annotations": annotations or {},
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "main"}, {"name": "side"}], **more},
        "status": {"phase": "Running"},
    }


def plugin_pod(port: int, *, ready: bool = True) -> Document:
    """The device plugin's, whose pages are at this port of this machine."""
    made = pod("nvshare-device-plugin-x")
    made["metadata"]["namespace"] = NAMESPACE
    made["spec"]["containers"] = [{"name": "device-plugin", "ports": [{"name": "metrics", "containerPort": port}]}]
    made["status"] |= {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return made


def node_document(**labels: str) -> Document:
    """The agent's node."""
    return {
        "metadata": {"name": NODE, "uid": "uid-node", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
