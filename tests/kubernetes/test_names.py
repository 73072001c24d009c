"""Names of the Kubernetes API's objects."""

from __future__ import annotations

import pytest

from nvshare.kubernetes.names import is_namespace, is_node_name


@pytest.mark.parametrize("name", ["a", "worker-1", "ip-10-0-0-1.ec2.internal", "0", "a" * 253])
def test_names_of_nodes(name: str) -> None:
    """What the API server takes."""
    assert is_node_name(name)


@pytest.mark.parametrize("name", ["", "-a", "a-", "a..b", ".a", "A", "a b", "a/b", "a\n", "ä", "a" * 254])
def test_no_names_of_nodes(name: str) -> None:
    """What would ask the API for something else, or for nothing."""
    assert not is_node_name(name)


@pytest.mark.parametrize(("name", "right"), [("a", True), ("nvshare-system", True), ("", False), ("a.b", False)])
def test_names_of_namespaces(name: str, right: bool) -> None:
    """They are labels: shorter, and without dots."""
    assert is_namespace(name) is right
    assert is_namespace("a" * 63)
    assert not is_namespace("a" * 64)
