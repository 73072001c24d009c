"""``nvshare-ctl sleep`` and ``wake``: what reaches the scheduler, what is waited for, and what is said of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl
from tests.polling import poll_until

STOPPED = "stopped (SIGSTOP or Ctrl-Z); it goes on with: kill -CONT 71"
ASLEEP = admin_pb2.Client(state="asleep", asleep_seconds=1.5)


@pytest.fixture
def client(answers: Answers) -> admin_pb2.Client:
    """Of the container train, idle, with a context."""
    shown = answers.status.devices[0].clients[0]
    shown.CopyFrom(admin_pb2.Client(id=1, pid=71, state="idle", pinned_bytes=640 << 20, member_of="train@0"))
    return shown


def said(
    run_dir: RunDir, answers: Answers, client: admin_pb2.Client, *arguments: str, becomes: admin_pb2.Client
) -> CompletedProcess[str]:
    """What a command says whose wish changes the client once the command looks on."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ctl, run_dir, *arguments)
        poll_until(
            lambda: any(isinstance(each, admin_pb2.WatchStatusRequest) for each in answers.asked), "it looks on", 20
        )
        client.MergeFrom(becomes)
        answers.changed.set()
        return running.result()


def test_until_it_is_asleep(run_dir: RunDir, answers: Answers, client: admin_pb2.Client) -> None:
    """One that is being put to sleep still has its context. That it is of a user may be left out."""
    becomes = admin_pb2.Client(state="asleep")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(said, run_dir, answers, client, "sleep", "train", becomes=becomes)
        poll_until(lambda: len(answers.asked) == 3, "it was told of the change", 20)
        assert not running.done()
        client.pinned_bytes = 0
        answers.changed.set()
        done = running.result()
    assert (done.returncode, done.stdout, done.stderr) == (0, "train is asleep\n", "")
    assert answers.asked[:2] == [admin_pb2.SleepRequest(name="train"), admin_pb2.WatchStatusRequest()]


@pytest.mark.parametrize(
    ("becomes", "reason"),
    [
        (admin_pb2.Client(awake_reason="its work on the device did not end"), "its work on the device did not end"),
        (admin_pb2.Client(state="waking"), "it is waking"),
        (admin_pb2.Client(state="holding"), "it is holding, and was not idle for 5.0 s"),
        (admin_pb2.Client(state="holding", notices=["other", STOPPED]), f"it is {STOPPED}"),
    ],
)
def test_why_it_stays_awake(
    run_dir: RunDir, answers: Answers, client: admin_pb2.Client, becomes: admin_pb2.Client, reason: str
) -> None:
    """A reason of an earlier time does not count. One that is needed or stopped is not waited for, others not long."""
    client.awake_reason = "a thread of it was in the driver"
    done = said(run_dir, answers, client, "sleep", "train@0", becomes=becomes)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"nvshare-ctl: train@0 is not asleep: pid 71: {reason}\n"


def test_until_it_is_awake(run_dir: RunDir, answers: Answers, client: admin_pb2.Client) -> None:
    """By its pid, too, whatever it is called."""
    client.MergeFrom(ASLEEP)
    done = said(run_dir, answers, client, "wake", "pid:71", becomes=admin_pb2.Client(state="idle"))
    assert (done.returncode, done.stdout) == (0, "pid:71 is awake\n")
    assert answers.asked[0] == admin_pb2.SleepRequest(name="pid:71")


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_it_ends(run_dir: RunDir, answers: Answers, client: admin_pb2.Client, command: str) -> None:
    """Then nobody waits for it."""
    if command == "wake":
        client.MergeFrom(ASLEEP)
    done = said(run_dir, answers, client, command, "train", becomes=admin_pb2.Client(member_of="other@0"))
    wanted = "asleep" if command == "sleep" else "awake"
    assert (done.returncode, done.stderr) == (1, f"nvshare-ctl: train is not {wanted}: it has ended\n")


def test_one_that_has_the_lock_because_nobody_waits(
    run_dir: RunDir, answers: Answers, client: admin_pb2.Client
) -> None:
    """It gives it back when it has been idle for a second, and so whether it is busy is not seen before."""
    client.state, client.pinned_bytes = "holding", 0
    done = said(run_dir, answers, client, "sleep", "train", becomes=ASLEEP)
    assert (done.returncode, done.stdout, done.stderr) == (0, "train is asleep\n", "")


def test_one_that_is_stopped_does_not_wake(run_dir: RunDir, answers: Answers, client: admin_pb2.Client) -> None:
    """That is said at once, and nothing of room."""
    client.MergeFrom(ASLEEP)
    done = said(run_dir, answers, client, "wake", "train", becomes=admin_pb2.Client(state="waking", notices=[STOPPED]))
    assert (done.returncode, done.stderr) == (1, f"nvshare-ctl: train is not awake: pid 71: it is {STOPPED}\n")


def test_names_of_the_same_process(run_dir: RunDir, answers: Answers, client: admin_pb2.Client) -> None:
    """What is true of several is said once."""
    client.state = "waking"
    done = ctl(run_dir, "sleep", "train", "train", "pid:71")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "nvshare-ctl: train and pid:71 are not asleep: pid 71: it is waking\n"


def test_several(run_dir: RunDir, answers: Answers, client: admin_pb2.Client) -> None:
    """All are asked before one is waited for; each of them has its line."""
    client.MergeFrom(ASLEEP)
    client.pinned_bytes = 0
    done = ctl(run_dir, "sleep", "train", "pid:71")
    assert (done.returncode, done.stdout) == (0, "train is asleep\npid:71 is asleep\n")
    assert answers.asked[:2] == [admin_pb2.SleepRequest(name=name) for name in ("train", "pid:71")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (grpc.StatusCode.NOT_FOUND, "container 'trian' is unknown; known containers: train@0"),
        (grpc.StatusCode.FAILED_PRECONDITION, "trian can't sleep: pid 71: it is holding"),
    ],
)
def test_what_the_scheduler_refuses(run_dir: RunDir, answers: Answers, code: grpc.StatusCode, text: str) -> None:
    """What it says is the line."""
    answers.refusal = code, text
    done = ctl(run_dir, "sleep", "trian")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"nvshare-ctl: {text}\n")


@pytest.mark.parametrize("command", ["sleep", "wake"])
def test_usage(run_dir: RunDir, command: str) -> None:
    """A name is needed."""
    done = ctl(run_dir, command)
    assert done.returncode == 2
    assert "NAME..." in done.stderr
