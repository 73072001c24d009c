"""Clients in containers that kubelet gave other GPUs: they stop nobody, and are sent away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nvshare import paths, scheduler_process, shim
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.conftest import SOURCE_ROOT
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.kubelet import Kubelet, Node, answering
from tests.scheduler.wire_client import DEVICE, OTHER_DEVICE, TIMEOUT_SECONDS, Scheduler, WireClient
from tests.shim.controlled_program import ControlledProgram

A = "GPU-6e767368-6172-6500-0000-000000000001"
B = "GPU-6e767368-6172-6500-0000-000000000002"
HUGE_GRANT = (1 << 63) - 1
REFUSED = f"kubelet gave this container other GPUs than {A}"
WRITE = "cuMemsetD8_v2 p 1 64"
NOT_PERMITTED = "800"
"""CUDA_ERROR_NOT_PERMITTED."""
MIB = 1 << 20
SENT_AWAY = "sent a client away: kubelet did not give this GPU to its container"

Spawn = Callable[..., ClientProcess]
Start = Callable[..., Scheduler]
StartProgram = Callable[..., ControlledProgram]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """On which the test's schedulers run."""
    node = Node(tmp_path)
    command = scheduler_process.command
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
    return node


@pytest.fixture
def spawn(node: Node) -> Iterator[Spawn]:
    """Starts processes in containers of the node: of pod n/POD the container ``c``, unless it is named."""
    with ExitStack() as stack:

        def begin(pod: str, container: str = "c") -> ClientProcess:
            process = stack.enter_context(ClientProcess())
            node.put(process.process.pid, "n", pod, container)
            return process

        yield begin


@pytest.fixture
def kubelet(run_dir: RunDir) -> Iterator[Kubelet]:
    """One that gave GPU A to pod ``owner`` and B to pod ``stranger``."""
    kubelet = Kubelet()
    kubelet.held["n", "owner", "c"] = [f"{A}__1"]
    kubelet.held["n", "stranger", "c"] = [f"{B}__1"]
    with answering(kubelet, run_dir.root / "kubelet.sock"):
        yield kubelet


@pytest.fixture
def start(serve: Callable[..., Scheduler], node: Node, kubelet: Kubelet, run_dir: RunDir) -> Start:
    """Starts schedulers with more options that know what kubelet says."""

    def begin(*options: str, environment: dict[str, str] | None = None) -> Scheduler:
        socket = f"--pod-resources={run_dir.root / 'kubelet.sock'}"
        metrics = "--metrics-address=127.0.0.1:0"
        scheduler = serve("--policy=exclusive", metrics, socket, *options, environment=environment)
        said = "kubelet's word has come"
        poll_until(lambda: {A, B} <= {each.uuid for each in scheduler.status().devices}, said, TIMEOUT_SECONDS)
        return scheduler

    return begin


@pytest.fixture
def scheduler(start: Start) -> Scheduler:
    """One of these."""
    return start()


def answers(kubelet: Kubelet) -> None:
    """Waits until kubelet has answered a question that was asked after now, and the scheduler has the answer."""
    asked = kubelet.asked
    poll_until(lambda: kubelet.asked >= asked + 3, "it was asked again", TIMEOUT_SECONDS)


def stays(scheduler: Scheduler, kubelet: Kubelet, *clients: WireClient) -> bool:
    """Whether exactly these are clients still when kubelet's word on them has come."""
    for _ in clients:
        scheduler.logged("client registered")
    poll_until(
        lambda: sum(line["event"] == "client registered" for line in scheduler.log()) >= len(clients), "all are known"
    )
    answers(kubelet)
    return set(scheduler.states()) == {client.client_id for client in clients}


def refusal(process: ClientProcess, scheduler: Scheduler) -> str:
    """Why a process that registers on GPU A is refused."""
    client = process.connect(scheduler)
    client.send(wire.Register(DEVICE, 1))
    reason = client.expect(wire.Refused).text
    client.raw.wait_closed()
    return reason


def test_a_stranger_that_claims_to_hold_stops_nobody(scheduler: Scheduler, spawn: Spawn) -> None:
    """However often it says so: the GPU's owner is granted at once, though no stranger ever leaves."""
    owner = spawn("owner").connect(scheduler).register()
    for _ in range(3):
        stranger = spawn("stranger")
        for _ in range(2):
            stranger.connect(scheduler).send(wire.Register(DEVICE, 1, state=wire.State.HOLDING, grant=HUGE_GRANT))
        owner.send(wire.LockReleased(owner.lock()))


def test_a_stranger_that_holds(start: Start, spawn: Spawn) -> None:
    """It is told to stop and counts no more; when it has stopped it is disconnected, and refused from then on."""
    scheduler = start("--grace=60")
    process = spawn("stranger")
    stranger = process.connect(scheduler).register()
    grant = stranger.lock()
    owner = spawn("owner").connect(scheduler).register(state=wire.State.WAITING)
    owner.expect(wire.LockOk)
    frames = iter(stranger.receive, wire.DropLock(grant))
    assert all(isinstance(frame, wire.Waiters) for frame in frames)
    assert scheduler.states() == {owner.client_id: "holding"}
    stranger.send(wire.Footprint(5))
    stranger.send(wire.LockReleased(grant))
    stranger.raw.wait_closed()
    assert refusal(process, scheduler) == REFUSED
    process.connect(scheduler).register(device_uuid=OTHER_DEVICE).lock()


def test_what_is_said_of_a_stranger(scheduler: Scheduler, spawn: Spawn) -> None:
    """The log has who, where, what it was given and what to do; a metric counts them, and each later refusal."""
    process = spawn("stranger")
    process.connect(scheduler).register().raw.wait_closed()
    [line] = scheduler.logged(SENT_AWAY)
    assert (line["level"], line["pid"], line["device"], line["given"]) == ("warning", process.process.pid, A, [B])
    assert (line["namespace"], line["pod"], line["container"], line["state"]) == ("n", "stranger", "c", "idle")
    assert "NVIDIA_VISIBLE_DEVICES" in str(line["remedy"])
    count = 'nvshare_scheduler_dropped_connections_total{reason="not-given"}'
    assert figures(scheduler)[count] == 1
    assert refusal(process, scheduler) == REFUSED
    assert figures(scheduler)[count] == 2
    [line] = scheduler.logged("peer disconnected")
    assert (line["reason"], line["pid"]) == (REFUSED, process.process.pid)


def test_a_stranger_that_does_not_stop(start: Start, spawn: Spawn) -> None:
    """It is disconnected after the grace time; its device waits for it neither before nor after."""
    scheduler = start("--grace=0.5")
    process = spawn("stranger")
    stranger = process.connect(scheduler).register()
    stranger.lock()
    scheduler.logged(SENT_AWAY)
    assert not scheduler.status().devices[0].recovering
    stranger.raw.wait_closed()
    assert not scheduler.status().devices[0].recovering
    scheduler.kill()
    scheduler = start()
    assert not scheduler.status().devices[0].recovering, "the next scheduler waits for it"


def test_a_stranger_that_says_nonsense(start: Start, spawn: Spawn) -> None:
    """It is not waited for any longer."""
    scheduler = start("--grace=60")
    stranger = spawn("stranger").connect(scheduler).register()
    stranger.lock()
    scheduler.logged(SENT_AWAY)
    stranger.raw.send(b"\0" * wire.FRAME_BYTES)
    stranger.raw.wait_closed()
    assert not [line for line in scheduler.log() if line["level"] == "error"]


def test_a_stranger_that_left_before_it_was_known(scheduler: Scheduler, node: Node, spawn: Spawn) -> None:
    """Nobody is sent away then."""
    spawn("stranger").connect(scheduler).register().raw.wait_closed()
    process = spawn("stranger")
    status = node.hide(process.process.pid)
    client = process.connect(scheduler).register()
    client.close()
    poll_until(lambda: client.client_id not in scheduler.states(), "it has left")
    status.write_text("")
    spawn("stranger").connect(scheduler).register().raw.wait_closed()
    poll_until(lambda: len(scheduler.logged(SENT_AWAY)) == 2, "both of the others were sent away")
    assert not [line for line in scheduler.log() if line["level"] == "error"]


def test_a_version_1_client_stays(start: Start, kubelet: Kubelet, spawn: Spawn) -> None:
    """It names no GPU, so where it counts says nothing of where it runs."""
    scheduler = start(f"--legacy-device={A}")
    spawn("stranger").connect(scheduler).register().raw.wait_closed()
    client = scheduler.legacy_client(spawn("stranger").connection(scheduler)).register()
    poll_until(lambda: len(scheduler.logged("client registered")) == 2, "it is known")
    answers(kubelet)
    assert set(scheduler.states()) == {client.client_id}


def test_who_may_be_there_stays(scheduler: Scheduler, kubelet: Kubelet, node: Node, spawn: Spawn) -> None:
    """A container on each GPU that it was given, by whichever plugin; and all of whom kubelet does not say it."""
    kubelet.held["n", "both", "c"] = [f"{A}__2", f"{B}__2"]
    kubelet.held["n", "mixed", "c"] = [f"{B}__3"]
    kubelet.others["n", "mixed", "c"] = {"nvidia.com/gpu": [A]}
    kubelet.held["n", "nothing", "c"] = []
    kubelet.held["n", "stranger", "sidecar"] = []
    host = spawn("host")
    node.put_on_the_host(host.process.pid)
    wanted = {
        DEVICE: [spawn("both"), spawn("mixed"), spawn("nothing"), spawn("elsewhere"), spawn("stranger", "init"), host],
        OTHER_DEVICE: [spawn("both"), spawn("stranger", "sidecar")],
    }
    clients = [
        process.connect(scheduler).register(device_uuid=device)
        for device, processes in wanted.items()
        for process in processes
    ]
    assert stays(scheduler, kubelet, *clients)


def test_kubelet_is_late(start: Start, kubelet: Kubelet, spawn: Spawn) -> None:
    """Until it answers a stranger is served as all are; then the owner need not wait for it. One has left by then."""
    scheduler = start()
    kubelet.may_answer.clear()
    asked = kubelet.asked
    poll_until(lambda: kubelet.asked > asked, "it was asked", TIMEOUT_SECONDS)
    gone = spawn("stranger").connect(scheduler).register()
    scheduler.logged("client registered")
    gone.close()
    stranger = spawn("stranger").connect(scheduler).register()
    stranger.lock()
    owner = spawn("owner").connect(scheduler).register(state=wire.State.WAITING)
    stranger.expect(wire.Waiters)
    assert scheduler.states() == {stranger.client_id: "holding", owner.client_id: "waiting"}
    kubelet.may_answer.set()
    owner.expect(wire.LockOk)


def test_a_claim_while_kubelet_is_silent(start: Start, kubelet: Kubelet, spawn: Spawn) -> None:
    """On a GPU that kubelet gave to containers it stops nobody, whoever makes it, but if the record has it."""
    scheduler = start()
    owner = spawn("owner")
    client = owner.connect(scheduler).register()
    grant = client.lock()
    scheduler.kill()
    client.close()
    scheduler = start()
    kubelet.may_answer.clear()
    client = owner.connect(scheduler).register(state=wire.State.HOLDING, grant=grant)
    liar = spawn("stranger").connect(scheduler).register(state=wire.State.HOLDING, grant=HUGE_GRANT)
    assert liar.expect(wire.DropLock).grant == HUGE_GRANT
    assert scheduler.states() == {client.client_id: "holding", liar.client_id: "idle"}


def test_a_former_pod_of_the_same_name(scheduler: Scheduler, kubelet: Kubelet, spawn: Spawn) -> None:
    """What kubelet said before the client came may be of that one: nobody is refused because of it."""
    asked = kubelet.asked
    poll_until(lambda: kubelet.asked > asked, "it was asked", TIMEOUT_SECONDS)
    kubelet.held["n", "stranger", "c"] = [f"{A}__5"]
    assert stays(scheduler, kubelet, spawn("stranger").connect(scheduler).register())


def test_kubelet_is_away(scheduler: Scheduler, kubelet: Kubelet, spawn: Spawn) -> None:
    """Of containers that are known the former answer counts; others are let in, though their names were listed."""
    kubelet.held["n", "new", "c"] = [f"{B}__5"]
    spawn("stranger").connect(scheduler).register().raw.wait_closed()
    answers(kubelet)
    kubelet.refuses = True
    answers(kubelet)
    spawn("stranger").connect(scheduler).register().raw.wait_closed()
    assert stays(scheduler, kubelet, spawn("new").connect(scheduler).register())


@pytest.fixture
def start_program(small_devices: dict[str, str], run_dir: RunDir, node: Node) -> Iterator[StartProgram]:
    """Starts programs under the library in a pod, which have begun to use a GPU."""
    variables = small_devices | {
        paths.LD_PRELOAD: str(shim.library_path()),
        paths.RUN_DIR: str(run_dir.root / "run"),
        "PYTHONPATH": str(SOURCE_ROOT),
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(
            on_missing: str, ordinal: int, memory: str = "native", pod: str = "stranger", size: int = 64
        ) -> ControlledProgram:
            how = {paths.ON_MISSING: on_missing, paths.MEMORY: memory}
            program = ControlledProgram(variables | how, name="call_loop.py")
            stack.callback(program.end)
            node.put(program.pid, "n", pod, "c")
            retain = f"cuDevicePrimaryCtxRetain &c {ordinal}"
            for call in ("cuInit 0", retain, "cuCtxSetCurrent c"):
                assert program.do(call) == "0"
            # One that is sent away may have heard of it by now.
            assert program.do(f"cuMemAlloc_v2 &p {size}") in ("0", NOT_PERMITTED)
            program.begin(WRITE)
            return program

        yield begin


def test_a_program_on_a_gpu_that_it_was_not_given(
    start: Start, kubelet: Kubelet, start_program: StartProgram, small_devices: dict[str, str]
) -> None:
    """It is told why, and its calls fail for good, also where it is to wait; on its own GPU it runs."""
    scheduler = start(environment=small_devices)
    uuids = {device.index: device.uuid for device in scheduler.status().devices}
    kubelet.held["n", "stranger", "c"] = [f"{uuids['1']}__1"]
    waits, fails, runs = start_program("wait", 0), start_program("fail", 0), start_program("wait", 1)
    assert (runs.answer(), runs.do(WRITE)) == ("0", "0")
    for program in (waits, fails):
        said = program.said(f"refuses this process for good: kubelet gave this container other GPUs than {uuids['0']}")
        assert "NVIDIA_VISIBLE_DEVICES" in said
        assert program.answer() in ("0", NOT_PERMITTED)
        for call in (WRITE, "cuMemAlloc_v2 &q 64", "cuMemAllocPitch_v2 &q &r 64 64 4"):
            assert program.do(call) == NOT_PERMITTED
        assert program.do("cuMemFree_v2 p") == "0"
    clients = {device.index: len(device.clients) for device in scheduler.status().devices}
    assert (clients["0"], clients["1"]) == (0, 1)


@pytest.mark.parametrize("holds", [True, False])
def test_the_memory_of_one_that_is_sent_away(
    start: Start, kubelet: Kubelet, start_program: StartProgram, small_devices: dict[str, str], holds: bool
) -> None:
    """It leaves the GPU although the program lives on: the pod that was given the GPU has all of it."""
    scheduler = start("--host-memory=2GiB", "--reserve=16MiB", environment=small_devices)
    uuids = {device.index: device.uuid for device in scheduler.status().devices}
    kubelet.held["n", "owner", "c"] = [f"{uuids['0']}__1"]
    kubelet.held["n", "stranger", "c"] = [f"{uuids['1']}__1"]
    kubelet.may_answer.clear()
    asked = kubelet.asked
    poll_until(lambda: kubelet.asked > asked, "it was asked", TIMEOUT_SECONDS)
    stranger = start_program("wait", 0, "swap", size=400 * MIB)
    assert stranger.answer() == "0"
    if holds:
        stranger.begin("cuMemsetD8_v2 p 1 400000000")
    owner = start_program("wait", 0, "swap", "owner", 400 * MIB)
    kubelet.may_answer.set()
    assert owner.answer() == "0"
    assert owner.do("cuMemsetD8_v2 p 7 400000000") == "0"
    stranger.said("refuses this process for good")
    if holds:
        assert stranger.answer() in ("0", NOT_PERMITTED)
    assert stranger.do(WRITE) == NOT_PERMITTED
    assert scheduler.status().devices[0].clients[0].pid == owner.pid
