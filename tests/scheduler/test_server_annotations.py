"""Annotations of pods at a real scheduler: as the node agent tells them, of processes that are there."""

from __future__ import annotations

import json
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from nvshare import scheduler_process
from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.kubelet import Node
from tests.scheduler.wire_client import GIB, Scheduler, WireClient

Serve = Callable[..., Scheduler]

POD = str(uuid.uuid5(uuid.NAMESPACE_DNS, "notebook.n"))
"""As the node makes it."""
PLACE = "n/notebook/main"


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClientProcess]:
    """One in a container of a pod, as the test's schedulers see it."""
    node, command = Node(tmp_path), scheduler_process.command
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
    with ClientProcess() as process:
        node.put(process.process.pid, "n", "notebook", "main")
        yield process


def annotates(scheduler: Scheduler, pod_uid: str = POD, container: str = "main", **terms: object) -> None:
    """The agent tells of one container; without terms that there is none."""
    told = admin_pb2.AnnotatedTerms(pod_uid=pod_uid, container=container, **terms)  # type: ignore[arg-type]
    request = admin_pb2.SetAnnotatedTermsRequest(containers=[told] if terms else [])
    scheduler.admin.SetAnnotatedTerms(request, timeout=20)


def comes(process: ClientProcess, scheduler: Scheduler, **terms: object) -> WireClient:
    """A process of the pod registers, with what its environment asks for."""
    client = process.connect(scheduler).register()
    client.send(wire.Terms(**terms))  # type: ignore[arg-type]
    return client


def until(scheduler: Scheduler, **wanted: object) -> None:
    """Waits until the one client is in its container on these terms, and defaults for the others."""
    default = {"weight": 1.0, "priority": "normal", "when_full": "wait"}
    terms = admin_pb2.Terms(**(default | wanted))  # type: ignore[arg-type]

    def there() -> bool:
        clients = [each for device in scheduler.status().devices for each in device.clients]
        return [(each.member_of, each.terms) for each in clients] == [(PLACE, terms)]

    poll_until(there, f"the client has {wanted}", 20)


def test_they_count_live(serve: Serve, process: ClientProcess) -> None:
    """For a client that was there before and one that comes later; removed, they count no more."""
    scheduler = serve()
    client = comes(process, scheduler, weight_thousandths=1500)
    until(scheduler, weight=1.5)
    annotates(scheduler, memory_limit_bytes=GIB, weight=3.0)
    until(scheduler, weight=3.0, memory_limit_bytes=GIB, by_annotation=["weight", "memory_limit_bytes"])
    assert client.expect(wire.Limit) == wire.Limit(GIB)
    annotates(scheduler, memory_limit_bytes=2 * GIB)
    until(scheduler, weight=1.5, memory_limit_bytes=2 * GIB, by_annotation=["memory_limit_bytes"])
    client.close()
    poll_until(lambda: not scheduler.states(), "it is gone")
    comes(process, scheduler)
    until(scheduler, memory_limit_bytes=2 * GIB, by_annotation=["memory_limit_bytes"])
    annotates(scheduler)
    until(scheduler)


def test_set_comes_first(serve: Serve, process: ClientProcess) -> None:
    """What the operator set counts before the annotation, until it is taken back."""
    scheduler = serve()
    annotates(scheduler, weight=3.0, priority="high")
    comes(process, scheduler)
    until(scheduler, weight=3.0, priority="high", by_annotation=["weight", "priority"])
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, weight=5.0), timeout=20)
    until(scheduler, weight=5.0, priority="high", by_command=["weight"], by_annotation=["priority"])
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, taken_back=["weight"]), timeout=20)
    until(scheduler, weight=3.0, priority="high", by_annotation=["weight", "priority"])


def test_a_pod_that_says_so_does_not_wait_for_memory(serve: Serve, process: ClientProcess) -> None:
    """By default it does. The environment says it, or the annotation, or the operator, who is forgotten by nobody."""
    scheduler = serve()
    comes(process, scheduler, when_full=wire.WhenFull.REFUSE)
    until(scheduler, when_full="refuse")
    annotates(scheduler, when_full="wait")
    until(scheduler, when_full="wait", by_annotation=["when_full"])
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, when_full="refuse"), timeout=20)
    until(scheduler, when_full="refuse", by_command=["when_full"])
    scheduler.kill()
    scheduler = serve()
    comes(process, scheduler)
    until(scheduler, when_full="refuse", by_command=["when_full"])
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, taken_back=["when_full"]), timeout=20)
    until(scheduler, by_annotation=["when_full"])
    with pytest.raises(grpc.RpcError, match="'hope' is not allowed where memory is full; wait, refuse are"):
        scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, when_full="hope"), timeout=20)


def test_when_it_sleeps(serve: Serve, process: ClientProcess) -> None:
    """By default nobody says it. The environment does, the annotation, or the operator, who is forgotten by nobody."""
    scheduler = serve()
    comes(process, scheduler, sleep=wire.SleepWhen.NEVER)
    until(scheduler, sleep="never")
    annotates(scheduler, sleep="pressure")
    until(scheduler, sleep="pressure", by_annotation=["sleep"])
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, sleep="idle"), timeout=20)
    until(scheduler, sleep="idle", by_command=["sleep"])
    scheduler.kill()
    scheduler = serve()
    comes(process, scheduler)
    until(scheduler, sleep="idle", by_command=["sleep"])
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, taken_back=["sleep"]), timeout=20)
    until(scheduler, sleep="pressure", by_annotation=["sleep"])
    with pytest.raises(grpc.RpcError, match="sleep 'always' is not allowed; never, pressure, idle are"):
        scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container=PLACE, sleep="always"), timeout=20)


def test_they_outlive_the_scheduler(serve: Serve, process: ClientProcess) -> None:
    """The next one has them before the agent has come back, also where the file had been removed."""
    scheduler = serve()
    annotates(scheduler, memory_limit_bytes=GIB)
    file = scheduler.run_dir.annotated
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    scheduler.run_dir.pid_file.unlink()
    poll_until(file.exists, "it is written anew", 20)
    scheduler.kill()
    scheduler = serve()
    comes(process, scheduler)
    until(scheduler, memory_limit_bytes=GIB, by_annotation=["memory_limit_bytes"])
    annotates(scheduler)
    until(scheduler)


def test_a_damaged_file(serve: Serve, process: ClientProcess) -> None:
    """One warning; the agent's next word counts."""
    scheduler = serve()
    annotates(scheduler, weight=3.0)
    scheduler.kill()
    scheduler.run_dir.annotated.write_text(json.dumps([{"pod_uid": POD, "container": "main", "terms": {"weight": 0}}]))
    scheduler = serve()
    comes(process, scheduler)
    until(scheduler)
    said = "annotations count when the node agent tells them again: their file can't be used"
    assert len(scheduler.logged(said)) == 1
    annotates(scheduler, weight=3.0)
    until(scheduler, weight=3.0, by_annotation=["weight"])


def test_another_pod_of_the_name(serve: Serve, process: ClientProcess) -> None:
    """A pod is meant by its uid, and not by what it is called."""
    scheduler = serve()
    annotates(scheduler, pod_uid=str(uuid.uuid4()), weight=3.0)
    comes(process, scheduler)
    until(scheduler)


def test_a_wrong_value_changes_nothing(serve: Serve, process: ClientProcess) -> None:
    """It is refused with all that came with it."""
    scheduler = serve()
    annotates(scheduler, weight=3.0)
    comes(process, scheduler)
    until(scheduler, weight=3.0, by_annotation=["weight"])
    for wrong in ({"weight": 0.0}, {"priority": "urgent"}, {"memory_limit_bytes": 0}):
        with pytest.raises(grpc.RpcError) as error:
            annotates(scheduler, **wrong)  # type: ignore[arg-type]
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    until(scheduler, weight=3.0, by_annotation=["weight"])


def test_everybody_may_look_but_not_annotate(serve: Serve) -> None:
    """The socket for every user refuses it."""
    scheduler = serve()
    with (
        grpc.insecure_channel(f"unix:{scheduler.run_dir.status_socket}") as channel,
        pytest.raises(grpc.RpcError) as error,
    ):
        admin_pb2_grpc.AdminStub(channel).SetAnnotatedTerms(admin_pb2.SetAnnotatedTermsRequest(), timeout=20)
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
