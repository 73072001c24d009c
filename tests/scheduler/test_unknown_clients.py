"""No memory before it is known what a container may have: real programs in pods, with the real scheduler."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from nvshare import paths, scheduler_process
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.kubelet import Node
from tests.scheduler.wire_client import DEVICE, GIB, Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

MIB = 1 << 20
LIMIT = 64 * MIB
OUT_OF_MEMORY = "2"
OPTIONS = ("--host-memory", "2GiB", "--reserve", "16MiB")
LONG, SHORT = ("--await-annotations", "600"), ("--await-annotations", "0.5")
BACKENDS = ("swap", "managed", "native")
POD = str(uuid.uuid5(uuid.NAMESPACE_DNS, "notebook.n"))
"""As the node makes it."""
OPEN = ("cuInit 0", "cuDevicePrimaryCtxRetain &primary0 0", "cuCtxSetCurrent primary0")
NOT_TOLD = "nvshare-node-agent has not told yet what its pod's annotations say"

Serve = Callable[..., Scheduler]
Start = Callable[..., ControlledProgram]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """On which the test's schedulers are."""
    node, command = Node(tmp_path), scheduler_process.command
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
    return node


@pytest.fixture
def start(
    libraries: Libraries, small_devices: dict[str, str], run_dir: RunDir, node: Node
) -> Iterator[Callable[..., ControlledProgram]]:
    """Starts a program in the pod, which does what a test says."""
    base = small_devices | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(backend: str, *, in_pod: bool = True) -> ControlledProgram:
            program = ControlledProgram(base | {paths.MEMORY: backend}, name="call_loop.py")
            stack.callback(program.end)
            if in_pod:
                node.put(program.pid, "n", "notebook", "main")
            else:
                node.put_on_the_host(program.pid)
            return program

        yield begin


@pytest.fixture
def serving(serve: Serve, small_devices: dict[str, str]) -> Serve:
    """Starts a scheduler for these programs."""
    return lambda *options: serve(*OPTIONS, *options, environment=small_devices)


def tells(scheduler: Scheduler, *entries: admin_pb2.AnnotatedTerms, complete: bool = True) -> None:
    """The node agent tells what annotations say."""
    request = admin_pb2.SetAnnotatedTermsRequest(containers=entries, complete=complete)
    scheduler.admin.SetAnnotatedTerms(request, timeout=20)


def limited() -> admin_pb2.AnnotatedTerms:
    """The pod's container has a memory limit."""
    return admin_pb2.AnnotatedTerms(pod_uid=POD, container="main", memory_limit_bytes=LIMIT)


def begins(program: ControlledProgram, *lines: str) -> None:
    """It makes these calls without an answer being waited for."""
    for line in lines:
        program.begin(line)


def answers(program: ControlledProgram, count: int) -> list[str]:
    """The answers to so many calls."""
    return [program.answer() for _ in range(count)]


def waits(scheduler: Scheduler) -> str:
    """Why the one client is given no memory."""
    clients = [each for device in scheduler.status().devices for each in device.clients]
    return clients[0].memory_wait if clients else ""


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_allocation_waits_for_the_node_agent(serving: Serve, start: Start, backend: str) -> None:
    """The agent tells of the pod late: what passes its limit is refused all the same, and what does not is had."""
    scheduler = serving(*LONG)
    tells(scheduler, admin_pb2.AnnotatedTerms(pod_uid=str(uuid.uuid4())))
    program = start(backend)
    begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT + 2 * MIB}", f"cuMemAlloc_v2 &b {LIMIT}")
    poll_until(lambda: waits(scheduler) == NOT_TOLD, "the status says why", 20)
    tells(scheduler, limited())
    assert answers(program, 5) == ["0", "0", "0", OUT_OF_MEMORY, "0"]
    assert not waits(scheduler)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_allocation_waits_for_the_description(serving: Serve, start: Start, node: Node, backend: str) -> None:
    """The agent has told, but it is found out late which pod the process is in."""
    scheduler = serving(*LONG)
    tells(scheduler, limited())
    program = start(backend)
    hidden = node.hide(program.pid)
    begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT + 2 * MIB}")
    poll_until(lambda: scheduler.states(), "it is registered", 20)
    with hidden.open("w") as status:
        status.write(f"NSpid:\t{program.pid}\t1\n")
    assert answers(program, 4) == ["0", "0", "0", OUT_OF_MEMORY]
    assert program.do(f"cuMemAlloc_v2 &b {LIMIT}") == "0"


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_fails_closed(serving: Serve, start: Start, backend: str) -> None:
    """The agent tells nothing in time: memory is refused with the reason, and had once it has told."""
    scheduler = serving(*SHORT)
    program = start(backend)
    begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT}")
    words = answers(program, 4)
    assert words[3] != "0"
    assert f"{NOT_TOLD}, after 0.5 s" in program.said(NOT_TOLD)
    assert waits(scheduler) == f"{NOT_TOLD}, after 0.5 s"
    tells(scheduler, limited())
    poll_until(lambda: not waits(scheduler), "it is known", 20)
    program.do(OPEN[1]), program.do(OPEN[2])
    poll_until(lambda: program.do(f"cuMemAlloc_v2 &a {LIMIT}") == "0", "it may have what its limit allows", 20)
    assert program.do(f"cuMemAlloc_v2 &b {2 * MIB}") == OUT_OF_MEMORY


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "options", [pytest.param((), id="nobody tells"), pytest.param(LONG, id="an agent of an older version")]
)
def test_what_nobody_tells_is_not_awaited(serving: Serve, start: Start, options: tuple[str, ...], backend: str) -> None:
    """Without a node agent, or with one that names only pods with annotations, a pod's program has its memory."""
    scheduler = serving(*options)
    if options:
        tells(scheduler, complete=False)
    program = start(backend)
    begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT}")
    assert answers(program, 4) == ["0"] * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_is_in_no_pod_does_not_wait(serving: Serve, start: Start, backend: str) -> None:
    """Annotations are pods'."""
    serving(*LONG)
    program = start(backend, in_pod=False)
    begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT}")
    assert answers(program, 4) == ["0"] * 4


def test_the_next_scheduler_knows_what_was_told(serving: Serve, start: Start) -> None:
    """A pod of which the agent told the one before, be it that it has no annotations, does not wait for it again."""
    scheduler = serving(*LONG)
    tells(scheduler, admin_pb2.AnnotatedTerms(pod_uid=POD))
    scheduler.kill()
    scheduler = serving(*LONG)
    program = start("swap")
    begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT}")
    assert answers(program, 4) == ["0"] * 4


def test_a_scheduler_that_dies_in_between_lets_nobody_through(serving: Serve, start: Start) -> None:
    """Who waited for its word waits for the next one's."""
    for backend in BACKENDS:
        scheduler = serving(*LONG)
        program = start(backend)
        begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT + 2 * MIB}")
        poll_until(lambda each=scheduler: waits(each) == NOT_TOLD, "it waits", 20)
        scheduler.kill()
        program.said("lost the scheduler")
        scheduler = serving(*LONG)
        tells(scheduler, limited())
        assert answers(program, 4) == ["0", "0", "0", OUT_OF_MEMORY]
        program.end()
        tells(scheduler)
        scheduler.kill()


def test_the_waiter_is_told_why(serving: Serve, start: Start) -> None:
    """On stderr, after ten seconds, by each backend."""
    scheduler = serving(*LONG)
    programs = [start(backend) for backend in BACKENDS]
    for program in programs:
        begins(program, *OPEN, f"cuMemAlloc_v2 &a {LIMIT}")
    for program in programs:
        line = f"a call that needs memory has waited for 10 s: {NOT_TOLD}"
        poll_until(partial(said, program, line), "stderr says it", 60)
    tells(scheduler, admin_pb2.AnnotatedTerms(pod_uid=POD))
    for program in programs:
        assert answers(program, 4) == ["0"] * 4


def said(program: ControlledProgram, line: str) -> bool:
    """Whether it is on the program's stderr."""
    return any(line in each for each in program.errors)


def test_an_older_library(serve: Serve, node: Node) -> None:
    """What one asks for that does not wait for its limit is held all the same, and refused in the end."""
    scheduler = serve("--host-memory", "2GiB", "--await-annotations", "2")
    with ClientProcess() as process:
        node.put(process.process.pid, "n", "notebook", "main")
        client = process.connect(scheduler)
        client.register(wire.Register(DEVICE, 16 * GIB, swaps=True, level=3))
        client.send(wire.Terms())
        client.send(wire.Resident(0, 0, 0))
        client.send(wire.Grow(1, GIB, 0))
        refused = client.expect(wire.RefuseGrowth)
        assert (refused.request, refused.text) == (1, f"{NOT_TOLD}, after 2 s")
        client.send(wire.Grow(2, GIB, 0))
        assert client.expect(wire.RefuseGrowth).request == 2
        tells(scheduler, admin_pb2.AnnotatedTerms(pod_uid=POD, container="main", memory_limit_bytes=2 * GIB))
        assert client.expect(wire.Limit) == wire.Limit(2 * GIB)
        client.send(wire.Grow(3, GIB, 0))
        assert client.expect(wire.Allot).request == 3
