"""Labels that say which GPUs a node shares: their names and values are those of NVIDIA's GPU feature discovery.

Only the prefix is another one, so that both can be there, and each writes its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from nvshare import admin_channel
from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.kubernetes.api_server import ApiError, ApiServer
from nvshare.log import Log
from nvshare.nodeagent.node import COUNT, GPU_LABELS, MEMORY, PRODUCT, Node
from nvshare.unix_sockets import grpc_address

_ANSWER_SECONDS = 3.0
_RETRY_SECONDS = 10.0
_LONGEST = 63
"""Letters of a label's value."""
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Model:
    """What is the same of a GPU for as long as it is there."""

    name: str
    memory_bytes: int
    """0: not known."""


def labels_of(models: Collection[Model]) -> dict[str, str]:
    """The labels of a node that shares these GPUs.

    Where they differ there is no product, and the memory is that of the smallest: so much each of them has.
    """
    if not models:
        return {}
    labels = {COUNT: str(len(models))}
    names = {_value(model.name) for model in models}
    if len(names) == 1 and (name := names.pop()):
        labels[PRODUCT] = name
    if least := min(model.memory_bytes for model in models):
        labels[MEMORY] = str(least >> 20)
    return labels


class GpuLabels:
    """Keeps the labels as they should be. The scheduler knows the models; it is asked once for each GPU."""

    def __init__(self, api: ApiServer, node: str, admin_socket: Path, log: Log) -> None:
        """``node``: its name."""
        self._api = api
        self._path = f"/api/v1/nodes/{node}"
        self._socket = admin_socket
        self._log = log
        self._models: dict[str, Model] = {}
        self._written: tuple[Node, dict[str, str]] | None = None
        """The node's object as it was seen when it was last written to, and what was written."""
        self._failed_at: float | None = None

    async def bring_up_to_date(self, node: Node, gpus: Collection[str], now: float) -> None:
        """``gpus``: the UUIDs of those that are offered. While a model is not known, the labels stay as they are."""
        if not self._models.keys() >= set(gpus):
            await self._learn()
        if not self._models.keys() >= set(gpus):
            return
        wanted = labels_of([self._models[uuid] for uuid in gpus])
        if node.gpu_labels == wanted or self._written == (node, wanted):
            return
        if self._failed_at is not None and now - self._failed_at < _RETRY_SECONDS:
            return
        patch: Mapping[str, str | None] = {key: wanted.get(key) for key in GPU_LABELS}
        try:
            await self._api.patch(self._path, "merge-patch", {"metadata": {"labels": patch}})
        except ApiError as error:
            if self._failed_at is None:
                self._log.warning("the labels of the node's GPUs can't be written", reason=str(error))
            self._failed_at = now
            return
        self._failed_at = None
        self._written = node, wanted
        self._log.info("labels of the node's GPUs", **{key.partition("/")[2]: value for key, value in wanted.items()})

    async def _learn(self) -> None:
        async with grpc.aio.insecure_channel(grpc_address(self._socket), admin_channel.OPTIONS) as channel:
            try:
                status = await AdminStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=_ANSWER_SECONDS)
            except grpc.aio.AioRpcError:
                # That it does not answer is said where it is told of annotations.
                return
        self._models |= {each.uuid: Model(each.name, each.total_bytes) for each in status.devices if each.name}


def _value(name: str) -> str:
    return _NOT_IN_LABELS.sub("-", name)[:_LONGEST].strip("-._")
