"""The short form of the chaos; ``make chaos`` is the long one."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.chaos import chaos, deeds, floods

pytestmark = pytest.mark.soak


@pytest.mark.timeout(400)
def test_nothing_breaks(tmp_path: Path) -> None:
    """Half a minute of kills, stops and floods: no overlap, nobody stuck, all results right, no memory lost."""
    seed = secrets.randbits(32)
    print(f"python -m tests.chaos --seconds 30 --connections 2400 --seed {seed}")
    with chaos.running(tmp_path / "node", seed) as node:
        deeds.rage(node, 30, print)
        floods.memory_growth(node, 2400)
        node.calm_down()
        node.check()
