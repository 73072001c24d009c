"""Claims are prepared and unprepared, whatever happens to the node in between."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nvshare.deviceplugin.claims.claim import ClaimError, Record
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.claims.records import RecordFiles, content, record_in
from tests.deviceplugin.claims.bench import GIB, GPU_A, GPU_B, NodeOfClaims, claim, configuration, result
from tests.polling import until


@pytest.fixture
def node(tmp_path: Path) -> NodeOfClaims:
    return NodeOfClaims(tmp_path)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A disk on which nothing more can be written."""

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        yield patch


async def prepare(claims: Claims, uid: str = "u", name: str = "share") -> Record:
    return await claims.prepare(uid, "team", name)


async def refusal(claims: Claims, uid: str = "u", name: str = "share") -> str:
    with pytest.raises(ClaimError) as error:
        await prepare(claims, uid, name)
    return str(error.value)


async def test_from_first_to_last(node: NodeOfClaims) -> None:
    """Prepared, it has a record and CDI devices; unprepared, nothing is left. Both may be asked for again."""
    node.api.add(claim("u", result(shareID="s")))
    claims = node.start()
    record = await prepare(claims)
    assert claims.records == {"u": record}
    assert claims.changed.is_set()
    assert (node.recorded, node.described) == ({"u"}, {"u"})
    assert (node.records / "u.json").stat().st_mode & 0o777 == 0o600
    assert (node.cdi / "nvshare.com-claim-u.json").stat().st_mode & 0o777 == 0o644
    assert list(node.devices("u")) == ["gpu"]
    assert await prepare(claims) == record
    claims.changed.clear()
    for _ in range(2):
        await claims.unprepare("u")
        assert (node.recorded, node.described, dict(claims.records)) == (set(), set(), {})
    assert claims.changed.is_set()


async def test_answered_without_the_api(node: NodeOfClaims) -> None:
    """What has a record is answered from it, by the next instance; a new claim is refused, and it is said why."""
    node.api.add(claim("u", config=[configuration(weight="2", computeLimit="30")]))
    record = await prepare(node.start())
    node.api.away = True
    claims = node.start()
    assert await prepare(claims) == record
    assert await refusal(claims, "v") == "ResourceClaim team/share can't be read: no connection in time"


@pytest.mark.parametrize("restarted", [True, False])
async def test_allocated_anew(node: NodeOfClaims, restarted: bool) -> None:
    """Its pod was deleted by force while the node was away, and never unprepared: it gets what it has now."""
    node.api.add(claim("u", result(GPU_A)))
    claims = node.start()
    await prepare(claims)
    node.api.add(claim("u", result(GPU_B, memory="2Gi")))
    claims.changed.clear()
    if restarted:
        claims = node.start()
    record = await prepare(claims)
    assert (record.uuids, record.consumed()) == ((GPU_B,), {GPU_B: 2 * GIB})
    assert f"NVIDIA_VISIBLE_DEVICES={GPU_B}" in node.devices("u")["gpu"]["env"]
    assert claims.changed.is_set()
    assert claims.records == node.start().records == {"u": record}


async def test_killed_while_it_is_allocated_anew(node: NodeOfClaims, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CDI file of what it had is gone before the record says what it has."""

    def end(claims: Claims, record: Record, offered: frozenset[str]) -> None:
        raise ClaimError("killed")

    node.api.add(claim("u", result(GPU_A)))
    await prepare(node.start())
    node.api.add(claim("u", result(GPU_B)))
    with monkeypatch.context() as patch:
        patch.setattr(Claims, "_describe", end)
        assert await refusal(node.start()) == "killed"
    node.offered = []
    claims = node.start()
    assert await refusal(claims) == f"this node does not offer GPU {GPU_B} now, which the claim was prepared for"
    node.offered = [GPU_A, GPU_B]
    assert (await prepare(claims)).uuids == (GPU_B,)


async def test_gone_from_the_api(node: NodeOfClaims) -> None:
    """What is not there any more can't be prepared."""
    assert "can't be read: the API server refuses (404)" in await refusal(node.start())


async def test_after_a_reboot(node: NodeOfClaims) -> None:
    """CDI folders are often in memory: the files are written again from the records, for new device nodes, too."""
    node.api.add(claim("u"))
    await prepare(node.start())
    (node.cdi / "nvshare.com-claim-u.json").unlink()
    claims = node.start()
    assert claims.look()
    assert not claims.look()
    node.nodes[GPU_A] = (Path("/dev/nvidia3"),)
    assert claims.look()
    assert [each["path"] for each in node.devices("u")["gpu"]["deviceNodes"]] == ["/dev/nvidia3"]


async def test_another_version(node: NodeOfClaims) -> None:
    """The next version's library is what containers get that are made anew."""
    node.api.add(claim("u"))
    await prepare(node.start())
    node.injection = replace(node.injection, library_dir=Path("/var/lib/nvshare/next"))
    assert node.start().look()
    assert node.devices("u")["gpu"]["mounts"][0]["hostPath"] == "/var/lib/nvshare/next"


async def test_gpu_that_is_not_there_now(node: NodeOfClaims) -> None:
    """While NVML does not show the GPU, its file stays as it is; without a file nothing is promised."""
    node.nodes[GPU_A] = (Path("/dev/nvidia0"),)
    node.api.add(claim("u"))
    await prepare(node.start())
    node.offered, node.nodes = [], {}
    claims = node.start()
    assert not claims.look()
    await prepare(claims)
    assert node.devices("u")["gpu"]["deviceNodes"]
    (node.cdi / "nvshare.com-claim-u.json").unlink()
    assert not claims.look()
    assert await refusal(claims) == f"this node does not offer GPU {GPU_A} now, which the claim was prepared for"


async def test_left_overs(node: NodeOfClaims) -> None:
    """What has no record, or was half written by a program that was killed, is removed; others' files are not."""
    node.api.add(claim("u"))
    await prepare(node.start())
    (node.cdi / "nvshare.com-claim-v.json").touch()
    (node.cdi / ".nvshare.com-claim-w.json.x1").touch()
    (node.cdi / "nvshare.com-gpu.json").touch()
    (node.records / ".w.json.x2").touch()
    node.start()
    assert sorted(file.name for file in node.cdi.iterdir()) == ["nvshare.com-claim-u.json", "nvshare.com-gpu.json"]
    assert [file.name for file in node.records.iterdir()] == ["u.json"]


def test_asking_whether_there_are_records(node: NodeOfClaims) -> None:
    """Whoever only asks removes nothing: another may be writing."""
    files = RecordFiles(node.records)
    assert list(files.uids()) == []
    node.records.mkdir(parents=True)
    (node.records / ".w.json.x2").touch()
    (node.records / "u.json").touch()
    assert list(files.uids()) == ["u"]
    assert len(list(node.records.iterdir())) == 2


async def test_cdi_folder_that_can_not_be_cleaned(node: NodeOfClaims) -> None:
    """What is left there of former claims is said, and keeps nobody from being served."""
    node.api.add(claim("u"))
    (node.cdi / "nvshare.com-claim-v.json").mkdir()
    claims = node.start()
    assert "can't be removed" in node.logged[0]
    await prepare(claims)


async def test_damaged_record(node: NodeOfClaims) -> None:
    """It is named in the log and does not count. Its CDI device stays; kubelet's next question makes it new."""
    node.api.add(claim("u"))
    record = await prepare(node.start())
    for damage in ("", "{", "[]", '{"version": 2}', '{"version": 1, "requests": [{}]}', '{"version": 1, "uid": "u"}'):
        (node.records / "u.json").write_text(damage)
        node.log.calls.clear()
        claims = node.start()
        (line,) = node.logged
        assert f"{node.records}/u.json can't be understood" in line
        assert "is damaged" not in line, "one of another version is whole"
        assert (dict(claims.records), node.described) == ({}, {"u"})
        assert await prepare(claims) == record
        assert node.start().records == {"u": record}
    (node.records / "u.json").write_text("?")
    await node.start().unprepare("u")
    assert (node.recorded, node.described) == (set(), set())


async def test_record_under_another_name(node: NodeOfClaims) -> None:
    """A file that somebody copied is of no claim."""
    node.api.add(claim("u"))
    await prepare(node.start())
    (node.records / "v.json").write_bytes((node.records / "u.json").read_bytes())
    assert set(node.start().records) == {"u"}
    assert "v.json is of another claim: u" in node.logged[0]


async def test_full_disk_for_the_record(node: NodeOfClaims, full: pytest.MonkeyPatch) -> None:
    """Nothing is prepared; file and reason are named; then it goes on."""
    node.api.add(claim("u"))
    claims = node.start()
    text = await refusal(claims)
    assert text == f"the claim's record {node.records}/u.json can't be written: No space left on device"
    assert (node.recorded, dict(claims.records), node.left_half_written()) == (set(), {}, [])
    full.undo()
    await prepare(claims)


async def test_no_cdi_folder(node: NodeOfClaims) -> None:
    """It is not made: no runtime would find the file. The record is there, and it goes on as soon as the folder is."""
    node.api.add(claim("u"))
    node.cdi.rmdir()
    claims = node.start()
    text = await refusal(claims)
    assert text.startswith(f"CDI file {node.cdi}/nvshare.com-claim-u.json can't be written: No such file or directory")
    assert "must be there, and be mounted" in text
    assert (node.recorded, claims.problem) == ({"u"}, None)
    assert not claims.look()
    assert claims.problem == text
    node.cdi.mkdir()
    assert claims.look()
    assert claims.problem is None
    await prepare(claims)
    node.cdi.rename(node.cdi.with_name("away"))
    await claims.unprepare("u")
    assert node.recorded == set()


async def test_another_uid(node: NodeOfClaims) -> None:
    """A claim that was made anew under its name takes the former one's place, of which nothing is left."""
    node.api.add(claim("u"))
    claims = node.start()
    await prepare(claims)
    node.api.add(claim("v", result(GPU_B)))
    assert "its uid is v, and w was asked for" in await refusal(claims, "w")
    await prepare(claims, "v")
    assert (node.recorded, node.described, set(claims.records)) == ({"v"}, {"v"}, {"v"})


@pytest.mark.parametrize("uid", ["", "../u", "u/v", ".u", "x" * 200])
async def test_no_uid(node: NodeOfClaims, uid: str) -> None:
    """What can't be part of a file's name is refused, for both."""
    claims = node.start()
    assert "is no uid of a claim" in await refusal(claims, uid)
    with pytest.raises(ClaimError, match="is no uid"):
        await claims.unprepare(uid)


async def test_many_at_once(node: NodeOfClaims) -> None:
    """Claims are prepared at the same time, some of them by several at once."""
    for number in range(20):
        node.api.add(claim(f"u{number}", name=f"c{number}"))
    claims = node.start()
    await asyncio.gather(*(prepare(claims, f"u{number % 20}", f"c{number % 20}") for number in range(60)))
    assert node.recorded == node.described == {f"u{number}" for number in range(20)}
    assert not claims._locks


async def test_nobody_waits_any_more(node: NodeOfClaims, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubelet gives up before the file is written: the work goes on, and what comes next comes after it."""
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    write = Claims._write

    def slowly(claims: Claims, record: Record) -> None:
        begun.set()
        go_on.wait(10)
        write(claims, record)
        ended.set()

    monkeypatch.setattr(Claims, "_write", slowly)
    node.api.add(claim("u"))
    claims = node.start()
    asked = asyncio.create_task(prepare(claims))
    await until(begun.is_set, "the record is written")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    unprepared = asyncio.create_task(claims.unprepare("u"))
    await asyncio.wait({unprepared}, timeout=0.1)
    go_on.set()
    await unprepared
    await until(ended.is_set, "the record was written")
    assert (node.recorded, node.described, dict(claims.records)) == (set(), set(), {})


async def test_looks_while_claims_come_and_go(node: NodeOfClaims) -> None:
    """The look that runs in a thread never writes the file of a claim that is unprepared at that moment."""
    node.api.add(claim("u"))
    claims, ended = node.start(), threading.Event()

    def look() -> None:
        while not ended.is_set():
            claims.look()

    looking = asyncio.create_task(asyncio.to_thread(look))
    try:
        for _ in range(30):
            await prepare(claims)
            await claims.unprepare("u")
            assert node.described == set()
    finally:
        ended.set()
        await looking


async def test_what_the_scheduler_is_told(node: NodeOfClaims) -> None:
    """All records count, prepared by whichever instance."""
    for uid in ("u", "v"):
        node.api.add(claim(uid, result(memory="12Gi"), name=uid))
        await prepare(node.start(), uid, uid)
    told = node.start().request()
    assert [(each.name, each.devices[0].memory_request_bytes) for each in told.claims] == [
        ("u", 4 * GIB),
        ("v", 4 * GIB),
    ]


def test_a_record_is_read_as_it_was_written(node: NodeOfClaims) -> None:
    """All of it."""
    node.api.add(
        claim(
            "u",
            result(request="a", shareID="s"),
            result(GPU_B, "b", adminAccess=True),
            config=[configuration(weight="2")],
        )
    )
    record = asyncio.run(prepare(node.start()))
    assert record_in(content(record)) == record
