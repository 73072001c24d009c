"""ResourceClaims as the API has them, and a node on which they are prepared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.claims.terms import API_VERSION, KIND
from nvshare.dra import DRIVER
from nvshare.kubernetes.api_server import NOT_FOUND, ApiError

NODE = "node-1"
GPU_A = "GPU-8E5C1D6A-0000-0000-0000-00000000000a"
GPU_B = "GPU-8e5c1d6a-0000-0000-0000-00000000000b"
MIG = "MIG-8e5c1d6a-0000-0000-0000-00000000000c"
GIB = 1 << 30

Document = dict[str, Any]


def result(uuid: str = GPU_A, request: str = "gpu", memory: str | None = "8Gi", **more: Any) -> Document:
    """What was allocated for a request."""
    capacity = {} if memory is None else {"consumedCapacity": {"memory": memory, "shares": "1"}}
    return {"request": request, "driver": DRIVER, "pool": NODE, "device": uuid.lower(), **capacity, **more}


def configuration(requests: Iterable[str] = (), source: str = "FromClaim", **fields: Any) -> Document:
    """What a configuration says for requests."""
    parameters = {"apiVersion": API_VERSION, "kind": KIND} | fields
    return {"source": source, "requests": list(requests), "opaque": {"driver": DRIVER, "parameters": parameters}}


def claim(
    uid: str,
    *results: Document,
    name: str = "share",
    namespace: str = "team",
    config: Iterable[Document] = (),
    annotations: Mapping[str, str] | None = None,
) -> Document:
    """A ResourceClaim that is allocated."""
    return {
        "metadata": {"uid": uid, "name": name, "namespace": namespace, "annotations": dict(annotations or {})},
        "status": {"allocation": {"devices": {"results": list(results or (result(),)), "config": list(config)}}},
    }


class Api:
    """The API server's claims."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], Document] = {}
        self.away = False

    def add(self, document: Document) -> None:
        metadata = document["metadata"]
        self.claims[metadata["namespace"], metadata["name"]] = document

    async def get(self, namespace: str, name: str) -> Document:
        if self.away:
            raise ApiError("no connection in time")
        try:
            return self.claims[namespace, name]
        except KeyError:
            raise ApiError("the API server refuses (404): not found", NOT_FOUND) from None


class NodeOfClaims:
    """The folders of a node, and what its driver knows; ``start`` is the driver's start."""

    def __init__(self, root: Path) -> None:
        self.records = root / "plugins" / DRIVER / "claims"
        self.cdi = root / "cdi"
        self.cdi.mkdir()
        self.api = Api()
        self.injection = Injection(Path("/var/lib/nvshare/lib"), Path("/var/run/nvshare/client"))
        self.offered = [GPU_A, GPU_B, MIG]
        self.nodes: dict[str, tuple[Path, ...]] = {}
        self.own: dict[str, int] = {GPU_A: 16 * GIB, GPU_B: 16 * GIB, MIG: 4 * GIB}
        self.log = structlog.testing.CapturingLogger()

    def start(self) -> Claims:
        made = Claims(
            self.records,
            NODE,
            self.api.get,
            self.injection,
            self.cdi,
            lambda uuid: self.nodes.get(uuid, ()),
            lambda: self.offered,
            self.own.get,
            structlog.wrap_logger(self.log, processors=[structlog.processors.JSONRenderer()]),
        )
        made.load()
        return made

    @property
    def logged(self) -> list[str]:
        return [" ".join(map(str, call.args)) for call in self.log.calls]

    @property
    def recorded(self) -> set[str]:
        return {file.stem for file in self.records.glob("[!.]*")} if self.records.is_dir() else set()

    @property
    def described(self) -> set[str]:
        prefix = "nvshare.com-claim-"
        return {file.stem.removeprefix(prefix) for file in self.cdi.glob("[!.]*")}

    def left_half_written(self) -> list[Path]:
        return [*self.records.glob(".*"), *self.cdi.glob(".*")]

    def devices(self, uid: str) -> dict[str, Document]:
        """A claim's CDI devices, by the name's last part, with what they edit."""
        document = json.loads((self.cdi / f"nvshare.com-claim-{uid}.json").read_text())
        assert document["kind"] == "nvshare.com/claim"
        assert all(device["name"].startswith(f"{uid}.") for device in document["devices"])
        return {device["name"].removeprefix(f"{uid}."): device["containerEdits"] for device in document["devices"]}
