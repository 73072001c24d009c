"""Which nvshare says that it is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from nvshare import version


def test_a_source_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not installed has no number, and the word that it has can be a folder's name."""

    def missing(_name: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(version, "version_of", missing)
    assert version.version() == "source"
