"""The samples of claims, without a cluster: they mean what the driver and the chart do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nvshare.deviceplugin.claims.claim import MEMORY
from nvshare.deviceplugin.claims.terms import NONE, terms_of
from nvshare.dra import DRIVER
from tests.deploy.rendering import ROOT

FILES = sorted((ROOT / "deploy" / "samples" / "dra").glob("*.yaml"))
CLASSES = {"gpu.nvshare.com", "mig.nvshare.com"}
files = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def claims(file: Path) -> Iterator[dict[str, Any]]:
    """What each claim, and each template of one, says of devices."""
    for each in documents(file):
        if each["kind"] == "ResourceClaim":
            yield each["spec"]["devices"]
        if each["kind"] == "ResourceClaimTemplate":
            yield each["spec"]["spec"]["devices"]


def configurations(file: Path) -> Iterator[dict[str, Any]]:
    """Those of claims, and of classes."""
    for said in [*claims(file), *(each["spec"] for each in documents(file) if each["kind"] == "DeviceClass")]:
        yield from (config["opaque"] for config in said.get("config", ()))


def test_there_are_samples() -> None:
    """The page has a row for each."""
    page = (ROOT / "docs" / "dra.md").read_text()
    assert FILES
    assert [file.name for file in FILES if f"| `{file.name}` |" not in page] == []


@files
def test_claims_name_what_there_is(file: Path) -> None:
    """Classes of the chart or the file, the driver's capacity, requests of the claim itself."""
    own = {each["metadata"]["name"] for each in documents(file) if each["kind"] == "DeviceClass"}
    for said in claims(file):
        names = {request["name"] for request in said["requests"]}
        for request in said["requests"]:
            assert request["exactly"]["deviceClassName"] in CLASSES | own
            assert set(request["exactly"]["capacity"]["requests"]) == {MEMORY}
        for other in [*said.get("constraints", ()), *said.get("config", ())]:
            assert set(other["requests"]) <= names


@files
def test_pods_use_claims_that_are_there(file: Path) -> None:
    """By a name of the file; a container names the pod's."""
    made = {each["metadata"]["name"] for each in documents(file) if "ResourceClaim" in each["kind"]}
    for each in documents(file):
        spec = each.get("spec", {})
        pod = spec["template"]["spec"] if each["kind"] == "Job" else spec
        if "containers" not in pod:
            continue
        names = {claim["name"] for claim in pod["resourceClaims"]}
        used = {claim["name"] for container in pod["containers"] for claim in container["resources"]["claims"]}
        assert used == names
        assert {
            claim.get("resourceClaimTemplateName", claim.get("resourceClaimName")) for claim in pod["resourceClaims"]
        } <= made


@files
def test_configurations_are_understood(file: Path) -> None:
    """The driver takes each, and each says something."""
    for opaque in configurations(file):
        assert opaque["driver"] == DRIVER
        assert terms_of(opaque["parameters"]) != NONE


def test_a_quota_counts_the_classes() -> None:
    """By the names that Kubernetes gives them."""
    (quota,) = documents(ROOT / "deploy" / "samples" / "dra" / "resource-quota.yaml")
    assert set(quota["spec"]["hard"]) == {f"{name}.deviceclass.resource.k8s.io/devices" for name in CLASSES}
