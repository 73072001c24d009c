"""Tells the node's scheduler what annotations ask for, and which claims containers have.

It tells all of it, again and again, so that restarts heal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import grpc

from nvshare import admin_channel
from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.log import Log
from nvshare.nodeagent.pods import Pod
from nvshare.terms_texts import Terms
from nvshare.unix_sockets import grpc_address

_TELL_SECONDS = 5.0
"""After which it is told once more what it was told before."""
_ANSWER_SECONDS = 5.0
_OPTIONS = (*admin_channel.OPTIONS, ("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 2000))


class SchedulerLink:
    """What the scheduler was told last, and whether it answers."""

    def __init__(self, admin_socket: Path, changed: Callable[[], None], log: Log) -> None:
        """``changed`` is called when ``overruled`` has changed."""
        self._changed = changed
        self._socket = admin_socket
        self._log = log
        self._request: admin_pb2.SetAnnotatedTermsRequest | None = None
        self._news = asyncio.Event()
        self.problem = "it was not asked yet"
        """Why it does not answer; empty: it does."""
        self._taken: bool | None = None
        """Whether it took what it was told last; None: it was told nothing yet."""
        self.overruled: tuple[admin_pb2.Overruled, ...] = ()
        """What it was told and does not count, because claims say otherwise."""

    @property
    def annotated(self) -> int:
        """For how many containers the scheduler is told something."""
        return 0 if self._request is None else sum(map(_says_something, self._request.containers))

    def tell(self, request: admin_pb2.SetAnnotatedTermsRequest) -> None:
        """The scheduler is to know this, now and after every restart. Before this, what it knows is left as it is."""
        if request != self._request:
            self._request = request
            self._news.set()

    async def run(self) -> None:
        """Tells it until cancelled."""
        async with grpc.aio.insecure_channel(grpc_address(self._socket), _OPTIONS) as channel:
            stub = AdminStub(channel)
            while True:
                if self._request is not None:
                    self._news.clear()
                    try:
                        answer = await stub.SetAnnotatedTerms(self._request, timeout=_ANSWER_SECONDS)
                    except grpc.aio.AioRpcError as error:
                        self._failed(error)
                    else:
                        self._answered(answer)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TELL_SECONDS):
                        await self._news.wait()

    def _failed(self, error: grpc.aio.AioRpcError) -> None:
        reason = error.details() or error.code().name
        # One that is of an older version than this agent: it is there, and serves.
        self.problem = "" if error.code() is grpc.StatusCode.UNIMPLEMENTED else reason
        if self._taken is not False:
            self._log.warning("the scheduler does not take annotations: it is told again", reason=reason)
        self._taken = False

    def _answered(self, answer: admin_pb2.SetAnnotatedTermsResponse) -> None:
        if not self._taken:
            self._log.info("the scheduler takes annotations", containers=self.annotated)
        self._taken = True
        self.problem = ""
        if (overruled := tuple(answer.overruled)) != self.overruled:
            self.overruled = overruled
            self._changed()


def request_of(pods: Iterable[Pod]) -> admin_pb2.SetAnnotatedTermsRequest:
    """All that annotations of these pods say, their claims, and which pods end; the same for them in any order.

    A pod with nothing of that is named as well: else it would look like one that is not known here yet.
    """
    in_order = sorted(pods, key=lambda pod: pod.kernel_uid)
    return admin_pb2.SetAnnotatedTermsRequest(
        containers=[
            _container_of(pod, container)
            for pod in in_order
            if not pod.ended
            for container in dict.fromkeys((*pod.wishes.terms, *pod.claims)) or ("",)
        ],
        complete=True,
        ending=[admin_pb2.PodName(namespace=pod.namespace, pod=pod.name) for pod in in_order if pod.ending],
    )


def _container_of(pod: Pod, container: str) -> admin_pb2.AnnotatedTerms:
    return admin_pb2.AnnotatedTerms(
        pod_uid=pod.kernel_uid,
        container=container,
        claims=[
            admin_pb2.ContainerClaim(namespace=pod.namespace, name=claim.name, request=claim.request)
            for claim in pod.claims.get(container, ())
        ],
        **pod.wishes.terms.get(container, Terms()).said(),
    )


def _says_something(annotated: admin_pb2.AnnotatedTerms) -> bool:
    said = admin_pb2.AnnotatedTerms(pod_uid=annotated.pod_uid, container=annotated.container, claims=annotated.claims)
    return annotated != said
