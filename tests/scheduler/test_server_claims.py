"""Claims at a real scheduler, with real programs in pods: one account for all who share one, and no memory before."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from nvshare import paths, scheduler_process
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.kubelet import Kubelet, Node, answering
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

MIB = 1 << 20
LIMIT = 64 * MIB
OUT_OF_MEMORY = "2"
OPTIONS = ("--host-memory", "2GiB", "--reserve", "16MiB", "--await-annotations", "600")
OPEN = ("cuInit 0", "cuDevicePrimaryCtxRetain &primary0 0", "cuCtxSetCurrent primary0")
BACKENDS = ("swap", "native")
OURS = "gpu.nvshare.com"
ACCOUNT = "claim:n/share"
NOT_TOLD = "nvshare-device-plugin has not told yet what claim n/share may have"
WAIT = 30.0

Serve = Callable[..., Scheduler]
Start = Callable[..., ControlledProgram]


def uid(pod: str) -> str:
    """As the node makes it."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{pod}.n"))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """On which the test's schedulers are."""
    node, command = Node(tmp_path), scheduler_process.command
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
    return node


@pytest.fixture
def kubelet(run_dir: RunDir) -> Iterator[Kubelet]:
    """Of the node."""
    kubelet = Kubelet()
    with answering(kubelet, run_dir.root / "kubelet.sock"):
        yield kubelet


@pytest.fixture
def serving(serve: Serve, small_devices: dict[str, str], run_dir: RunDir, kubelet: Kubelet) -> Serve:
    """Starts a scheduler that asks that kubelet."""
    options = (*OPTIONS, "--pod-resources", str(run_dir.root / "kubelet.sock"))
    return lambda: serve(*options, environment=small_devices)


@pytest.fixture
def start(libraries: Libraries, small_devices: dict[str, str], run_dir: RunDir, node: Node) -> Iterator[Start]:
    """Starts a program in a pod, which does what a test says."""
    base = small_devices | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(pod: str, backend: str) -> ControlledProgram:
            program = ControlledProgram(base | {paths.MEMORY: backend}, name="call_loop.py")
            stack.callback(program.end)
            node.put(program.pid, "n", pod, "main")
            for line in OPEN:
                program.begin(line)
            return program

        yield begin


def gpu(scheduler: Scheduler) -> str:
    """The UUID of the first GPU."""
    return scheduler.status().devices[0].uuid


def drives(scheduler: Scheduler, *, claims: bool = True, **more: object) -> None:
    """The driver tells of the claim, or that there is none."""
    terms: dict[str, object] = {
        "memory_bytes": LIMIT,
        "shares": 1,
        "memory_limit_bytes": LIMIT,
        "memory_request_bytes": LIMIT // 2,
    }
    terms |= {"request": "gpu", "device_uuid": gpu(scheduler)}
    device = admin_pb2.ClaimedDevice(**(terms | more))  # type: ignore[arg-type]
    claim = admin_pb2.Claim(uid="u1", namespace="n", name="share", devices=[device])
    scheduler.admin.SetClaims(admin_pb2.SetClaimsRequest(claims=[claim] if claims else []), timeout=20)


def names(scheduler: Scheduler, *pods: str, **terms: object) -> list[admin_pb2.Overruled]:
    """The node agent tells that these pods have the claim, with annotations for these terms."""
    claims = [admin_pb2.ContainerClaim(namespace="n", name="share")]
    told = [
        admin_pb2.AnnotatedTerms(pod_uid=uid(pod), container="main", claims=claims, **terms)  # type: ignore[arg-type]
        for pod in pods
    ]
    request = admin_pb2.SetAnnotatedTermsRequest(containers=told, complete=True)
    return list(scheduler.admin.SetAnnotatedTerms(request, timeout=20).overruled)


def clients(scheduler: Scheduler) -> list[admin_pb2.Client]:
    """All of them."""
    return [client for device in scheduler.status().devices for client in device.clients]


def free(program: ControlledProgram) -> int:
    """Memory that it is told it may still have."""
    assert program.do("cuMemGetInfo_v2 &free &total") == "0"
    return int(program.do("value free"))


def answers(program: ControlledProgram, count: int = len(OPEN)) -> list[str]:
    """The answers to so many calls."""
    return [program.answer() for _ in range(count)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_pods_share_a_limit(serving: Serve, start: Start, kubelet: Kubelet, backend: str) -> None:
    """What one has the other can't have, and the next scheduler knows it, though nobody tells it."""
    scheduler = serving()
    drives(scheduler)
    names(scheduler, "a", "b")
    kubelet.claimed |= {("n", pod, "main"): [("share", OURS, gpu(scheduler).lower())] for pod in ("a", "b")}
    first, second = start("a", backend), start("b", backend)
    for program in (first, second):
        assert answers(program) == ["0"] * 3
    assert first.do(f"cuMemAlloc_v2 &a {LIMIT * 5 // 8}") == "0"
    poll_until(lambda: free(second) == LIMIT * 3 // 8, "the second one is told", WAIT)
    assert second.do(f"cuMemAlloc_v2 &b {LIMIT // 2}") == OUT_OF_MEMORY
    assert second.do(f"cuMemAlloc_v2 &b {LIMIT // 4}") == "0"
    assert {client.member_of for client in clients(scheduler)} == {ACCOUNT}
    terms = clients(scheduler)[0].terms
    assert list(terms.by_claim) == ["memory_limit_bytes", "memory_request_bytes"]
    device = scheduler.status().devices[0]
    claimed = device.claimed
    assert (claimed.promised_bytes, claimed.consumed_bytes, claimed.requested_bytes) == (LIMIT, LIMIT, LIMIT // 2)
    assert claimed.resident_bytes >= LIMIT * 7 // 8
    poll_until(lambda: len(scheduler.status().devices[0].allocations) == 2, "kubelet's word is there", WAIT)
    allocations = scheduler.status().devices[0].allocations
    assert {(each.claim, each.shares, each.identity.pod) for each in allocations} == {
        ("n/share", 1, "a"),
        ("n/share", 1, "b"),
    }
    assert not scheduler.status().devices[0].allocations_without_client
    scheduler.kill()
    scheduler = serving()
    poll_until(lambda: {each.member_of for each in clients(scheduler)} == {ACCOUNT}, "they are back", WAIT)
    poll_until(lambda: len(clients(scheduler)) == 2, "both are", WAIT)
    assert first.do(f"cuMemAlloc_v2 &more {LIMIT // 2}") == OUT_OF_MEMORY
    assert first.do("cuMemFree_v2 a") == "0"
    poll_until(lambda: free(second) == LIMIT * 3 // 4, "the second one is told", WAIT)
    assert second.do(f"cuMemAlloc_v2 &more {LIMIT // 2}") == "0"


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_waits_for_the_driver(serving: Serve, start: Start, kubelet: Kubelet, backend: str) -> None:
    """The agent names a claim that kubelet calls nvshare's; the driver tells the next scheduler of it."""
    scheduler = serving()
    names(scheduler, "a")
    kubelet.claimed["n", "a", "main"] = [("share", OURS, gpu(scheduler).lower())]
    program = start("a", backend)
    program.begin(f"cuMemAlloc_v2 &a {LIMIT + MIB}")
    poll_until(lambda: [each.memory_wait for each in clients(scheduler)] == [NOT_TOLD], "the status says why", WAIT)
    scheduler.kill()
    program.said("lost the scheduler")
    scheduler = serving()
    poll_until(lambda: [each.memory_wait for each in clients(scheduler)] == [NOT_TOLD], "it says so again", WAIT)
    drives(scheduler)
    assert answers(program, 4) == ["0", "0", "0", OUT_OF_MEMORY]
    assert program.do(f"cuMemAlloc_v2 &a {LIMIT}") == "0"


def test_a_claim_of_another_driver(serving: Serve, start: Start, kubelet: Kubelet) -> None:
    """It is not awaited: the container is the account."""
    scheduler = serving()
    names(scheduler, "a")
    kubelet.claimed["n", "a", "main"] = [("share", "dra.net", "nic-0")]
    program = start("a", "swap")
    program.begin(f"cuMemAlloc_v2 &a {LIMIT + MIB}")
    assert answers(program, 4) == ["0"] * 4
    assert [each.member_of for each in clients(scheduler)] == ["n/a/main"]


def test_a_claim_of_an_init_container(serving: Serve, start: Start) -> None:
    """Kubelet does not list it. If the driver does not name it twice, it is not the driver's."""
    scheduler = serving()
    names(scheduler, "a")
    drives(scheduler, claims=False)
    program = start("a", "swap")
    program.begin(f"cuMemAlloc_v2 &a {LIMIT + MIB}")
    poll_until(lambda: [each.memory_wait for each in clients(scheduler)] == [NOT_TOLD], "it waits", WAIT)
    drives(scheduler, claims=False)
    drives(scheduler, claims=False)
    assert answers(program, 4) == ["0"] * 4


def test_an_extended_resource(serving: Serve, start: Start, kubelet: Kubelet) -> None:
    """Its claim says no terms: the container is the account, and its annotations count."""
    scheduler = serving()
    device = admin_pb2.ClaimedDevice(request="r", device_uuid=gpu(scheduler), memory_bytes=LIMIT, shares=1)
    claim = admin_pb2.Claim(uid="u1", namespace="n", name="share", devices=[device])
    scheduler.admin.SetClaims(admin_pb2.SetClaimsRequest(claims=[claim]), timeout=20)
    assert not names(scheduler, "a", memory_limit_bytes=2 * LIMIT)
    kubelet.claimed["n", "a", "main"] = [("share", OURS, gpu(scheduler).lower())]
    program = start("a", "swap")
    assert answers(program) == ["0"] * 3
    assert program.do(f"cuMemAlloc_v2 &a {3 * LIMIT}") == OUT_OF_MEMORY
    assert program.do(f"cuMemAlloc_v2 &a {2 * LIMIT}") == "0"
    assert [each.member_of for each in clients(scheduler)] == ["n/a/main"]
    assert scheduler.status().devices[0].claimed == admin_pb2.ClaimedMemory(consumed_bytes=LIMIT, shares=1)


def test_what_is_overruled_is_said(serving: Serve) -> None:
    """In the answer to the node agent, as soon as both are known."""
    scheduler = serving()
    assert not names(scheduler, "a", memory_limit_bytes=2 * LIMIT, weight=2.0)
    drives(scheduler)
    assert names(scheduler, "a", memory_limit_bytes=2 * LIMIT, weight=2.0) == [
        admin_pb2.Overruled(
            pod_uid=uid("a"), container="main", field="memory_limit_bytes", claim="n/share", counts="64 MiB"
        )
    ]


def test_who_looks_after_a_gpu_holds_nothing(serving: Serve, kubelet: Kubelet) -> None:
    """Admin access takes no memory and no shares, and a client is not missed."""
    scheduler = serving()
    kubelet.claimed["n", "a", "main"] = [("share", OURS, gpu(scheduler).lower())]
    poll_until(lambda: len(scheduler.status().devices[0].allocations) == 1, "kubelet's word is there", WAIT)
    device = admin_pb2.ClaimedDevice(request="r", device_uuid=gpu(scheduler), admin_access=True)
    claim = admin_pb2.Claim(uid="u1", namespace="n", name="share", devices=[device])
    scheduler.admin.SetClaims(admin_pb2.SetClaimsRequest(claims=[claim]), timeout=20)
    shown = scheduler.status().devices[0]
    assert (list(shown.allocations), list(shown.allocations_without_client)) == ([], [])
    assert not shown.HasField("claimed")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"weight": 0.0}, "claim n/share: request 'gpu': weight 0 is not allowed; from 0.01 to 1000 is"),
        ({"priority": "top"}, "claim n/share: request 'gpu': priority 'top' is not allowed; low, normal, high are"),
        ({"device_uuid": "gpu-1"}, "claim n/share: request 'gpu': 'gpu-1' is no device UUID"),
        ({"memory_request_bytes": 2 * LIMIT}, "a memory request of 128 MiB is above the memory limit of 64 MiB"),
    ],
)
def test_what_is_not_allowed(serving: Serve, wrong: dict[str, object], said: str) -> None:
    """It is named, and nothing changes."""
    scheduler = serving()
    drives(scheduler)
    with pytest.raises(grpc.RpcError) as refused:
        drives(scheduler, **wrong)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert said in (refused.value.details() or "")
    assert scheduler.status().devices[0].claimed.promised_bytes == LIMIT
