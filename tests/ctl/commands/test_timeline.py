"""``nvshare-ctl timeline``: bars, a page and a trace of what a scheduler tells."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.options import seconds
from nvshare.paths import RunDir
from nvshare.scheduler.api import admin
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl


def seen() -> admin_pb2.Timeline:
    """Two programs on one of two devices; the name of one must not become markup."""
    span = admin_pb2.TimelineSpan
    return admin_pb2.Timeline(
        seconds=10,
        devices=[
            admin_pb2.TimelineDevice(uuid="GPU-a", name="NVIDIA H200", index="0", total_bytes=150754820096),
            admin_pb2.TimelineDevice(uuid="GPU-b", total_bytes=17179869184),
        ],
        clients=[
            admin_pb2.TimelineClient(
                id=1,
                pid=4711,
                command="python /home/somebody/train.py --epochs 3",
                device_uuid="GPU-a",
                spans=[span(what="holding", begin=0, end=5), span(what="out", begin=5, end=6, bytes=4 << 30)],
            ),
            admin_pb2.TimelineClient(
                id=2,
                pid=4712,
                command="./<b>bold</b>",
                device_uuid="GPU-a",
                spans=[span(what="waiting", begin=0, end=5), span(what="holding", begin=5, end=10)],
            ),
        ],
    )


def test_bars(run_dir: RunDir, answers: Answers) -> None:
    """The first half belongs to one, the second to the other; a device that nobody used is there as well."""
    answers.timeline = seen()
    shown = ctl(run_dir, "timeline", "--seconds", "10", COLUMNS="100")
    assert shown.returncode == 0, shown.stderr
    first, second = (line for line in shown.stdout.splitlines() if line.startswith("471"))
    assert first.startswith("4711 python train")
    assert first.index("█") < second.index("█")
    assert "░" in first
    assert "nobody in the last 10.0 s" in shown.stdout
    assert answers.asked[-1].seconds == 10


def test_page(run_dir: RunDir, answers: Answers) -> None:
    """A whole document, with a bar for each span and nothing of a program's name as markup."""
    answers.timeline = seen()
    page = ctl(run_dir, "timeline", "-o", "html").stdout
    shapes: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag != "b"
            if tag == "rect":
                shapes.append(dict(attrs)["class"] or "")

    Parser().feed(page)
    assert sorted(shape for shape in shapes if shape != "row") == ["swap", "turn", "turn", "wait"]
    assert "4.0 GiB out, 4.0 GiB/s" in page
    assert page.startswith("<!doctype html>")


@pytest.mark.parametrize("letters", [3, 30, 60, 500])
def test_long_names(run_dir: RunDir, answers: Answers, letters: int) -> None:
    """A name has a column of its own, which leaves the bars most of the width, and is there whole to be pointed at."""
    answers.timeline = seen()
    answers.timeline.clients[0].command = "x" * letters
    page = ctl(run_dir, "timeline", "-o", "html").stdout
    names: list[str | None] = []
    inside: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found = dict(attrs)
            if tag == "svg":
                inside.append(found["preserveaspectratio"] or "")
            elif found.get("class") == "name":
                names.append(found["title"])
            assert tag not in ("text", "foreignobject"), "which gets smaller with its drawing"

    Parser().feed(page)
    assert names == [f"4711 {'x' * letters}", "4712 b>"]
    assert inside == ["none"] * len(names), "a drawing is stretched to the room that the names leave"
    assert re.search(r"\.name \{[^}]*text-overflow: ellipsis", page)
    assert re.search(r"@media \(max-width: 700px\) \{[^@]*grid-template-columns: minmax\(0, 1fr\)", page, re.DOTALL)


def test_trace(run_dir: RunDir, answers: Answers) -> None:
    """Slices in microseconds, on a track for the lock and one for the memory of each program."""
    answers.timeline = seen()
    events = json.loads(ctl(run_dir, "timeline", "-o", "perfetto").stdout)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [(each["name"], each["ts"], each["dur"]) for each in slices] == [
        ("holding", 0, 5e6),
        ("out 4.0 GiB", 5e6, 1e6),
        ("waiting", 0, 5e6),
        ("holding", 5e6, 5e6),
    ]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "4711 python /home/somebody/train.py --epochs 3: memory" in tracks


def test_document(run_dir: RunDir, answers: Answers) -> None:
    """Everything that the scheduler tells, in numbers and names."""
    answers.timeline = seen()
    document = json.loads(ctl(run_dir, "timeline", "-o", "json").stdout)
    assert document["seconds"] == 10
    assert document["devices"][0] == {
        "uuid": "GPU-a",
        "name": "NVIDIA H200",
        "index": "0",
        "total_bytes": 150754820096,
    }
    assert document["clients"][0]["spans"][1] == {"what": "out", "begin": 5, "end": 6, "bytes": 4 << 30}


def test_names(run_dir: RunDir, answers: Answers) -> None:
    """The name that somebody gave, or the pod and the container, stands for the command, in every form."""
    answers.timeline = seen()
    first, second = answers.timeline.clients
    first.member_of, second.member_of = "train@1000", "vision/detector-1/main"
    shown = ctl(run_dir, "timeline", COLUMNS="100").stdout
    assert "\n4711 train " in shown
    assert "\n4712 detector-1/m" in shown
    page = ctl(run_dir, "timeline", "-o", "html").stdout
    assert 'title="4711 train"' in page
    assert "pid 4711, train, python /home/somebody/train.py --epochs 3: holding" in page
    assert 'title="4712 detector-1/main"' in page
    events = json.loads(ctl(run_dir, "timeline", "-o", "perfetto").stdout)["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"4711 train: lock", "4711 train: memory", "4712 detector-1/main: lock"} <= tracks
    clients = json.loads(ctl(run_dir, "timeline", "-o", "json").stdout)["clients"]
    assert [client["name"] for client in clients] == ["train", None]
    assert [client["member_of"] for client in clients] == ["train@1000", "vision/detector-1/main"]


@pytest.mark.parametrize("member_of", ["", "pid:4711@1000", "python-0a1b2c3d@1000"])
def test_without_a_name(run_dir: RunDir, answers: Answers, member_of: str) -> None:
    """A name that nobody gave says less than the command."""
    answers.timeline = seen()
    answers.timeline.clients[0].member_of = member_of
    assert "\n4711 python train" in ctl(run_dir, "timeline", COLUMNS="100").stdout
    assert json.loads(ctl(run_dir, "timeline", "-o", "json").stdout)["clients"][0]["name"] is None


@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("soon", "'soon' is no positive number"),
        ("1_0", "'1_0' is no positive number"),
        ("1e9", "1e9 s is not allowed; up to 86400 s"),
    ],
)
def test_lengths_that_make_no_sense(run_dir: RunDir, answers: Answers, length: str, said: str) -> None:
    """Nobody is asked."""
    refused = ctl(run_dir, "timeline", "--seconds", length, COLUMNS="200")
    assert refused.returncode == 2
    assert said in refused.stderr
    assert not answers.asked


def test_the_longest_timeline() -> None:
    """It is the scheduler's."""
    assert seconds.LONGEST_TIMELINE == admin.LONGEST_TIMELINE
