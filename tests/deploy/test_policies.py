"""The policy and the samples, without a cluster: that they mean what the package does."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nvshare.deviceplugin.answers.allocation import reserved_environment
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.paths import CONTAINER_LIBRARY_DIR, LIBRARY_NAME

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
POLICY = (DEPLOY / "policies" / "admission-policy.yaml").read_text()
LOOK_ONLY = (DEPLOY / "policies" / "look-only.yaml").read_text()
RESOURCE = Configuration().resource_name


def test_the_policy_means_the_library_of_the_containers() -> None:
    """The path that it allows in LD_PRELOAD is the one that the device plugin sets."""
    library = str(CONTAINER_LIBRARY_DIR / LIBRARY_NAME)
    assert f"'^{library.replace('.', '[.]')}([: ]|$)'" in POLICY
    assert f"{library}:/path/of/yours.so" in POLICY


def test_the_policy_knows_what_the_plugin_sets() -> None:
    """A pod's own value would replace each of these, and the pod would take no turns, or have other GPUs."""
    for variable in reserved_environment():
        assert f"e.name == '{variable}'" in POLICY


@pytest.mark.parametrize("text", [POLICY, LOOK_ONLY])
def test_the_binding_binds_the_policy(text: str) -> None:
    """It refuses; whoever wants only to be warned changes one word."""
    policy, binding = yaml.safe_load_all(text)
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


@pytest.mark.parametrize(
    "name", ["policies/admission-policy.yaml", "samples/resource-quota.yaml", "samples/kueue.yaml"]
)
def test_the_resource_is_the_default_one(name: str) -> None:
    """What the plugin advertises if nothing else is configured."""
    assert RESOURCE in (DEPLOY / name).read_text()
