"""An API server that knows pods and lets commands be executed in them, as a cluster's own answers on the wire."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

NAMESPACE = "nvshare-system"
LABEL = "app.kubernetes.io/name=nvshare-scheduler"
_WEBSOCKET_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_STDOUT, _STDERR, _RESULT = 1, 2, 3
_BINARY, _CLOSE = 2, 8


@dataclass(frozen=True, slots=True)
class Pod:
    """A scheduler's pod and what nvshare-ctl prints in it; ``refusal`` is the API server's."""

    name: str
    node: str
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    phase: str = "Running"
    waiting: str = ""
    """Why its container does not run; empty: it does."""
    leaving: bool = False
    refusal: str = ""


@dataclass(slots=True)
class Cluster:
    """What the server says; a test changes it."""

    pods: list[Pod] = field(default_factory=list)
    refusal: str = ""
    executed: list[tuple[str, list[str]]] = field(default_factory=list)


def _pod_document(pod: Pod) -> dict[str, Any]:
    metadata = {"name": pod.name, "namespace": NAMESPACE}
    if pod.leaving:
        metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    containers = [{"name": "scheduler"}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": pod.node, "containers": containers},
        "status": {
            "phase": pod.phase,
            "containerStatuses": [
                {
                    "name": "scheduler",
                    "image": "",
                    "imageID": "",
                    "ready": not pod.waiting,
                    "restartCount": 0,
                    "state": {"waiting": {"reason": pod.waiting}} if pod.waiting else {"running": {}},
                }
            ],
        },
    }


def _frame(opcode: int, payload: bytes) -> bytes:
    """One unmasked WebSocket frame."""
    head = bytes([0x80 | opcode])
    if len(payload) < 126:
        return head + bytes([len(payload)]) + payload
    return head + bytes([127]) + struct.pack(">Q", len(payload)) + payload


def _result(exit_code: int) -> bytes:
    if exit_code == 0:
        return json.dumps({"status": "Success"}).encode()
    causes = [{"reason": "ExitCode", "message": str(exit_code)}]
    return json.dumps({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}).encode()


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = parse_qs(address.query)
            parts = address.path.strip("/").split("/")
            match parts:
                case ["api", "v1", "namespaces", namespace, "pods"]:
                    assert query["labelSelector"] == [LABEL]
                    pods = cluster.pods if namespace == NAMESPACE else []
                    self._list(pods)
                case ["api", "v1", "namespaces", _, "pods", name, "exec"]:
                    pod = next(pod for pod in cluster.pods if pod.name == name)
                    assert query["container"] == ["scheduler"]
                    cluster.executed.append((name, query["command"]))
                    self._execute(pod)
                case _:
                    self._error(404, f"the server could not find {address.path}")

        def _list(self, pods: list[Pod]) -> None:
            if cluster.refusal:
                self._error(403, cluster.refusal)
            else:
                items = [_pod_document(pod) for pod in pods]
                self._send(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

        def _execute(self, pod: Pod) -> None:
            if pod.refusal:
                self._error(403, pod.refusal)
                return
            key = self.headers["Sec-WebSocket-Key"] + _WEBSOCKET_KEY
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
            self.end_headers()
            for channel, content in (
                (_STDOUT, pod.stdout.encode()),
                (_STDERR, pod.stderr.encode()),
                (_RESULT, _result(pod.exit_code)),
            ):
                self.wfile.write(_frame(_BINARY, bytes([channel]) + content))
            self.wfile.write(_frame(_CLOSE, struct.pack(">H", 1000)))
            self.close_connection = True

        def _error(self, code: int, message: str) -> None:
            self._send(code, {"kind": "Status", "status": "Failure", "message": message, "code": code})

        def _send(self, code: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    return Handler


@contextmanager
def serving(cluster: Cluster, kubeconfig: Path) -> Iterator[None]:
    """The API server; ``kubeconfig`` is written so that its context ``here`` means it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster))
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    write_kubeconfig(kubeconfig, f"http://127.0.0.1:{server.server_port}")
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_kubeconfig(path: Path, server: str, **more: str) -> None:
    """A kubeconfig with the contexts ``here``, the current one, of whose cluster it says more, and ``nowhere``."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "here", "cluster": {"server": server, **more}},
            {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
        ],
        "users": [{"name": "someone", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "someone"}} for name in ("here", "nowhere")],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump(document))
