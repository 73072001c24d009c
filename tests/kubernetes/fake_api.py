"""A Kubernetes API server as a node agent sees one: lists, watches and patches over TLS, as on a real one's wire."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import Document
from tests.kubernetes.documents import NAMESPACE, NODE

TOKEN = "the-token"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_SELECTORS = {
    "/api/v1/pods": f"spec.nodeName={NODE}",
    "/api/v1/nodes": f"metadata.name={NODE}",
    SLICES: f"spec.driver=gpu.nvshare.com,spec.nodeName={NODE}",
}


def make_account(folder: Path, port: int = 0) -> Account:
    """What kubelet mounts, and a key for the server at 127.0.0.1 beside it."""
    folder.mkdir(exist_ok=True)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    options = ["-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", folder / "key", "-out", folder / "ca.crt"]
    subprocess.run([*command, *options, *files], check=True, capture_output=True, timeout=60)
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "namespace").write_text(NAMESPACE)
    return Account("127.0.0.1", port, folder)


@dataclass(slots=True)
class Cluster:
    """What there is; a test changes it."""

    version: int = 100
    objects: dict[str, dict[str, Document]] = field(default_factory=lambda: {path: {} for path in _SELECTORS})
    """By path and uid."""
    happened: list[tuple[int, str, Document]] = field(default_factory=list)
    """What watches tell: the version, the path, the event."""
    events: dict[str, Document] = field(default_factory=dict)
    """By name."""
    written: list[tuple[str, Document]] = field(default_factory=list)
    """All patches: the path and the patch."""
    daemon_sets: set[str] = field(default_factory=set)
    """The paths of those that there are. One that is deleted stays until the test takes it away: it has pods."""
    deleted: list[tuple[str, Document]] = field(default_factory=list)
    """Paths, and with which options."""
    asked: list[str] = field(default_factory=list)
    """The lines of all requests."""
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    """What requests with this word in their line are refused with."""
    garbage: bytes = b""
    """What is answered instead, status 200; empty: what is right."""
    ends_at_once: bool = False
    """Watches end well before anything happened."""
    unknown_fields: set[str] = field(default_factory=set)
    """Of devices in slices: this server drops them."""
    answers: threading.Event = field(default_factory=threading.Event)
    """While it is cleared, nothing is answered but watches that are on."""
    token: str = TOKEN
    watches: int = 0
    """How many there are now."""
    generation: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.answers.set()

    def put(self, path: str, document: Document) -> None:
        """An object is made or changed."""
        with self.changed:
            self._put(path, document)

    def delete(self, path: str, uid: str) -> None:
        """An object is gone."""
        with self.changed:
            document = self.objects[path].pop(uid)
            self.version += 1
            document = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}}
            self.happened.append((self.version, path, {"type": "DELETED", "object": document}))
            self.changed.notify_all()

    def tell(self, path: str, event: Document) -> None:
        """Watches of a path say this, whatever it is."""
        with self.changed:
            self.version += 1
            self.happened.append((self.version, path, event))
            self.changed.notify_all()

    def end_watches(self) -> None:
        """All connections of watches end."""
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    def slices(self) -> list[Document]:
        """Those that there are."""
        return list(self.objects[SLICES].values())

    def slice(self) -> Document:
        """The only one."""
        (one,) = self.slices()
        return one

    def put_slice(self, document: Document, *, new: bool) -> tuple[int, Document | str]:
        """As the API server makes or replaces one; its status, and the slice as it is then or why it is not."""
        with self.changed:
            name = document["metadata"]["name"]
            present = next((each for each in self.slices() if each["metadata"]["name"] == name), None)
            if new == (present is not None):
                return (409, f"{name} already exists") if new else (404, f"{name} not found")
            version = document["metadata"].get("resourceVersion")
            if present is not None and version not in (None, present["metadata"]["resourceVersion"]):
                return 409, "the object has been modified"
            document = json.loads(json.dumps(document))
            document["metadata"]["uid"] = f"uid-{self.version}" if present is None else present["metadata"]["uid"]
            for device in document["spec"]["devices"]:
                for unknown in self.unknown_fields:
                    device.pop(unknown, None)
                for taint in device.get("taints", ()):
                    taint["timeAdded"] = "2026-01-01T00:00:00Z"
            self._put(SLICES, document)
            return (201 if new else 200), self.objects[SLICES][document["metadata"]["uid"]]

    def node(self) -> Document:
        """The node, as it is now."""
        return next(iter(self.objects["/api/v1/nodes"].values()))

    def condition(self) -> Document:
        """What the node says about nvshare; empty: nothing."""
        conditions = self.node()["status"]["conditions"]
        return next((each for each in conditions if each["type"] == "nvshare.com/Ready"), {})

    def label(self) -> str | None:
        """The label about nvshare; None: it is not there."""
        label: str | None = self.node()["metadata"].get("labels", {}).get("nvshare.com/Ready")
        return label

    def _put(self, path: str, document: Document) -> None:
        uid = document["metadata"]["uid"]
        self.version += 1
        kind = "MODIFIED" if uid in self.objects[path] else "ADDED"
        document = json.loads(json.dumps(document))
        document["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path][uid] = document
        self.happened.append((self.version, path, {"type": kind, "object": document}))
        self.changed.notify_all()

    def patch_node(self, part: str, patch: Document) -> Document:
        """As the API server merges it; the node as it is then."""
        with self.changed:
            node = json.loads(json.dumps(self.node()))
            if part == "status":
                known = {each["type"]: each for each in node["status"]["conditions"]}
                for condition in patch["status"]["conditions"]:
                    if condition.get("$patch") == "delete":
                        known.pop(condition["type"], None)
                        continue
                    known[condition["type"]] = {**known.get(condition["type"], {}), **condition}
                node["status"]["conditions"] = list(known.values())
            else:
                labels = {**node["metadata"].get("labels", {}), **patch["metadata"]["labels"]}
                node["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
            self.written.append((part, patch))
            self._put("/api/v1/nodes", node)
            return node


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def cluster(self) -> Cluster:
        return self.server.cluster

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        if self._is_refused():
            return
        if "/daemonsets/" in address.path:
            self._daemon_set(address.path)
            return
        if "fieldSelector" not in query:
            self._one(address.path)
            return
        assert query["fieldSelector"] == _SELECTORS[address.path], query
        if query.get("watch"):
            self._watch(address.path, int(query["resourceVersion"]))
            return
        with self.cluster.changed:
            items = list(self.cluster.objects[address.path].values())
            version = str(self.cluster.version)
        self._send(200, {"kind": "List", "metadata": {"resourceVersion": version}, "items": items})

    def _one(self, address: str) -> None:
        """An object by its name."""
        if (found := self._named(address)) is None:
            self._error(404, f"{address} not found")
        else:
            self._send(200, found)

    def _named(self, address: str) -> Document | None:
        path, _, name = address.rpartition("/")
        known = self.cluster.objects.get(path, {})
        return next((each for each in known.values() if each["metadata"]["name"] == name), None)

    def do_PUT(self) -> None:
        body = self._body()
        if not self._is_refused():
            self._answer(*self.cluster.put_slice(body, new=False))

    def _answer(self, status: int, said: Document | str) -> None:
        if isinstance(said, str):
            self._error(status, said)
        else:
            self._send(status, said)

    def do_DELETE(self) -> None:
        body = self._body()
        if self._is_refused():
            return
        if self.path.startswith(SLICES):
            found = self._named(self.path)
            if found is not None:
                self.cluster.delete(SLICES, found["metadata"]["uid"])
            self._answer(*((404, f"{self.path} not found") if found is None else (200, found)))
            return
        if self._daemon_set(self.path):
            self.cluster.deleted.append((self.path, body))

    def _daemon_set(self, path: str) -> bool:
        """Answers whether there is one at this path."""
        if path in self.cluster.daemon_sets:
            self._send(200, {"kind": "DaemonSet"})
            return True
        self._error(404, "there is no such DaemonSet")
        return False

    def do_POST(self) -> None:
        body = self._body()
        if self._is_refused():
            return
        assert self.headers["Content-Type"] == "application/json"
        if self.path == SLICES:
            self._answer(*self.cluster.put_slice(body, new=True))
            return
        name = body["metadata"]["name"]
        if name in self.cluster.events:
            self._error(409, f"events {name} already exists")
        else:
            self.cluster.events[name] = body
            self._send(201, body)

    def do_PATCH(self) -> None:
        body = self._body()
        if self._is_refused():
            return
        kind = self.headers["Content-Type"]
        match urlsplit(self.path).path.strip("/").split("/"):
            case ["api", "v1", "nodes", name, "status"] if name == NODE:
                assert kind == "application/strategic-merge-patch+json"
                self._send(200, self.cluster.patch_node("status", body))
            case ["api", "v1", "nodes", name] if name == NODE:
                assert kind == "application/merge-patch+json"
                self._send(200, self.cluster.patch_node("metadata", body))
            case ["api", "v1", "namespaces", _, "events", name]:
                assert kind == "application/merge-patch+json"
                self.cluster.events[name] |= body
                self.cluster.written.append(("event", body))
                self._send(200, self.cluster.events[name])
            case _:
                self._error(404, "there is no such thing")

    def _is_refused(self) -> bool:
        """Whether it was answered here."""
        self.cluster.asked.append(f"{self.command} {self.path}")
        self.cluster.answers.wait()
        if self.headers["Authorization"] != f"Bearer {self.cluster.token}":
            self._error(401, "Unauthorized")
            return True
        for word, (code, message) in list(self.cluster.refusals.items()):
            if word in f"{self.command} {self.path}":
                self._error(code, message)
                return True
        if self.cluster.garbage:
            self._send(200, self.cluster.garbage)
        return bool(self.cluster.garbage)

    def _watch(self, path: str, version: int) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with self.cluster.changed:
            generation, over = self.cluster.generation, self.cluster.ends_at_once
            self.cluster.watches += 1
        try:
            while not over:
                with self.cluster.changed:
                    # One that begins while the server goes is no longer among those that it ends.
                    while not (ended := self.server.gone.is_set() or self.cluster.generation != generation) and not (
                        news := self._since(path, version)
                    ):
                        self.cluster.changed.wait(60)
                    if ended:
                        return
                    version = self.cluster.version
                for event in news:
                    # As it comes over a network: cut anywhere.
                    self._chunk(event)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass
        finally:
            self.close_connection = True
            with self.cluster.changed:
                self.cluster.watches -= 1

    def _since(self, path: str, version: int) -> list[Document]:
        return [event for at, where, event in self.cluster.happened if at > version and where == path]

    def _chunk(self, event: Document) -> None:
        data = json.dumps(event, ensure_ascii=False).encode() + b"\n"
        for piece in (data[:7], data[7:]):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _error(self, code: int, message: str) -> None:
        self._send(code, {"kind": "Status", "status": "Failure", "message": message, "code": code})

    def _send(self, code: int, document: Document | bytes) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.cluster = cluster
        self.gone = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no news."""


@contextmanager
def serving(cluster: Cluster, folder: Path, port: int = 0) -> Iterator[Account]:
    """The API server from start to end, for the account in this folder, which is made if it is not there."""
    made = Account("127.0.0.1", 0, folder) if (folder / "key").exists() else make_account(folder)
    server = _Server(port, cluster)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.folder / "ca.crt", made.folder / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield Account("127.0.0.1", server.server_port, folder)
    finally:
        cluster.answers.set()
        server.shutdown()
        server.gone.set()
        cluster.end_watches()
        thread.join()
        server.server_close()
