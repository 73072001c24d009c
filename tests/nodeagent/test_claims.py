"""Which claims the containers of a pod have."""

from __future__ import annotations

from typing import Any

import pytest

from nvshare.nodeagent.claims import ContainerClaim, claims_of
from nvshare.nodeagent.pods import reader
from nvshare.nodeagent.scheduler_link import request_of
from tests.kubernetes.documents import NAMESPACE, pod

read = reader(NAMESPACE)
SHARE = ContainerClaim("share")


def container(name: str, *claims: tuple[str, str]) -> dict[str, Any]:
    """One that names these claims of the pod, with the requests; empty: all of the claim."""
    named = [{"name": claim, "request": request} if request else {"name": claim} for claim, request in claims]
    return {"name": name, "resources": {"claims": named}}


def test_by_name_and_from_a_template() -> None:
    """The spec says the one's name, the status the other's; one that is not made yet has none."""
    spec = {
        "containers": [container("main", ("own", ""), ("made", "big"), ("later", "")), {"name": "side"}],
        "initContainers": [container("init", ("own", ""))],
        "resourceClaims": [
            {"name": "own", "resourceClaimName": "share"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "later", "resourceClaimTemplateName": "t"},
        ],
    }
    status = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "a-made-x7k"}, {"name": "later"}]}
    made = ContainerClaim("a-made-x7k", "big")
    assert claims_of(spec, status) == {"main": (made, SHARE), "init": (SHARE,), "": (made, SHARE)}


def test_of_an_extended_resource() -> None:
    """Kubernetes made the claim, and says which container has which request of it."""
    mapping = {"containerName": "main", "resourceName": "nvshare.com/gpu", "requestName": "container-0-request-0"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "a-extended-x", "requestMappings": [mapping]}}
    claim = ContainerClaim("a-extended-x", "container-0-request-0")
    assert claims_of({"containers": [{"name": "main"}]}, status) == {"main": (claim,), "": (claim,)}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "main"}]},
        {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}], "resourceClaims": None},
        {"containers": [container("main", ("nowhere", ""))]},
    ],
)
def test_none(spec: dict[str, Any]) -> None:
    """As most pods are, and one whose container names what the pod does not have."""
    assert claims_of(spec, {}) == {}


def test_the_scheduler_is_told() -> None:
    """With what annotations say of the same container, and for those of which they say nothing."""
    made = pod(
        "a", {"nvshare.com/container.side.weight": "2"}, resourceClaims=[{"name": "c", "resourceClaimName": "s"}]
    )
    made["spec"]["containers"] = [container("main", ("c", "r")), {"name": "side"}]
    told = {each.container: each for each in request_of([read(made)]).containers}
    assert told.keys() == {"", "main", "side"}
    assert [(each.namespace, each.name, each.request) for each in told["main"].claims] == [("default", "s", "r")]
    assert told[""].claims == told["main"].claims
    assert (told["side"].weight, list(told["side"].claims)) == (2.0, [])
    assert not told["main"].HasField("weight")
