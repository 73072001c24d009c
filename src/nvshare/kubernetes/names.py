"""How objects of the Kubernetes API are called. Pure."""

from __future__ import annotations

import re

NODE_NAME = "the name of a node: at most 253 of a-z, 0-9, - and ., beginning and ending with a letter or digit"
NAMESPACE = "the name of a namespace: at most 63 of a-z, 0-9 and -, beginning and ending with a letter or digit"

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NODE = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_node_name(text: str) -> bool:
    """Whether a node can have this name, which is part of paths and selectors that the API is asked with."""
    return len(text) <= 253 and _NODE.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether a namespace can have this name."""
    return len(text) <= 63 and _NAMESPACE.fullmatch(text) is not None
