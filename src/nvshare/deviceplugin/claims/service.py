"""kubelet's service for drivers of dynamic resource allocation: claims are prepared before containers start.

kubelet asks again until all is well, and waits 45 s for an answer. What one claim fails with does not keep others.
"""

from __future__ import annotations

import asyncio

import grpc

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.claims.claim import ClaimError, Record
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.claims.edits import device_ids
from nvshare.deviceplugin.metrics import Metrics
from nvshare.kubelet import dra_v1_pb2 as api
from nvshare.kubelet.dra_v1_pb2_grpc import DRAPluginServicer
from nvshare.log import Log

Context = grpc.aio.ServicerContext[object, object]


class Service(DRAPluginServicer):
    """Answers for the claims of one node."""

    def __init__(self, claims: Claims, node: str, injection: Injection, metrics: Metrics, log: Log) -> None:
        self._claims = claims
        self._node = node
        self._injection = injection
        self._metrics = metrics
        self._log = log

    async def NodePrepareResources(  # noqa: N802
        self, request: api.NodePrepareResourcesRequest, context: Context
    ) -> api.NodePrepareResourcesResponse:
        with self._metrics.requests.labels("NodePrepareResources").time():
            answers = await asyncio.gather(*(self._prepare(claim) for claim in request.claims))
        uids = [claim.uid for claim in request.claims]
        return api.NodePrepareResourcesResponse(claims=dict(zip(uids, answers, strict=True)))

    async def NodeUnprepareResources(  # noqa: N802
        self, request: api.NodeUnprepareResourcesRequest, context: Context
    ) -> api.NodeUnprepareResourcesResponse:
        with self._metrics.requests.labels("NodeUnprepareResources").time():
            answers = await asyncio.gather(*(self._unprepare(claim) for claim in request.claims))
        uids = [claim.uid for claim in request.claims]
        return api.NodeUnprepareResourcesResponse(claims=dict(zip(uids, answers, strict=True)))

    async def _prepare(self, claim: api.Claim) -> api.NodePrepareResourceResponse:
        try:
            record = await self._claims.prepare(claim.uid, claim.namespace, claim.name)
        except ClaimError as error:
            return api.NodePrepareResourceResponse(error=self._refused("NodePrepareResources", claim, error))
        self._log.info("prepared", claim=record.full_name, uid=record.uid, gpus=list(record.uuids))
        return prepared(record, self._node, self._injection)

    async def _unprepare(self, claim: api.Claim) -> api.NodeUnprepareResourceResponse:
        try:
            await self._claims.unprepare(claim.uid)
        except ClaimError as error:
            return api.NodeUnprepareResourceResponse(error=self._refused("NodeUnprepareResources", claim, error))
        self._log.info("unprepared", claim=f"{claim.namespace}/{claim.name}", uid=claim.uid)
        return api.NodeUnprepareResourceResponse()

    def _refused(self, method: str, claim: api.Claim, error: ClaimError) -> str:
        self._metrics.refusals.labels(method).inc()
        name = f"{claim.namespace}/{claim.name}"
        self._log.warning("refused", method=method, claim=name, uid=claim.uid, reason=str(error))
        return str(error)


def prepared(record: Record, node: str, injection: Injection) -> api.NodePrepareResourceResponse:
    """What kubelet is told of a claim that is prepared."""
    return api.NodePrepareResourceResponse(
        devices=[
            api.Device(
                request_names=[request.name],
                pool_name=node,
                device_name=device.device_name,
                cdi_device_ids=ids,
                share_id=device.share_id,
            )
            for request in record.requests
            for device, ids in zip(request.devices, device_ids(record, request, injection), strict=True)
        ]
    )
