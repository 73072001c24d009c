"""Fixtures of the driver's tests: the API server of tests/kubernetes."""

from __future__ import annotations

from tests.kubernetes.conftest import account, cluster, lines, log, quick_mirror, reached

__all__ = ["account", "cluster", "lines", "log", "quick_mirror", "reached"]
