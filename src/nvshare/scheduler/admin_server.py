"""A gRPC server at one socket of the run directory."""

from __future__ import annotations

from pathlib import Path

import grpc

from nvshare.admin import admin_pb2_grpc
from nvshare.scheduler.api.admin import StatusService
from nvshare.scheduler.run_dir import Claim, RunDirError
from nvshare.unix_sockets import grpc_address


class AdminServer:
    """The admin API, or a part of it, at one socket."""

    def __init__(self, service: StatusService, claim: Claim, at_once: int | None) -> None:
        """``at_once``: how many calls may be going on."""
        self._service = service
        self._claim = claim
        self._grpc = grpc.aio.server(maximum_concurrent_rpcs=at_once)
        admin_pb2_grpc.add_AdminServicer_to_server(service, self._grpc)

    def listen(self, path: Path, mode: int) -> None:
        """Makes a socket of this mode."""
        # gRPC unlinks at its end what it has made, whosever it is by then: so it never has the socket's own name.
        made = path.with_name("new.sock")
        try:
            self._grpc.add_insecure_port(grpc_address(made))
        except RuntimeError as error:
            raise RunDirError(f"cannot serve {path}: {error}; choose another --run-dir") from error
        self._claim.publish(made, path, mode)

    async def start(self) -> None:
        """Answers from now on."""
        await self._grpc.start()

    async def stop(self) -> None:
        """Answers no more; who watches sees the end."""
        self._service.stop()
        await self._grpc.stop(grace=0.5)
