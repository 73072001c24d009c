"""Unmodified clients of nvshare v0.1.1 and its nvsharectl are served; from whom commands are taken."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from nvshare.protocol import wire
from nvshare.protocol.legacy import LegacyType
from nvshare.scheduler.pods.peer import is_in_network_of, is_outside_pods
from tests.polling import poll_until
from tests.scheduler.cgroup import Cgroup
from tests.scheduler.wire_client import Scheduler
from tests.stopping import stop

Serve = Callable[..., Scheduler]

DEVICE_NAME = "GPU-6e767368-6172-6500-0000-000000000001"
LEGACY = ("--policy", "exclusive", "--legacy-device", DEVICE_NAME)
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can send commands, and pretend to be another user")


def state_of(scheduler: Scheduler, number: int, state: str) -> None:
    """Waits until a client is in this state."""
    poll_until(lambda: scheduler.states().get(number) == state, f"client {number} is {state}")


def test_turns_between_versions(serve: Serve) -> None:
    """A version 1 and a version 2 client take turns on the same GPU, each in its own protocol."""
    scheduler = serve(*LEGACY, "--quantum", "0.1")
    old, new = scheduler.legacy_client().register(), scheduler.client().register()
    old.send(LegacyType.REQ_LOCK)
    old.expect(LegacyType.LOCK_OK)
    new.send(wire.ReqLock())
    old.expect(LegacyType.DROP_LOCK)
    old.send(LegacyType.LOCK_RELEASED)
    grant = new.expect(wire.LockOk).grant
    old.send(LegacyType.REQ_LOCK)
    while not isinstance(frame := new.receive(), wire.DropLock):
        assert isinstance(frame, wire.Waiters)
    new.send(wire.LockReleased(grant))
    old.expect(LegacyType.LOCK_OK)


def test_same_service_at_both_sockets(serve: Serve) -> None:
    """Either protocol can be spoken at either path."""
    scheduler = serve(*LEGACY)
    scheduler.legacy_client(scheduler.run_dir.client_socket).register()
    scheduler.legacy_client(scheduler.run_dir.legacy_socket).register()
    scheduler.client().register()
    assert sorted(c.protocol_version for c in scheduler.status().devices[0].clients) == [1, 1, 2]


def test_early_release(serve: Serve) -> None:
    """LOCK_RELEASED without DROP_LOCK hands over; said twice, or a second REQ_LOCK, changes nothing."""
    scheduler = serve(*LEGACY)
    holder, waiter = scheduler.legacy_client().register(), scheduler.legacy_client().register()
    holder.send(LegacyType.REQ_LOCK)
    holder.expect(LegacyType.LOCK_OK)
    waiter.send(LegacyType.REQ_LOCK)
    waiter.send(LegacyType.REQ_LOCK)
    state_of(scheduler, waiter.client_id, "waiting")
    holder.send(LegacyType.LOCK_RELEASED)
    holder.send(LegacyType.LOCK_RELEASED)
    waiter.expect(LegacyType.LOCK_OK)
    holder.send(LegacyType.REQ_LOCK)
    state_of(scheduler, holder.client_id, "waiting")
    waiter.close()
    holder.expect(LegacyType.LOCK_OK)


def test_unknown_footprint_shares_with_nobody(serve: Serve) -> None:
    """Under auto a version 1 client is not known to fit beside anybody, so it takes turns."""
    scheduler = serve("--legacy-device", DEVICE_NAME)
    new, old = scheduler.client().register(), scheduler.legacy_client().register()
    new.lock()
    old.send(LegacyType.REQ_LOCK)
    assert new.expect(wire.Waiters).waiters == 1


def test_started_with_policy_off(serve: Serve) -> None:
    """A version 1 client that registers under off is told SCHED_OFF and counts as a holder without asking."""
    scheduler = serve("--policy", "off", "--legacy-device", DEVICE_NAME)
    client = scheduler.legacy_client().register(LegacyType.SCHED_OFF)
    state_of(scheduler, client.client_id, "holding")


def test_policy_off_and_back(serve: Serve) -> None:
    """off is SCHED_OFF for everyone: all run; with the former policy comes SCHED_ON, and all must ask again."""
    scheduler = serve(*LEGACY)
    holder, waiter, idle = (scheduler.legacy_client().register() for _ in range(3))
    holder.send(LegacyType.REQ_LOCK)
    holder.expect(LegacyType.LOCK_OK)
    waiter.send(LegacyType.REQ_LOCK)
    state_of(scheduler, waiter.client_id, "waiting")
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="off"))
    waiter.expect(LegacyType.LOCK_OK)
    for client in (holder, waiter, idle):
        client.expect(LegacyType.SCHED_OFF)
    assert set(scheduler.states().values()) == {"holding"}
    # What crossed the SCHED_OFF on its way here means nothing any more.
    idle.send(LegacyType.REQ_LOCK)
    holder.send(LegacyType.LOCK_RELEASED)
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive", device_uuid=DEVICE_NAME))
    for client in (holder, waiter, idle):
        client.expect(LegacyType.SCHED_ON)
    assert set(scheduler.states().values()) == {"idle"}
    idle.send(LegacyType.REQ_LOCK)
    idle.expect(LegacyType.LOCK_OK)
    waiter.send(LegacyType.REQ_LOCK)
    state_of(scheduler, waiter.client_id, "waiting")


def test_drop_lock_that_crosses_off(serve: Serve) -> None:
    """A DROP_LOCK that was sent before the SCHED_OFF is answered after it; the client runs on and owes nothing."""
    scheduler = serve(*LEGACY, "--quantum", "0.05")
    holder, waiter = scheduler.legacy_client().register(), scheduler.legacy_client().register()
    holder.send(LegacyType.REQ_LOCK)
    holder.expect(LegacyType.LOCK_OK)
    waiter.send(LegacyType.REQ_LOCK)
    holder.expect(LegacyType.DROP_LOCK)
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="off"))
    holder.expect(LegacyType.SCHED_OFF)
    holder.send(LegacyType.LOCK_RELEASED)
    poll_until(lambda: [c.grants for c in scheduler.status().devices[0].clients] == [2, 1], "the holder runs on")
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive"))
    holder.expect(LegacyType.SCHED_ON)
    holder.send(LegacyType.REQ_LOCK)
    holder.expect(LegacyType.LOCK_OK)


def test_no_gpu_to_belong_to(serve: Serve) -> None:
    """Without NVML and without --legacy-device a version 1 client is sent away, and the log says what to do."""
    scheduler = serve(environment={"LD_LIBRARY_PATH": ""})
    client = scheduler.legacy_client()
    client.send(LegacyType.REGISTER)
    client.raw.wait_closed()
    assert "--legacy-device UUID" in str(scheduler.logged("peer disconnected")[0]["reason"])


@as_root
def test_set_tq_from_root(serve: Serve) -> None:
    """nvsharectl -T: the quantum of all devices, those to come included."""
    scheduler = serve(*LEGACY)
    scheduler.legacy_client().register()
    ctl = scheduler.legacy_client()
    ctl.send(LegacyType.SET_TQ, "7")
    poll_until(lambda: scheduler.status().devices[0].quantum_seconds == 7, "the quantum is set")


SEND = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
    "s.sendall(bytes([8]) + bytes(516) + b'7'.ljust(20, b'\\0'))"
)


def command_and_end(scheduler: Scheduler, path: Path, *prefix: str) -> None:
    """What nvsharectl does, all of it before the scheduler looks at it."""
    scheduler.legacy_client().register()
    stop(scheduler.process.pid)
    subprocess.run([*prefix, sys.executable, "-c", SEND, path], check=True)
    scheduler.process.send_signal(signal.SIGCONT)


@pytest.fixture
def pod_on_the_node(cgroup: Cgroup) -> Iterator[None]:
    """The cgroup of a pod, with nobody in it."""
    folder = cgroup.folder / "pod1b2c3d4e-1111-2222-3333-444444444444"
    folder.mkdir()
    yield
    folder.rmdir()


@as_root
def test_nvsharectl_that_has_ended_already(serve: Serve, pod_on_the_node: None) -> None:
    """nvsharectl does not wait: its command counts all the same, whatever else is on the node."""
    scheduler = serve(*LEGACY)
    command_and_end(scheduler, scheduler.run_dir.legacy_socket)
    poll_until(lambda: scheduler.status().devices[0].quantum_seconds == 7, "the quantum is set")


@as_root
@pytest.mark.parametrize("where", ["the containers' path", "a network of its own"])
def test_who_may_be_in_a_container_and_has_ended(serve: Serve, tool: Callable[[str], str], where: str) -> None:
    """Root that could not be looked at does not command by the path that containers get, nor from another network."""
    scheduler = serve(*LEGACY)
    if where == "a network of its own":
        command_and_end(scheduler, scheduler.run_dir.legacy_socket, tool("unshare"), "--net")
    else:
        command_and_end(scheduler, scheduler.run_dir.client_socket)
    assert "it ended before that could be seen" in str(scheduler.logged("peer disconnected")[0]["reason"])
    assert scheduler.status().devices[0].quantum_seconds == 30


def test_in_whose_network_a_socket_is(tmp_path: Path) -> None:
    """The number must be that of a socket; who can't be read has none."""
    (tmp_path / "1" / "net").mkdir(parents=True)
    (tmp_path / "1" / "net" / "unix").write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 4475658 /run/a b 77\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01  88\n"
    )
    assert is_in_network_of((1, 2), 4475658, tmp_path)
    assert is_in_network_of((2, 1), 88, tmp_path)
    assert not any(is_in_network_of((1, 2), inode, tmp_path) for inode in (0, 3, 77, 447))


@as_root
def test_set_tq_that_is_very_long(serve: Serve) -> None:
    """The original's guide recommends it for batches: the longest quantum is set, and a line says so."""
    scheduler = serve(*LEGACY)
    scheduler.legacy_client().register()
    scheduler.legacy_client().send(LegacyType.SET_TQ, "1000000000")
    (said,) = scheduler.logged("a shorter quantum than was asked for")
    assert said["asked"] == 1000000000
    assert scheduler.status().devices[0].quantum_seconds == 86400


@as_root
@pytest.mark.parametrize(("data", "reason"), [("soon", "no whole number"), ("0", "0 s is not allowed"), ("-3", "-3 s")])
def test_set_tq_with_a_wrong_value(serve: Serve, data: str, reason: str) -> None:
    """The line names the value; nothing changes."""
    scheduler = serve(*LEGACY)
    scheduler.legacy_client().register()
    ctl = scheduler.legacy_client()
    ctl.send(LegacyType.SET_TQ, data)
    ctl.raw.wait_closed()
    assert reason in str(scheduler.logged("peer disconnected")[0]["reason"])
    assert scheduler.status().devices[0].quantum_seconds == 30


@as_root
def test_sched_off_and_on_from_root(serve: Serve) -> None:
    """nvsharectl -S off, twice, and on: the policies of before, of each device, are back."""
    scheduler = serve("--legacy-device", DEVICE_NAME)
    scheduler.legacy_client().register()
    scheduler.client().register(device_uuid=bytes(16))
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive", device_uuid=DEVICE_NAME))
    ctl = scheduler.legacy_client()
    ctl.send(LegacyType.SCHED_OFF)
    ctl.send(LegacyType.SCHED_OFF)
    poll_until(lambda: [device.policy for device in scheduler.status().devices] == ["off", "off"], "policy off")
    ctl.send(LegacyType.SCHED_ON)
    poll_until(lambda: [device.policy for device in scheduler.status().devices] == ["exclusive", "auto"], "all back")


@contextmanager
def user(uid: int) -> Iterator[None]:
    """This process connects as another user."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@as_root
@pytest.mark.parametrize("kind", [LegacyType.SET_TQ, LegacyType.SCHED_OFF, LegacyType.SCHED_ON])
def test_command_from_another_user(serve: Serve, kind: LegacyType) -> None:
    """Refused with one line, and nothing changes; but any user may be a client."""
    scheduler = serve(*LEGACY)
    scheduler.run_dir.root.parent.chmod(0o755)
    with user(NOBODY):
        client, ctl = scheduler.legacy_client(), scheduler.legacy_client()
    client.register()
    ctl.send(kind, "7")
    ctl.raw.wait_closed()
    [line] = scheduler.logged("peer disconnected")
    assert f"it sent {kind.name}, which is only honoured from root outside any pod" in str(line["reason"])
    device = scheduler.status().devices[0]
    assert (device.policy, device.quantum_seconds) == ("exclusive", 30)


@as_root
def test_a_pod_without_capabilities_sees_the_hosts_root(tool: Callable[[str], str]) -> None:
    """Its scheduler runs as root, but may not read the namespaces of a process that may do more than itself."""
    code = f"from nvshare.scheduler.pods import peer; print(peer.is_outside_pods({os.getpid()}, peer.PROC))"
    limited = [tool("setpriv"), "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", sys.executable, "-c", code]
    assert subprocess.run(limited, capture_output=True, text=True, check=True).stdout == "True\n"


@as_root
def test_a_pod_without_capabilities_sees_the_hosts_sockets(tool: Callable[[str], str], tmp_path: Path) -> None:
    """The kernel lists them for everybody, also those in another network than the scheduler's own."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connecting:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        connecting.connect(str(tmp_path / "socket"))
        with listening.accept()[0] as accepted:
            asked = f"({os.getpid()},), {os.fstat(accepted.fileno()).st_ino}, peer.PROC"
            code = f"from nvshare.scheduler.pods import peer; print(peer.is_in_network_of({asked}))"
            limited = [tool("unshare"), "--net", tool("setpriv"), "--bounding-set=-all", "--inh-caps=-all"]
            answer = subprocess.run([*limited, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "True\n"


POD = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_1111_2222_3333_444444444444.slice/x\n"


@pytest.mark.parametrize(
    ("pids", "cgroup", "own", "outside"),
    [
        ("42", "0::/user.slice/session-1.scope\n", "0::/system.slice/nvshare.service\n", True),
        ("42 ending", "12:memory:/\n", "0::/\n", None),
        ("42", POD, "0::/system.slice/nvshare.service\n", False),
        ("42", "12:memory:/kubepods/burstable/pod1b2c3d4e-1111-2222/3f\n", "0::/\n", False),
        ("42", "0::/../../pod1b2c3d4e-1111-2222-3333-444444444444/3f\n", "0::/\n", False),
        ("42", POD, POD, True),
        ("42\t1", "0::/\n", "0::/\n", False),
        ("42", None, "0::/\n", None),
        ("42", "0::/no-text-\udcff\n", "0::/\n", True),
    ],
    ids=[
        "host",
        "ending",
        "pod",
        "pod, cgroup v1",
        "pod, seen from a pod",
        "same pod",
        "other pid namespace",
        "gone",
        "no text",
    ],
)
def test_outside_pods(tmp_path: Path, pids: str, cgroup: str | None, own: str, outside: bool | None) -> None:
    """Only what shares the pid namespace and is in no other pod's cgroup counts as outside; what is gone is unknown."""
    for pid, text, numbers in (("self", own, "7"), ("42", cgroup, pids)):
        if text is not None:
            (tmp_path / pid).mkdir(parents=True)
            numbers, _, ending = numbers.partition(" ")
            (tmp_path / pid / "stat").write_text(f"{pid} (a) S 1 7 7 0 -1 {0x400044 if ending else 0x400040} 0\n")
            (tmp_path / pid / "status").write_text(f"Name:\tNSpid:\t1\t2\nNSpid:\t{numbers}\nNSsid:\t1\n")
            (tmp_path / pid / "cgroup").write_text(text, errors="surrogateescape")
    assert is_outside_pods(42, tmp_path) is outside
