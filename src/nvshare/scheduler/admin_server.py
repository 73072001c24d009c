"""A gRPC server at one socket of the run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import grpc

from nvshare.admin import admin_pb2_grpc
from nvshare.scheduler.api.admin import StatusService
from nvshare.scheduler.run_dir import Claim, RunDirError
from nvshare.unix_sockets import grpc_address

_GRACE_SECONDS = 0.5
"""For calls that are being answered."""

_MOST_CONNECTIONS: Final = "grpc.max_allowed_incoming_connections"
"""More are closed at once, and take no descriptors from clients."""


class AdminServer:
    """The admin API, or a part of it, at one socket."""

    def __init__(self, service: StatusService, claim: Claim, at_once: int | None) -> None:
        """``at_once``: how many calls may be going on. There are twice as many connections, so that more are refused
        with a reason."""
        self._service = service
        self._claim = claim
        self._at_once = at_once
        self._grpc = self._new()

    def listen(self, path: Path, mode: int) -> None:
        """Makes a socket of this mode."""
        # gRPC unlinks at its end what it has made, whosever it is by then: so it never has the socket's own name.
        made = path.with_name("new.sock")
        try:
            self._grpc.add_insecure_port(grpc_address(made))
        except RuntimeError as error:
            raise RunDirError(f"cannot serve {path}: {error}; choose another --run-dir") from error
        self._claim.publish(made, path, mode)

    async def move_to(self, path: Path, mode: int) -> None:
        """Answers at a new socket from now on, and no longer at the one before; who watches there sees the end."""
        former, self._grpc = self._grpc, self._new()
        try:
            self.listen(path, mode)
        except RunDirError:
            self._grpc = former
            raise
        await self.start()
        await former.stop(_GRACE_SECONDS)

    async def start(self) -> None:
        """Answers from now on."""
        await self._grpc.start()

    async def stop(self) -> None:
        """Answers no more; who watches sees the end."""
        self._service.stop()
        await self._grpc.stop(_GRACE_SECONDS)

    def _new(self) -> grpc.aio.Server:
        options = [] if self._at_once is None else [(_MOST_CONNECTIONS, 2 * self._at_once)]
        server = grpc.aio.server(maximum_concurrent_rpcs=self._at_once, options=options)
        admin_pb2_grpc.add_AdminServicer_to_server(self._service, server)
        return server
