"""Says on pods which annotations do not count, and why, once each: as events, which ``kubectl describe pod`` shows."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from nvshare.admin import admin_pb2
from nvshare.kubernetes.api_server import CONFLICT, ApiError, ApiServer, Document
from nvshare.log import Log
from nvshare.nodeagent.annotations import Problem
from nvshare.nodeagent.pods import Pod

REASON: Final = "InvalidAnnotation"
_COMPONENT: Final = "nvshare-node-agent"
_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 200
_MOST_OF_A_POD = 20
"""Different complaints about one pod: whoever changes its annotations again and again does not fill the API."""
_PAUSE_SECONDS = 0.2
"""Between two, and after a failure of the moment ten times that."""


@dataclass(frozen=True, slots=True)
class _Complaint:
    pod_uid: str
    problem: Problem


class Complaints:
    """What was said, and what is still to be."""

    def __init__(self, api: ApiServer, node: str, log: Log, count: Callable[[str], None]) -> None:
        """``count`` is told of each what became of it: told, refused."""
        self._api = api
        self._node = node
        self._log = log
        self._count = count
        self._said: set[_Complaint] = set()
        self._waiting: dict[_Complaint, Pod] = {}
        self._numbers: dict[str, int] = {}
        """How many there were about each pod."""
        self._news = asyncio.Event()
        self.present = 0
        """Annotations that do not count now."""

    def see_to(self, pods: Collection[Pod], overruled: Iterable[admin_pb2.Overruled] = ()) -> None:
        """These are the node's pods now; ``overruled``: what their claims say otherwise than their annotations."""
        by_claims = _by_claims(pods, overruled)
        now = {
            _Complaint(pod.uid, problem): pod
            for pod in pods
            if not pod.ended
            for problem in (*pod.wishes.problems, *by_claims.get(pod.kernel_uid, ()))
        }
        uids = {pod.uid for pod in pods}
        self._numbers = {uid: number for uid, number in self._numbers.items() if uid in uids}
        self._said &= now.keys()
        self._waiting = {each: pod for each, pod in now.items() if each not in self._said}
        self.present = len(now)
        if self._waiting:
            self._news.set()

    async def run(self) -> None:
        """Says one after the other, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                complaint, pod = next(iter(self._waiting.items()))
                try:
                    await self._say(complaint.problem, pod)
                except ApiError as error:
                    if error.is_for_now:
                        # It may be so in this namespace only: the others come first.
                        if self._waiting.pop(complaint, None) is not None:
                            self._waiting[complaint] = pod
                        await asyncio.sleep(_PAUSE_SECONDS * 10)
                        continue
                    # The pod or its namespace is about to be gone, or the role does not allow it.
                    self._log.warning("an event is refused", namespace=pod.namespace, pod=pod.name, reason=str(error))
                    self._count("refused")
                self._said.add(complaint)
                self._waiting.pop(complaint, None)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _say(self, problem: Problem, pod: Pod) -> None:
        number = self._numbers.get(pod.uid, 0)
        if number >= _MOST_OF_A_POD:
            return
        event = _event(problem, pod, self._node)
        path = f"/api/v1/namespaces/{pod.namespace}/events"
        try:
            await self._api.create(path, event)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            # This agent, or the one before it, has said it already: it is news again.
            patch = {name: event[name] for name in ("lastTimestamp", "message")}
            await self._api.patch(f"{path}/{event['metadata']['name']}", "merge-patch", patch)
        self._numbers[pod.uid] = number + 1
        self._log.warning(
            "an annotation does not count",
            namespace=pod.namespace,
            pod=pod.name,
            annotation=problem.key,
            reason=problem.message,
        )
        self._count("told")


def _by_claims(pods: Iterable[Pod], overruled: Iterable[admin_pb2.Overruled]) -> dict[str, dict[Problem, None]]:
    """What is to be said of overruled annotations, by the kernel's uids of the pods; once for all containers."""
    by_uid, found = {pod.kernel_uid: pod for pod in pods}, dict[str, dict[Problem, None]]()
    for each in overruled:
        pod = by_uid.get(each.pod_uid)
        # The scheduler's word may be on annotations that are no longer there.
        if pod is not None and (key := pod.wishes.key_of(each.container, each.field)):
            problem = Problem(key, f"claim {each.claim} says {each.counts}, and claims count before annotations")
            found.setdefault(each.pod_uid, {})[problem] = None
    return found


def _event(problem: Problem, pod: Pod, node: str) -> Document:
    """Its name follows from what it says: nothing is said twice."""
    digest = hashlib.sha256("\0".join((pod.uid, problem.key, problem.message)).encode()).hexdigest()[:16]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name[:_LONGEST_NAME].rstrip('-.')}.{digest}", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "type": "Warning",
        "reason": REASON,
        "message": f"annotation {problem.key} does not count: {problem.message}"[:_LONGEST_MESSAGE],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": _COMPONENT, "host": node},
        "reportingComponent": _COMPONENT,
        "reportingInstance": node,
    }
