"""The node's own object: what it says about nvshare, and the settings that its label chooses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from nvshare.kubernetes.api_server import ApiError, ApiServer, Document
from nvshare.log import Log
from nvshare.nodeagent.readiness import Verdict

READY: Final = "nvshare.com/Ready"
"""The type of the condition, and the label's key."""
CONFIG: Final = "nvshare.com/device-plugin.config"
"""The key of the label that names the plugin's settings."""
PRODUCT: Final = "nvshare.com/gpu.product"
MEMORY: Final = "nvshare.com/gpu.memory"
COUNT: Final = "nvshare.com/gpu.count"
GPU_LABELS: Final = (PRODUCT, MEMORY, COUNT)
"""The keys of the labels about the node's GPUs."""
_HEARTBEAT_SECONDS = 300.0
"""As often as kubelet tells of a node of which there is no news."""
_RETRY_SECONDS = 10.0
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Node:
    """What is needed of the node's object."""

    config: str
    """What its label says; empty: it has no such label."""
    label: str
    """What the label about nvshare says; empty: it is not there."""
    condition: tuple[str, str, str] | None
    """Status, reason and message; None: it is not there."""
    since: str = ""
    """When the condition's status changed last, as the API writes it."""
    gpu_labels: Mapping[str, str] = field(default_factory=dict)
    """Its labels about its GPUs, by their keys."""
    version: str = ""
    """Another one after every change, also back to what it was."""


def node_of(document: Document) -> Node:
    """KeyError, TypeError, ValueError or AttributeError for what is no node."""
    labels = document["metadata"].get("labels") or {}
    conditions = document.get("status", {}).get("conditions") or ()
    own: dict[str, Any] = next((each for each in conditions if each["type"] == READY), {})
    config = labels.get(CONFIG, "")
    if config and not _LABEL.fullmatch(config):
        raise ValueError(config)
    return Node(
        config,
        str(labels.get(READY, "")),
        (str(own["status"]), str(own.get("reason", "")), str(own.get("message", ""))) if own else None,
        str(own.get("lastTransitionTime") or ""),
        {key: str(labels[key]) for key in GPU_LABELS if key in labels},
        str(document["metadata"].get("resourceVersion", "")),
    )


class NodeReport:
    """Keeps condition and label as they should be, and writes nothing while they are, but a heartbeat."""

    def __init__(self, api: ApiServer, name: str, log: Log, written: Callable[[], None]) -> None:
        """``written`` is called after every write."""
        self._api = api
        self._path = f"/api/v1/nodes/{name}"
        self._log = log
        self._written = written
        self._said: Verdict | None = None
        self._seen: Node | None = None
        """What the node's object was when it was last written to."""
        self._heartbeat_at = 0.0
        self._failed_at: float | None = None
        self._writing = asyncio.Lock()

    async def bring_up_to_date(self, node: Node, verdict: Verdict, now: float) -> None:
        """``node``: as it was seen last, which may be before what was written last."""
        stale = node == self._seen and verdict == self._said
        if (stale or _shows(node, verdict)) and now - self._heartbeat_at < _HEARTBEAT_SECONDS:
            return
        if self._failed_at is not None and now - self._failed_at < _RETRY_SECONDS:
            return
        try:
            # Who ends in the middle of it must not leave a half behind, which might come after the removal.
            await asyncio.shield(self._write(node, verdict))
        except ApiError as error:
            if self._failed_at is None:
                self._log.warning("the node's condition and label can't be written", reason=str(error))
            self._failed_at = now
            return
        if self._said is None or (self._said.ready, self._said.reason) != (verdict.ready, verdict.reason):
            self._log.info("said of the node", ready=verdict.ready, reason=verdict.reason, message=verdict.message)
        self._failed_at = None
        self._said, self._seen, self._heartbeat_at = verdict, node, now

    async def remove(self) -> None:
        """Takes condition and labels away, whatever they say; ApiError."""
        async with self._writing:
            await self._write_status({"type": READY, "$patch": "delete"})
            await self._write_labels(dict.fromkeys((READY, *GPU_LABELS)))
        self._written()

    async def _write(self, node: Node, verdict: Verdict) -> None:
        """``node``: as for ``bring_up_to_date``."""
        async with self._writing:
            time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            status = str(verdict.ready)
            same = node.condition is not None and node.condition[0] == status
            condition = {
                "type": READY,
                "status": status,
                "reason": verdict.reason.value,
                "message": verdict.message,
                "lastHeartbeatTime": time,
                "lastTransitionTime": node.since if same and node.since else time,
            }
            await self._write_status(condition)
            if node.label != _label(verdict):
                await self._write_labels({READY: _label(verdict)})
        self._written()

    async def _write_status(self, condition: Document) -> None:
        await self._api.patch(f"{self._path}/status", "strategic-merge-patch", {"status": {"conditions": [condition]}})

    async def _write_labels(self, labels: Mapping[str, str | None]) -> None:
        await self._api.patch(self._path, "merge-patch", {"metadata": {"labels": labels}})


def _shows(node: Node, verdict: Verdict) -> bool:
    condition = (str(verdict.ready), verdict.reason.value, verdict.message)
    return node.condition == condition and node.label == _label(verdict)


def _label(verdict: Verdict) -> str:
    return str(verdict.ready).lower()
