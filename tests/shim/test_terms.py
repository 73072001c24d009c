"""What a program's environment asks for: read, checked, told to the scheduler."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths, terms_texts
from nvshare.protocol import wire
from tests.shim.children import ROOT
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler

Start = Callable[..., ControlledProgram]

NOT_PERMITTED = "800"
CONTAINER = "1 to 47 letters, digits, dots, - and _"


def told(program: ControlledProgram, fake: FakeScheduler) -> wire.Terms:
    """What it says to a scheduler right after that has registered it."""
    terms = fake.serve(program).terms
    assert terms is not None
    return terms


def test_names_are_those_of_paths() -> None:
    """C and Python call the variables the same."""
    source = (ROOT / "src/nvshare/shim/csrc/process/terms.c").read_text(encoding="utf-8")
    names = set(re.findall(r'^#define \w+ "(NVSHARE_\w+)"$', source, re.MULTILINE))
    assert names == {
        paths.WEIGHT,
        paths.PRIORITY,
        paths.COMPUTE_LIMIT,
        paths.MEMORY_LIMIT,
        paths.MEMORY_REQUEST,
        paths.WHEN_FULL,
        paths.SLEEP,
        paths.CONTAINER,
    }


def test_nothing_is_said(start: Start, fake_scheduler: FakeScheduler) -> None:
    """TERMS comes also where nothing is set: it shows that the client knows such frames."""
    program = start(**{paths.WEIGHT: "", paths.CONTAINER: ""})
    assert told(program, fake_scheduler) == wire.Terms()
    assert program.errors == []


def test_all_is_said(start: Start, fake_scheduler: FakeScheduler) -> None:
    """Each variable has its place, and it is told to each scheduler anew."""
    program = start(
        **{
            paths.WEIGHT: "2.5",
            paths.PRIORITY: "high",
            paths.COMPUTE_LIMIT: "12.5%",
            paths.MEMORY_LIMIT: "2GiB",
            paths.MEMORY_REQUEST: "512Mi",
            paths.WHEN_FULL: "wait",
            paths.SLEEP: "idle",
            paths.CONTAINER: "train-1",
        }
    )
    expected = wire.Terms(
        weight_thousandths=2500,
        priority=wire.Priority.HIGH,
        memory_limit_bytes=2 << 30,
        memory_request_bytes=512 << 20,
        when_full=wire.WhenFull.WAIT,
        sleep=wire.SleepWhen.IDLE,
        compute_limit_thousandths=125,
        container="train-1",
    )
    assert told(program, fake_scheduler) == expected
    fake_scheduler.die()
    fake_scheduler.listen()
    assert fake_scheduler.register(epoch=2).terms == expected
    assert not [line for line in program.errors if "NVSHARE" in line]


@pytest.mark.parametrize("level", [2, 3])
def test_older_schedulers_hear_nothing_of_it(start: Start, fake_scheduler: FakeScheduler, level: int) -> None:
    """A scheduler of a lower level does not know the frame, and does not get it."""
    program = start(**{paths.WEIGHT: "2"})
    assert program.do("use") == "0"
    peer = fake_scheduler.accept()
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=level))
    program.begin("launch")
    peer.expect(wire.ReqLock)
    assert (peer.terms is not None) is (level >= 3)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (paths.WEIGHT, "0", "a number from 0.01 to 1000"),
        (paths.WEIGHT, "0.009", "a number from 0.01 to 1000"),
        (paths.WEIGHT, "1000.1", "a number from 0.01 to 1000"),
        (paths.WEIGHT, "-1", "a number from 0.01 to 1000"),
        (paths.WEIGHT, "1e2", "a number from 0.01 to 1000"),
        (paths.WEIGHT, "1.", "a number from 0.01 to 1000"),
        (paths.WEIGHT, "18446744073709551617", "a number from 0.01 to 1000"),
        (paths.PRIORITY, "HIGH", "one of low, normal, high"),
        (paths.WHEN_FULL, "Wait", "one of wait, refuse"),
        (paths.SLEEP, "always", "one of never, pressure, idle"),
        (paths.CONTAINER, "a b", CONTAINER),
        (paths.CONTAINER, "a@0", CONTAINER),
        (paths.CONTAINER, "x" * 48, CONTAINER),
    ],
)
def test_wrong_value(start: Start, fake_scheduler: FakeScheduler, name: str, value: str, allowed: str) -> None:
    """One line names the variable, the value and what is allowed; then it is as if it were not set."""
    program = start(**{name: value})
    assert told(program, fake_scheduler) == wire.Terms()
    assert f"{name}={value} is not {allowed}; it counts as not set" in program.said(f"{name}={value}")
    fake_scheduler.serve(program, "use 1")
    assert len([line for line in program.errors if name in line]) == 1


NO_SIZE = "is no size; 8Gi or 8GiB (powers of 1024), 8G or 8GB (powers of 1000) and a number of bytes are"
TOO_SMALL = "is too small for anything; is the unit missing, as in 8GiB?"


@pytest.mark.parametrize(("value", "fault"), [("half", NO_SIZE), ("20", TOO_SMALL), ("0", "is none")])
def test_wrong_request(start: Start, fake_scheduler: FakeScheduler, value: str, fault: str) -> None:
    """One line says what is wrong with it; then it is as if it were not set."""
    program = start(**{paths.MEMORY_REQUEST: value})
    assert told(program, fake_scheduler) == wire.Terms()
    assert f"{paths.MEMORY_REQUEST}={value} {fault}; it counts as not set" in program.said(paths.MEMORY_REQUEST)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        (paths.MEMORY_LIMIT, "8gb", NO_SIZE),
        (paths.MEMORY_LIMIT, "20", TOO_SMALL),
        (paths.MEMORY_LIMIT, "0", "is none"),
        (paths.MEMORY_LIMIT, "1126T", "is more than any machine has"),
        (paths.COMPUTE_LIMIT, "0", "is not a percentage from 0.1 to 100, such as 30"),
        (paths.COMPUTE_LIMIT, "101%", "is not a percentage from 0.1 to 100, such as 30"),
        (paths.COMPUTE_LIMIT, "30 %", "is not a percentage from 0.1 to 100, such as 30"),
    ],
)
def test_wrong_limit(start: Start, name: str, value: str, fault: str) -> None:
    """Nothing runs as if there were none: each context is refused, no scheduler is asked, and one line says why."""
    program = start(**{name: value})
    assert program.do("use") == NOT_PERMITTED
    assert program.do("use 1") == NOT_PERMITTED
    assert program.do("symbol cuGreenCtxCreate *0,0 0 0 0") == NOT_PERMITTED
    assert f"{name}={value} {fault}; this program's GPU calls fail" in program.said(name)
    assert len([line for line in program.errors if name in line]) == 1
    assert len(list(Path(f"/proc/{program.pid}/task").iterdir())) == 1, "a client was started"


def test_a_size_is_a_number_of_bytes(start: Start, fake_scheduler: FakeScheduler) -> None:
    """What the library reads is what it tells; all that sizes may be is in tests/sizes.tsv."""
    terms = told(start(**{paths.MEMORY_LIMIT: "8GB", paths.MEMORY_REQUEST: "1.5Gi"}), fake_scheduler)
    assert (terms.memory_limit_bytes, terms.memory_request_bytes) == (8 * 10**9, 3 << 29)


@pytest.mark.parametrize("text", ["0.1", "0.1%", "30", "33.333%", "99.99", "100%"])
def test_percentages_mean_what_the_command_line_says(start: Start, fake_scheduler: FakeScheduler, text: str) -> None:
    """The library and nvshare-ctl read a percentage the same."""
    terms = told(start(**{paths.COMPUTE_LIMIT: text}), fake_scheduler)
    assert terms.compute_limit_thousandths == terms_texts.share_of(text) * 1000
