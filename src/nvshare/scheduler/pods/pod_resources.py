"""Asks kubelet which containers hold which devices. Everything here may block: call it in a worker."""

from __future__ import annotations

from pathlib import Path

import grpc

from nvshare.kubelet import podresources_v1_pb2 as api
from nvshare.kubelet.podresources_v1_pb2_grpc import PodResourcesListerStub
from nvshare.scheduler.pods.allocations import Holding, holdings_of

_ANSWER_SECONDS = 5.0
_LONGEST_MESSAGE = 64 << 20
"""A node of a thousand pods with every device and CPU of theirs stays far below."""


class KubeletError(Exception):
    """kubelet's socket is there and gives no answer; the message says why."""


def read_holdings(socket: Path) -> tuple[Holding, ...]:
    """What every container on the node holds; nothing where there is no kubelet. KubeletError if it does not answer."""
    try:
        socket.stat()
    except OSError:  # also: a user's scheduler, which may not look
        return ()
    options = [("grpc.max_receive_message_length", _LONGEST_MESSAGE)]
    with grpc.insecure_channel(f"unix:{socket}", options) as channel:
        try:
            answer = PodResourcesListerStub(channel).List(api.ListPodResourcesRequest(), timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            raise KubeletError(f"{error.code().name}: {error.details()}") from error
    return tuple(
        holding
        for pod in answer.pod_resources
        for container in pod.containers
        for holding in holdings_of(
            pod.namespace,
            pod.name,
            container.name,
            (device_id for devices in container.devices for device_id in devices.device_ids),
        )
    )
