"""What the driver told of claims outlives the scheduler, or is said to be lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from nvshare.scheduler.core.terms import Priority, SleepWhen, WhenFull
from nvshare.scheduler.recovery.resource_claims import ClaimedDevice, ResourceClaim, ResourceClaims
from nvshare.scheduler.some_terms import SomeTerms

TERMS = SomeTerms(2.0, Priority.HIGH, 0.5, 8, 4, WhenFull.REFUSE, SleepWhen.IDLE)
CLAIM = ResourceClaim("u1", "default", "share", (ClaimedDevice("gpu", "GPU-a", 8, 1, False, TERMS),))
PLAIN = ResourceClaim("u2", "default", "plain", (ClaimedDevice("gpu", "GPU-a", 0, 0, True, SomeTerms()),))


def opened(path: Path) -> ResourceClaims:
    """Those of the next scheduler."""
    return ResourceClaims(path, structlog.get_logger())


def test_the_next_one_reads_them(tmp_path: Path) -> None:
    """All that was told; only its owner may read the file."""
    path = tmp_path / "resource-claims.json"
    assert opened(path).replace([CLAIM, PLAIN])
    assert not opened(path).replace([CLAIM, PLAIN])
    assert opened(path).told == (CLAIM, PLAIN)
    assert opened(path).find("default/share") == CLAIM
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_removed_file_is_written_again(tmp_path: Path) -> None:
    """While the scheduler runs."""
    path = tmp_path / "resource-claims.json"
    claims = opened(path)
    claims.replace([CLAIM])
    path.unlink()
    claims.restore()
    assert opened(path).told == (CLAIM,)


@pytest.mark.parametrize("text", ["", "7", "[7]", '[{"uid": "a"}]', '{"a": 1}'])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    """It is said with its path, and nothing of it counts."""
    path = tmp_path / "resource-claims.json"
    path.write_text(text)
    with capture_logs() as lines:
        claims = opened(path)
    assert claims.told == ()
    assert [(line["log_level"], line["path"]) for line in lines] == [("warning", str(path))]
    assert claims.replace([CLAIM])
    assert opened(path).told == (CLAIM,)


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    """It is said; what was told counts all the same."""
    with capture_logs() as lines:
        claims = opened(tmp_path / "gone" / "resource-claims.json")
        claims.replace([CLAIM])
    assert [line["log_level"] for line in lines] == ["warning"]
    assert claims.find("default/share") == CLAIM
