"""What a scheduler reads of the one before it, whatever lies there."""

from __future__ import annotations

import json
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
    "a number that is none": lambda path: path.write_text(
        '[["GPU-a", 1e999, 2, 3], {"uid": "a", "namespace": "b", "name": "c", "devices": [{"memory_bytes": 1e999}]}]'
    ),
}
ANOTHER = "another version of nvshare wrote it, or it is damaged: "
ENTRY: dict[str, object] = {"pod_uid": "a", "container": "b", "terms": {}}
DEVICE: dict[str, object] = {"request": "a", "device": "b", "memory_bytes": 1, "shares": 1, "is_admin": False}
CLAIM: dict[str, object] = {"uid": "a", "namespace": "b", "name": "c", "devices": []}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    document = {"a": [1, None, "ä"]}
    documents.write(tmp_path / "a.json", document)
    assert documents.read(tmp_path / "a.json", lambda read: read) == document


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


@pytest.mark.parametrize(
    ("reader", "document", "reason"),
    [
        (Annotated, [{**ENTRY, "terms": {"colour": 1}}], "'colour' is not known here"),
        (Annotated, [{"pod_uid": "a"}], "'container' is missing"),
        (Annotated, [{**ENTRY, "terms": {"sleep": "deeply"}}], "'deeply' is not a valid SleepWhen"),
        (ResourceClaims, [{**CLAIM, "devices": [{**DEVICE, "terms": {"colour": 1}}]}], "'colour' is not known here"),
        (ResourceClaims, [{**CLAIM, "devices": [{**DEVICE, "memory_bytes": 1e999}]}], "it has another form"),
        (ResourceClaims, {"version": 2, "claims": []}, "it has another form"),
        (Contexts, [["GPU-a", 1e999, 2, 3]], "it has another form"),
    ],
)
def test_what_another_version_wrote(
    tmp_path: Path, reader: Callable[[Path, object], object], document: object, reason: str
) -> None:
    """The one warning says that, and what is not understood, for people; no number ends the scheduler."""
    path = tmp_path / "document"
    path.write_text(json.dumps(document))
    with capture_logs() as logs:
        reader(path, structlog.get_logger())
    assert [line["reason"] for line in logs] == [ANOTHER + reason]
