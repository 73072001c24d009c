"""A scheduler in a process of its own, and small clients of it, for tests and benchmarks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import grpc

from nvshare import scheduler_process
from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.paths import RunDir
from nvshare.protocol import legacy, wire
from nvshare.protocol.legacy import LegacyType, Message
from tests.polling import poll_until
from tests.scheduler.other_processes import OtherProcesses

TIMEOUT_SECONDS = 20.0
"""Seconds after which something that must happen counts as not happening."""

GIB = 1 << 30
DEVICE = bytes.fromhex("6e767368617265000000000000000001")
OTHER_DEVICE = bytes.fromhex("6e767368617265000000000000000002")

FrameT = TypeVar("FrameT", bound=wire.Frame)


class ClosedError(Exception):
    """The scheduler ended the connection."""


class _Socket:
    """A connected socket that is read in messages of one size."""

    def __init__(self, end: Path | socket.socket, size: int) -> None:
        """``end``: where to connect, or what is connected already."""
        if isinstance(end, Path):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(os.fspath(end))
        else:
            self.socket = end
        self._size = size
        self._received = b""
        self.descriptors: list[int] = []
        """What came with the messages and was not taken yet."""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, seconds: float) -> bytes:
        """The next message; TimeoutError, or ClosedError."""
        deadline = time.monotonic() + seconds
        while len(self._received) < self._size:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data, descriptors, _flags, _address = socket.recv_fds(self.socket, 65536, 16, socket.MSG_CMSG_CLOEXEC)
                self.descriptors += descriptors
            except ConnectionResetError:
                data = b""
            if not data:
                raise ClosedError
            self._received += data
        message, self._received = self._received[: self._size], self._received[self._size :]
        return message

    def wait_closed(self) -> None:
        try:
            while True:
                self.receive(TIMEOUT_SECONDS)
        except ClosedError:
            return

    def close(self) -> None:
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()


class WireClient:
    """A version 2 client."""

    def __init__(self, end: Path | socket.socket) -> None:
        self.raw = _Socket(end, wire.FRAME_BYTES)
        self.client_id = 0
        self.epoch = 0

    def register(self, frame: wire.Register | None = None, **changes: object) -> Self:
        """Sends REGISTER (by default idle on DEVICE, with 16 GiB there) and takes the SCHED_ON."""
        frame = frame or wire.Register(DEVICE, 16 * GIB, backend=wire.Backend.NATIVE, command="test", pid=os.getpid())
        self.send(replace(frame, **changes))  # type: ignore[arg-type]
        answer = self.expect(wire.SchedOn)
        self.client_id, self.epoch = answer.client_id, answer.epoch
        return self

    def send(self, frame: wire.Frame) -> None:
        self.raw.send(wire.encode(frame))

    def receive(self, seconds: float = TIMEOUT_SECONDS) -> wire.Frame:
        return wire.decode(self.raw.receive(seconds))

    def expect(self, kind: type[FrameT]) -> FrameT:
        """The next frame, which is of this kind."""
        frame = self.receive()
        assert isinstance(frame, kind), f"{frame} came, not {kind.__name__}"
        return frame

    def lock(self) -> int:
        """Asks for the lock and waits for it; the answer is the grant."""
        self.send(wire.ReqLock())
        return self.expect(wire.LockOk).grant

    def expect_drop(self) -> None:
        """It is asked to leave; before that it may be told that somebody waits, but not where its quantum is over."""
        frame = self.receive()
        if isinstance(frame, wire.Waiters):
            frame = self.receive()
        assert isinstance(frame, wire.DropLock), f"{frame} came, not DropLock"

    def expect_arena(self) -> tuple[int, int]:
        """The next frame, which is a segment of host memory: its size and its descriptor, which stays this client's."""
        segment_bytes = self.expect(wire.Arena).segment_bytes
        return segment_bytes, self.raw.descriptors[-1]

    def has_nothing(self) -> bool:
        """Whether no frame has come. Only meaningful after something that happened later was seen."""
        try:
            self.receive(0.001)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self.raw.close()


class LegacyClient:
    """A version 1 peer, with the messages that nvshare v0.1.1 sends."""

    def __init__(self, end: Path | socket.socket) -> None:
        self.raw = _Socket(end, legacy.MESSAGE_BYTES)
        self.client_id = 0

    def register(self, answer: LegacyType = LegacyType.SCHED_ON, pod: str = "none", namespace: str = "none") -> Self:
        self.raw.send(legacy.encode(Message(LegacyType.REGISTER, pod, namespace, client_id=1234)))
        message = self.expect(answer)
        assert len(message.data) == 16
        self.client_id = int(message.data, 16)
        return self

    def send(self, kind: LegacyType, data: str = "") -> None:
        self.raw.send(legacy.encode(Message(kind, client_id=self.client_id, data=data)))

    def expect(self, kind: LegacyType) -> Message:
        message = legacy.decode(self.raw.receive(TIMEOUT_SECONDS))
        assert message.type is kind, f"{message} came, not {kind.name}"
        return message

    def close(self) -> None:
        self.raw.close()


class Scheduler:
    """A scheduler process; a context manager that ends it."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        descriptors: int | None = None,
        cgroup: Path | None = None,
        before: Sequence[str] = (),
        named: Path | None = None,
    ) -> None:
        """``descriptors``: the most that the process may have open; ``cgroup``: the folder of the one that it joins.

        ``before``: what comes before its command, in whose view ``named`` may be the name of the run directory.
        """
        self.run_dir = RunDir(root)
        root.parent.mkdir(parents=True, exist_ok=True)
        self.log_file = root.with_suffix(".log")
        command = scheduler_process.command(RunDir(named or root), "--log-format", "json")
        # Not the kubelet that this machine may have; what a test says comes later and counts.
        command += ["--pod-resources", os.fspath(root / "no-kubelet.sock")]
        if descriptors is not None:
            command = ["prlimit", f"--nofile={descriptors}", *command]
        if cgroup is not None:
            command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', os.fspath(cgroup), *command]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*before, *command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
            )
        self._clients: list[WireClient | LegacyClient] = []
        self._others: list[OtherProcesses] = []
        self._channel: grpc.Channel | None = None

    def __enter__(self) -> Self:
        try:
            poll_until(self._is_ready, "the scheduler accepts clients", TIMEOUT_SECONDS)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        for others in self._others:
            others.end()
        if self._channel is not None:
            self._channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log_file.read_text()
        # The socket of a scheduler that ended refuses.
        return scheduler_process.accepts(self.run_dir.legacy_socket)

    def client(self, connected: socket.socket | None = None) -> WireClient:
        """A connection that says nothing yet; ``connected``: a socket that is connected already."""
        client = WireClient(connected or self.run_dir.client_socket)
        self._clients.append(client)
        return client

    def clients_of_others(
        self, count: int, each: int = 100, *arguments: str, before: Sequence[str] = ()
    ) -> list[WireClient]:
        """Connections of this many other processes, ``each`` of them, which live as long as this scheduler's test.

        ``arguments`` make the processes' command lines longer; ``before`` is what comes before their command.
        """
        others = OtherProcesses(self.run_dir.client_socket, count, each, *arguments, before=before)
        self._others.append(others)
        clients = [WireClient(connection) for connection in others.connections]
        self._clients += clients
        return clients

    def legacy_client(self, end: Path | socket.socket | None = None) -> LegacyClient:
        """A version 1 connection, by default at the original's path, that says nothing yet."""
        client = LegacyClient(end or self.run_dir.legacy_socket)
        self._clients.append(client)
        return client

    @property
    def admin(self) -> admin_pb2_grpc.AdminStub:
        """The admin API."""
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{self.run_dir.admin_socket}")
        return admin_pb2_grpc.AdminStub(self._channel)

    def status(self) -> admin_pb2.Status:
        return self.admin.GetStatus(admin_pb2.GetStatusRequest(), timeout=TIMEOUT_SECONDS)

    def states(self) -> dict[int, str]:
        """The state of every client by number."""
        return {client.id: client.state for device in self.status().devices for client in device.clients}

    def open_arenas(self) -> int:
        """How many segments of host memory it has open."""
        found = 0
        with os.scandir(f"/proc/{self.process.pid}/fd") as links:
            for link in links:
                try:
                    found += "nvshare-arena" in str(Path(link.path).readlink())
                except OSError:
                    continue  # It was closed meanwhile.
        return found

    def log(self) -> list[dict[str, object]]:
        """Every whole line of the log, this scheduler's and those before it."""
        return [json.loads(line) for line in self.log_file.read_text().rpartition("\n")[0].splitlines()]

    def logged(self, event: str) -> list[dict[str, object]]:
        """The lines with this text; waits until there is one."""
        return poll_until(
            lambda: [line for line in self.log() if line["event"] == event], f"log line {event!r}", TIMEOUT_SECONDS
        )

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """As an operator would; the answer is the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_SECONDS)
