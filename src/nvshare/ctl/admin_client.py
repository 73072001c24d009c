"""The connection to the scheduler's admin API, and what its failures mean to the user."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from nvshare import admin_channel
from nvshare.admin import admin_pb2_grpc
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.paths import RunDir
from nvshare.unix_sockets import distrust, grpc_address

RPC_TIMEOUT = 10.0
"""Seconds after which a scheduler that accepted the connection but does not answer is reported."""


@contextmanager
def admin(run_dir: RunDir) -> Iterator[admin_pb2_grpc.AdminStub]:
    """The admin API of the scheduler of ``run_dir``. A call that fails inside the block ends it with CommandError."""
    if reason := distrust(run_dir.root):
        raise CommandError(f"{reason}; a scheduler there is not asked; choose another --run-dir")
    probe(run_dir.admin_socket)
    with grpc.insecure_channel(grpc_address(run_dir.admin_socket), admin_channel.OPTIONS) as channel:
        try:
            yield admin_pb2_grpc.AdminStub(channel)
        except grpc.RpcError as error:
            raise _explain(error, run_dir.admin_socket) from error


def probe(path: Path) -> None:
    """Returns when a process accepts connections at ``path``; CommandError says why not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(RPC_TIMEOUT)
        try:
            connection.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            raise no_scheduler(path) from error
        except PermissionError as error:
            raise CommandError(
                f"no permission to command the scheduler at {path}: it takes commands from its own user only; "
                f"try again as that user (sudo nvshare-ctl ...)",
                ExitCode.NOT_PERMITTED,
            ) from error
        except TimeoutError as error:
            raise CommandError(f"the scheduler at {path} accepts no connection within {RPC_TIMEOUT:g} s") from error
        except OSError as error:
            raise CommandError(f"{path} is no usable socket path ({error}); choose another --run-dir") from error


def no_scheduler(path: Path) -> CommandError:
    """What every command that needs a scheduler says when there is none."""
    return CommandError(
        f"no scheduler runs (nobody answers at {path}); start a program with 'nvshare-ctl run -- COMMAND', "
        f"which starts one, or start 'nvshare-scheduler'",
        ExitCode.NO_SCHEDULER,
    )


def _explain(error: grpc.RpcError, path: Path) -> CommandError:
    code, details = error.code(), error.details()
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return no_scheduler(path)
        case grpc.StatusCode.PERMISSION_DENIED:
            return CommandError(f"the scheduler at {path} refused: {details}", ExitCode.NOT_PERMITTED)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.NOT_FOUND:
            return CommandError(str(details))
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return CommandError(f"the scheduler at {path} did not answer within {RPC_TIMEOUT:g} s; see its log")
        case grpc.StatusCode.UNIMPLEMENTED:
            return CommandError(f"the scheduler at {path} does not know this request; it is of another version")
        case _:
            return CommandError(f"the scheduler at {path} failed: {code.name}: {details}")
