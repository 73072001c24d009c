"""What a scheduler does while it can't find out who else has a GPU: there are no descriptors to look."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

import pytest
from structlog.testing import CapturingLogger

from nvshare import gpu_claims
from nvshare.gpu_claims import Claim
from nvshare.paths import RunDir
from nvshare.scheduler.descriptors import open_now
from nvshare.scheduler.gpus import claims
from nvshare.scheduler.gpus.claims import Claims, NotYetError
from tests.polling import until

GPU = f"GPU-{os.urandom(4).hex()}-6172-6500-0000-000000000001"


class Sight:
    """What is seen of claims; without descriptors it can't be looked."""

    def __init__(self) -> None:
        self.looks = 0
        self.has_descriptors = False
        self.machines: list[Claim] = []

    def claims(self, wanted: Callable[[bytes], bool]) -> list[Claim]:
        self.looks += 1
        if not self.has_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self.machines


@pytest.fixture
def sight(monkeypatch: pytest.MonkeyPatch) -> Sight:
    """Nothing is seen at first."""
    sight = Sight()
    monkeypatch.setattr(gpu_claims, "claims", sight.claims)
    return sight


async def test_who_comes_meanwhile_comes_again(sight: Sight, run_dir: RunDir) -> None:
    """It is not refused, and nothing of the try is left; it is served when there are descriptors again."""
    own = Claims(asyncio.get_running_loop(), CapturingLogger(), run_dir, lambda: None)
    before = open_now()
    with pytest.raises(NotYetError, match="Too many open files"):
        own.take(GPU, holds=False)
    assert open_now() == before
    sight.has_descriptors = True
    own.take(GPU, holds=False)
    own.stop()


async def test_the_machines_is_seen_in_the_end(sight: Sight, run_dir: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever claims the same GPU looks at this claim once: that it was the machine's is found out later."""
    monkeypatch.setattr(claims, "_LOOK_SECONDS", 0.01)
    ended: list[bool] = []
    names: list[str] = []
    listen = gpu_claims.listen

    def named(device: bytes) -> tuple[str, socket.socket]:
        name, claim = listen(device)
        names.append(name)
        return name, claim

    monkeypatch.setattr(gpu_claims, "listen", named)
    own = Claims(asyncio.get_running_loop(), CapturingLogger(), run_dir, lambda: ended.append(True))
    sight.has_descriptors = True
    own.take(GPU, holds=False)
    sight.has_descriptors, sight.looks = False, 0
    with socket.socket(socket.AF_UNIX) as machines:
        machines.connect(f"\0{names[0]}")
    await until(lambda: sight.looks > 1, "it looks again")
    sight.machines = [Claim("another", b"", 1, 0, is_machines=True)]
    sight.has_descriptors = True
    await until(lambda: ended, "it ends")
    own.stop()
