"""What is taken of a pod's document."""

from __future__ import annotations

from typing import Any

import pytest

from nvshare.admin import admin_pb2
from nvshare.nodeagent.pods import PluginPod, reader
from nvshare.nodeagent.scheduler_link import request_of
from nvshare.terms_texts import Terms
from tests.kubernetes.documents import NAMESPACE, plugin_pod, pod

read = reader(NAMESPACE)


def test_every_kind_of_container() -> None:
    """Init containers and those that were added later have terms too."""
    made = pod("a", {"nvshare.com/weight": "2", "nvshare.com/container.debug.weight": "3"})
    made["spec"] |= {"initContainers": [{"name": "prepare"}], "ephemeralContainers": [{"name": "debug"}]}
    found = read(made).wishes
    assert not found.problems
    assert {name: terms.weight for name, terms in found.terms.items()} == {
        "": 2.0,
        "main": 2.0,
        "side": 2.0,
        "prepare": 2.0,
        "debug": 3.0,
    }


def test_a_pod_that_kubelet_runs_from_a_file() -> None:
    """The kernel knows it by another uid than the API."""
    made = read(
        pod("a", {"kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef", "nvshare.com/weight": "2"})
    )
    assert (made.uid, made.kernel_uid) == ("uid-a", "0123456789abcdef0123456789abcdef")
    assert {each.pod_uid for each in request_of([made]).containers} == {made.kernel_uid}
    assert read(pod("a")).kernel_uid == "uid-a"


def test_without_annotations() -> None:
    """As most pods are."""
    made = pod("a")
    del made["metadata"]["annotations"]
    del made["status"]
    assert (read(made).wishes.terms, read(made).ended) == ({}, False)


def test_the_device_plugin() -> None:
    """It is the pod with its container in the agent's own namespace, whatever the chart calls it."""
    assert read(plugin_pod(9403)).plugin == PluginPod("127.0.0.1", 9403, True)
    assert read(plugin_pod(9403, ready=False)).plugin == PluginPod("127.0.0.1", 9403, False)
    starting = plugin_pod(9403)
    del starting["status"]["podIP"], starting["status"]["conditions"]
    assert read(starting).plugin == PluginPod("", 9403, False)
    silent = plugin_pod(9403)
    silent["spec"]["containers"][0]["ports"] = []
    assert read(silent).plugin == PluginPod("127.0.0.1", 0, True)
    elsewhere = plugin_pod(9403)
    elsewhere["metadata"]["namespace"] = "default"
    assert read(elsewhere).plugin is None


def test_the_request_is_the_same_in_any_order() -> None:
    """So the scheduler is told news only when there are any; what is not said is not in it."""
    first, second = (read(pod(name, {"nvshare.com/compute-limit": "30"})) for name in ("a", "b"))
    request = request_of([first, second])
    assert request == request_of([second, first])
    assert not request.containers[0].HasField("weight")
    assert Terms(compute_limit=request.containers[0].compute_limit) == Terms(compute_limit=0.3)


def test_the_scheduler_is_told_of_every_pod() -> None:
    """Of one without annotations by an entry that says nothing; not of one that has ended."""
    plain, gone = read(pod("plain")), pod("gone", {"nvshare.com/weight": "2"})
    gone["status"] = {"phase": "Succeeded"}
    request = request_of([plain, read(gone)])
    assert request.complete
    assert list(request.containers) == [admin_pb2.AnnotatedTerms(pod_uid=plain.kernel_uid)]


def test_the_scheduler_is_told_who_ends() -> None:
    """Who was deleted, though its containers run still, and who has ended; its annotations count while it runs."""
    stays, deleted, ended = pod("stays"), pod("deleted"), pod("ended")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended["status"] = {"phase": "Failed"}
    request = request_of(map(read, (stays, deleted, ended)))
    assert {each.pod for each in request.ending} == {"deleted", "ended"}
    assert {each.namespace for each in request.ending} == {deleted["metadata"]["namespace"]}
    assert {each.pod_uid for each in request.containers} == {read(stays).uid, read(deleted).uid}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": {"containers": 7}},
        {"metadata": {"name": "a", "namespace": "b", "uid": "c", "annotations": {"x": 7}}, "spec": {"containers": []}},
        {"metadata": {"name": "a", "namespace": "b", "uid": "c", "annotations": [7]}, "spec": {"containers": []}},
        {"metadata": 3, "spec": None},
    ],
)
def test_no_pod(wrong: dict[str, Any]) -> None:
    """It is told apart."""
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        read(wrong)
