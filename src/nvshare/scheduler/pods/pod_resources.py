"""Asks kubelet which containers were given which devices. Everything here may block: call it in a worker."""

from __future__ import annotations

from pathlib import Path

import grpc

from nvshare.kubelet import podresources_v1_pb2 as api
from nvshare.kubelet.podresources_v1_pb2_grpc import PodResourcesListerStub
from nvshare.scheduler.pods.allocations import Claimed, Listed, listed
from nvshare.unix_sockets import grpc_address

_ANSWER_SECONDS = 5.0
_LONGEST_MESSAGE = 64 << 20
"""A node of a thousand pods with every device and CPU of theirs stays far below."""


class KubeletError(Exception):
    """kubelet's socket is there and gives no answer; the message says why."""


def read_containers(socket: Path) -> tuple[Listed, ...] | None:
    """Every container that kubelet lists; None where there is no kubelet. KubeletError if it does not answer."""
    try:
        socket.stat()
    except OSError:  # also: a user's scheduler, which may not look
        return None
    options = [("grpc.max_receive_message_length", _LONGEST_MESSAGE)]
    with grpc.insecure_channel(grpc_address(socket), options) as channel:
        try:
            answer = PodResourcesListerStub(channel).List(api.ListPodResourcesRequest(), timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            raise KubeletError(f"{error.code().name}: {error.details()}") from error
    return tuple(_listed(pod, container) for pod in answer.pod_resources for container in pod.containers)


def _listed(pod: api.PodResources, container: api.ContainerResources) -> Listed:
    devices: dict[str, list[str]] = {}
    for each in container.devices:
        # One entry for each NUMA node.
        devices.setdefault(each.resource_name, []).extend(each.device_ids)
    claimed = [
        Claimed(f"{claim.claim_namespace}/{claim.claim_name}", resource.driver_name, resource.device_name)
        for claim in container.dynamic_resources
        for resource in claim.claim_resources
    ]
    return listed(pod.namespace, pod.name, container.name, devices, claimed)
