"""The image's description, without building it: that it agrees with the package."""

from __future__ import annotations

import re
import tomllib

from tests.layout.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_labels_say_what_it_holds() -> None:
    """Title, description, version and licenses are the package's."""
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', DOCKERFILE))
    assert labels == {
        "title": PROJECT["name"],
        "description": PROJECT["description"],
        "version": PROJECT["version"],
        "licenses": PROJECT["license"],
    }


def test_context_holds_what_is_copied() -> None:
    """.dockerignore lets through what the Dockerfile copies, and nothing else."""
    copied = {
        word.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for word in line.split()
    }
    allowed = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert copied == set(allowed)
    assert all((ROOT / name).exists() for name in copied)


def test_lock_leaves_out_what_no_node_runs() -> None:
    """Neither what only `kubectl nvshare` needs nor cffi's parser of C is in the image."""
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "deploy" / "requirements.lock").read_text(), re.MULTILINE))
    assert "cffi" in locked
    assert not locked & {"kubernetes", "urllib3", "websocket-client", "pycparser"}
