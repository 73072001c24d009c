"""How many files the scheduler may have open."""

from __future__ import annotations

import resource

import pytest

from nvshare.scheduler import descriptors


def test_a_limit_that_the_kernel_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fs.nr_open is below a process's own limit, that can't even be set to what it is: what it has counts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def refuse(_what: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        with monkeypatch.context() as patched:
            patched.setattr(resource, "setrlimit", refuse)
            assert descriptors.raise_limit() == 256
        assert descriptors.raise_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
