"""What a scheduler reads of the one before it, whatever lies there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.recovery import documents
from nvshare.scheduler.recovery.annotated import Annotated
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.contexts import Contexts
from nvshare.scheduler.recovery.resource_claims import ResourceClaims

OTHERS: dict[str, Callable[[Path], object]] = {
    "a pipe that nobody writes into": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "nested too deeply": lambda path: path.write_text("[" * 100_000),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    document = {"a": [1, None, "ä"]}
    documents.write(tmp_path / "a.json", document)
    assert documents.read(tmp_path / "a.json") == document


@pytest.mark.parametrize("other", OTHERS)
def test_anything_else_is_one_warning_for_each_reader(tmp_path: Path, other: str) -> None:
    """Nobody waits for it, and the scheduler starts."""
    path, log = tmp_path / "document", structlog.get_logger()
    OTHERS[other](path)
    with capture_logs() as logs:
        assert Choices(path, Settings(), log).settings == Settings()
        Annotated(path, log)
        assert not ResourceClaims(path, log).told
        Contexts(path, log)
    assert [line["log_level"] for line in logs] == 4 * ["warning"]
