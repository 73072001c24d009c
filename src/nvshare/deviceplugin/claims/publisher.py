"""Keeps the node's ResourceSlice in the API as it is to be, whoever changes or deletes it.

kubelet deletes a node's slices when it begins, and those of a driver that has not been there for half a minute: what is
deleted is made again at once. Nothing is written that changes nothing. When the program ends the slice stays: the next
instance takes it over, or kubelet deletes it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from nvshare.deviceplugin.claims import slices
from nvshare.deviceplugin.claims.slices import Document, Node
from nvshare.dra import DRIVER
from nvshare.kubernetes.api_server import CONFLICT, NOT_FOUND, ApiError, ApiServer
from nvshare.kubernetes.mirror import Mirror
from nvshare.log import Log

_SHORTEST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_UNFIT_PAUSE = 300.0
"""A cluster is seldom changed so that it fits."""
_WITHDRAW_SECONDS = 3.0
_RIGHTS: Final = (
    "its service account needs the rights to get, list, watch, create, update and delete resourceslices of "
    "resource.k8s.io, to get resourceclaims, and to get nodes: the chart gives them where allocation is dra"
)
_OLD: Final = "the API server has no resource.k8s.io/v1: allocation dra needs Kubernetes 1.34 or later"
_EXCLUSIVE: Final = (
    "the API server does not know that claims can share a device: turn its feature gate DRAConsumableCapacity on, and "
    "that of kube-scheduler (Kubernetes 1.36 has it on)"
)
_NO_TAINTS: Final = (
    "the API server drops the taints of unhealthy GPUs, so that pods are sent to them: turn the feature gate "
    "DRADeviceTaints on (Kubernetes 1.36 has it on)"
)


class _UnfitError(Exception):
    """The cluster can't have the slice as it must be; the text says why."""


class Publisher:
    """The slice of one node. Lives in the event loop's thread; ``run`` writes."""

    def __init__(self, api: ApiServer, node: str, log: Log, written: Callable[[str], None]) -> None:
        """``written`` is told of each write: created, updated, deleted, conflict or error."""
        self._api = api
        self._node_name = node
        self._log = log
        self._written = written
        self._path = f"{slices.PATH}/{slices.slice_name(node)}"
        self._news = asyncio.Event()
        selector = f"spec.driver={DRIVER},spec.nodeName={node}"
        self._mirror = Mirror[str | None](api, slices.PATH, selector, self._read, self._news.set, log)
        self._wanted: list[Document] | None = None
        self._sent, self._stored = "", ""
        """The devices as they were written last, and what the server made of them."""
        self._generation = 0
        """The newest of the pool that is known."""
        self._write_problem = ""
        self._pauses = 0
        self.published = False
        """Whether the slice was there once as it was to be."""
        self.note: str | None = None
        """What is wrong with the cluster and keeps nobody from claiming; None: nothing."""

    @property
    def problem(self) -> str | None:
        """Why the slice is not as it is to be; None: it is, or it is not known yet what it is to be."""
        reason = self._write_problem
        if not reason and self._mirror.problem is not None:
            reason = _words(self._mirror.problem)
        return f"the node's ResourceSlice can't be kept up to date: {reason}" if reason else None

    @property
    def reached(self) -> bool:
        """Whether the API has said which slice of ours there is."""
        return self._mirror.objects is not None

    def listed(self) -> list[str]:
        """The names of the devices in the slice that is there, in its order."""
        return [device["name"] for device in json.loads(self._mirrored() or "[]")]

    def rest(self) -> None:
        """Leaves the slice as it is, until something is offered again."""
        self._wanted = None

    def offer(self, listed: Sequence[Document]) -> None:
        """These are the slice's devices from now on."""
        if listed != self._wanted:
            self._wanted = list(listed)
            self._news.set()

    async def run(self) -> None:
        """Keeps the slice until cancelled, whatever the API answers."""
        follow = asyncio.create_task(self._mirror.run())
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                await self._bring_up_to_date()
        finally:
            follow.cancel()
            with suppress(asyncio.CancelledError):
                await follow

    async def withdraw(self) -> None:
        """Deletes the slice, after ``run``: nobody is to claim the node's GPUs any more. A failure is logged."""
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS):
                await self._delete()
        except (ApiError, TimeoutError) as error:
            reason = str(error) or f"no answer within {_WITHDRAW_SECONDS:g} s"
            self._log.warning("the node's ResourceSlice stays until kubelet deletes it", reason=reason)

    async def _bring_up_to_date(self) -> None:
        if self._wanted is None or self._mirror.objects is None:
            return
        if self._is_right(self._mirrored()):
            self._succeeded()
            return
        try:
            await self._write(self._wanted)
        except (ApiError, _UnfitError) as error:
            await self._failed(error)
        else:
            self._succeeded()

    async def _write(self, wanted: list[Document]) -> None:
        """Has the slice as it is to be, from what the server itself has now: what was mirrored may be old."""
        present = await self._present()
        devices = None if present is None else present["spec"].get("devices") or []
        if present is not None and self._is_right(slices.canonical(devices or [])):
            return
        node = await self._read_node()
        self._generation += 1
        version = None if present is None else str(present["metadata"]["resourceVersion"])
        document = slices.resource_slice(node, wanted, self._generation, version)
        if present is None:
            stored = await self._api.create(slices.PATH, document)
        else:
            stored = await self._replace(document)
        kept: list[Document] = stored["spec"].get("devices") or []
        if not slices.is_shared(kept):
            await self._delete()
            raise _UnfitError(_EXCLUSIVE)
        self.note = None if slices.keeps_taints(wanted, kept) else _NO_TAINTS
        self._sent, self._stored = slices.canonical(wanted), slices.canonical(kept)
        self._written("created" if present is None else "updated")
        self._log.info(
            "the node's ResourceSlice was written", devices=len(kept), generation=self._generation, new=present is None
        )

    async def _present(self) -> Document | None:
        try:
            present = await self._api.get(self._path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        self._generation = max(self._generation, _generation(present))
        return present

    async def _replace(self, document: Document) -> Document:
        try:
            return await self._api.replace(self._path, document)
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise ApiError("the slice was deleted in the same moment", CONFLICT) from error
            raise

    async def _read_node(self) -> Node:
        """As it is registered now: the slice of one that was deleted is deleted with it."""
        try:
            document = await self._api.get(f"/api/v1/nodes/{self._node_name}")
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise ApiError(
                    f"there is no node {self._node_name!r}: --node-name must be the field spec.nodeName of the pod"
                ) from error
            raise
        return Node(self._node_name, str(document["metadata"]["uid"]))

    async def _delete(self) -> None:
        try:
            await self._api.delete(self._path, {})
        except ApiError as error:
            if error.status != NOT_FOUND:
                self._written("error")
                raise
        else:
            self._written("deleted")
            self._log.info("the node's ResourceSlice was deleted")

    def _is_right(self, present: str | None) -> bool:
        """Whether these devices are those that are wanted, or what the server made of them."""
        wanted = slices.canonical(self._wanted or [])
        return present == wanted or (wanted == self._sent and present == self._stored)

    def _mirrored(self) -> str | None:
        objects = self._mirror.objects or {}
        return next((devices for devices in objects.values() if devices is not None), None)

    def _read(self, document: Document) -> str | None:
        """The devices of our slice; None for another one, which is none that we made."""
        if document["metadata"]["name"] != slices.slice_name(self._node_name):
            return None
        self._generation = max(self._generation, _generation(document))
        return slices.canonical(document["spec"].get("devices") or [])

    def _succeeded(self) -> None:
        if self._write_problem:
            self._log.info("the node's ResourceSlice is up to date again")
        self._write_problem, self._pauses, self.published = "", 0, True

    async def _failed(self, error: ApiError | _UnfitError) -> None:
        """Says so, and lets it be tried again after a while."""
        conflict = isinstance(error, ApiError) and error.status == CONFLICT
        self._written("conflict" if conflict else "error")
        if not conflict:
            reason = _words(error)
            if reason != self._write_problem:
                self._log.warning("the node's ResourceSlice can't be written", reason=reason)
            self._write_problem = reason
        pause = min(_SHORTEST_PAUSE * 2**self._pauses, _LONGEST_PAUSE)
        self._pauses += 1
        if isinstance(error, _UnfitError):
            pause = _UNFIT_PAUSE
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        self._news.set()


def _generation(document: Document) -> int:
    return int(document["spec"]["pool"]["generation"])


def _words(error: ApiError | _UnfitError) -> str:
    """What is wrong, and what to do about it."""
    status = error.status if isinstance(error, ApiError) else 0
    if status == HTTPStatus.FORBIDDEN:
        return f"{error}: {_RIGHTS}"
    return f"{_OLD} ({error})" if status == NOT_FOUND else str(error)
