"""The connection to the scheduler's admin API, and what its failures mean to the user."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc

from nvshare import admin_channel
from nvshare.admin import admin_pb2_grpc
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.paths import RunDir
from nvshare.process_state import is_stopped, remedy
from nvshare.scheduler_process import only_for_clients
from nvshare.unix_sockets import distrust, grpc_address, listening_pid, named

RPC_TIMEOUT = 10.0
"""Seconds after which a scheduler that accepted the connection but does not answer is reported."""


class StoppedError(CommandError):
    """The scheduler was asked in vain: a signal stopped it."""

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(f"the scheduler at {path}, pid {pid}, is {remedy(pid)}")
        self.pid = pid


@contextmanager
def admin(run_dirs: Sequence[RunDir], *, only_to_read: bool = False) -> Iterator[admin_pb2_grpc.AdminStub]:
    """The admin API of the first of these schedulers that answers; ``only_to_read``: what every user may ask suffices.

    A call that fails inside the block ends it with CommandError.
    """
    path = _find(run_dirs, only_to_read)
    with grpc.insecure_channel(grpc_address(path), admin_channel.OPTIONS) as channel:
        try:
            yield admin_pb2_grpc.AdminStub(channel)
        except grpc.RpcError as error:
            raise _explain(error, path) from error


def _find(run_dirs: Sequence[RunDir], only_to_read: bool) -> Path:
    locked: CommandError | None = None
    distrusted = ""
    for run_dir in run_dirs:
        if reason := distrust(run_dir.root):
            distrusted = distrusted or reason
            continue
        try:
            if _accepts(run_dir.admin_socket):
                return run_dir.admin_socket
            continue
        except PermissionError:
            pass
        # The folder stays when its scheduler ends. The other socket tells whether one runs.
        try:
            if not _accepts(run_dir.status_socket):
                continue
            if only_to_read:
                return run_dir.status_socket
            raise _may_not_command(run_dir)
        except PermissionError:
            locked = locked or (_may_not_look(run_dir) if only_to_read else _may_not_command(run_dir))
    raise locked or _nobody(run_dirs, distrusted)


def _nobody(run_dirs: Sequence[RunDir], distrusted: str) -> CommandError:
    """Why none of them can be asked; ``distrusted``: why one is not believed."""
    if (in_container := next(filter(only_for_clients, run_dirs), None)) is not None:
        return CommandError(
            f"a scheduler answers at {in_container.client_socket}, and only what programs need of it is here, as in a "
            f"container: ask on the machine itself, or in the scheduler's own container",
            ExitCode.NOT_PERMITTED,
        )
    if distrusted:
        return CommandError(f"{distrusted}; a scheduler there is not asked; choose another --run-dir")
    return no_scheduler([run_dir.admin_socket for run_dir in run_dirs])


def _accepts(path: Path) -> bool:
    """Whether a process accepts connections there; PermissionError, or CommandError if that can't be found out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(RPC_TIMEOUT)
        try:
            connection.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except PermissionError:
            raise
        except TimeoutError as error:
            raise _silent(path, "accepts no connection") from error
        except OSError as error:
            raise CommandError(
                f"{path} is no usable socket path ({error.strerror or error}); choose another --run-dir"
            ) from error
    return True


def _may_not_command(run_dir: RunDir) -> CommandError:
    return CommandError(
        f"no permission to command the scheduler at {run_dir.admin_socket}: it takes commands from its own user only; "
        f"try again as that user (sudo nvshare-ctl ...)",
        ExitCode.NOT_PERMITTED,
    )


def _may_not_look(run_dir: RunDir) -> CommandError:
    return CommandError(
        f"no permission to use {run_dir.status_socket}, where every user may ask what a scheduler does: let others "
        f"through the folders above it (chmod o+x), or try again as the scheduler's user (sudo nvshare-ctl ...)",
        ExitCode.NOT_PERMITTED,
    )


def no_scheduler(paths: Sequence[Path]) -> CommandError:
    """What every command that needs a scheduler says when there is none."""
    places = " or ".join(str(path) for path in paths)
    return CommandError(
        f"no scheduler runs (nobody answers at {places}); start a program with 'nvshare-ctl run -- COMMAND', "
        f"which starts one, or start 'nvshare-scheduler'",
        ExitCode.NO_SCHEDULER,
    )


def _silent(path: Path, what: str) -> CommandError:
    """Somebody listens at this socket, and was asked in vain."""
    pid = 0
    with suppress(OSError):
        pid = listening_pid(path) or 0
    if pid and is_stopped(pid):
        return StoppedError(path, pid)
    return CommandError(f"the scheduler at {path} {what} within {RPC_TIMEOUT:g} s; see its log")


def _broken_off(path: Path) -> CommandError:
    """Somebody accepted the connection and did not keep it: a scheduler that has ended since, or what is none."""
    try:
        pid = listening_pid(path)
    except OSError:
        pid = None
    if pid is None:
        return no_scheduler([path])
    return CommandError(
        f"{named(pid)} listens at {path} and does not speak as a scheduler does: if it has only just started, try "
        f"again; else choose another --run-dir"
    )


def _explain(error: grpc.RpcError, path: Path) -> CommandError:
    code, details = error.code(), error.details()
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return _broken_off(path)
        case grpc.StatusCode.PERMISSION_DENIED:
            return CommandError(f"the scheduler at {path} refused: {details}", ExitCode.NOT_PERMITTED)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.NOT_FOUND | grpc.StatusCode.FAILED_PRECONDITION:
            return CommandError(str(details))
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return _silent(path, "did not answer")
        case grpc.StatusCode.UNIMPLEMENTED:
            return CommandError(f"the scheduler at {path} does not know this request; it is of another version")
        case _:
            return CommandError(f"the scheduler at {path} failed: {code.name}: {details}")
