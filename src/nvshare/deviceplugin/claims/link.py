"""Tells the node's scheduler which claims are prepared and what they may have: all of it, again and again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc

from nvshare import admin_channel
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.log import Log
from nvshare.unix_sockets import grpc_address

_TELL_SECONDS = 5.0
"""After which it is told once more. It may have been started anew, or a GPU's memory is known by now."""
_ANSWER_SECONDS = 5.0
_OPTIONS = (*admin_channel.OPTIONS, ("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 2000))


class ClaimsLink:
    """Whether the scheduler takes what it is told of claims."""

    def __init__(self, admin_socket: Path, claims: Claims, log: Log) -> None:
        self._socket = admin_socket
        self._claims = claims
        self._log = log
        self.problem = "it was not told yet"
        """Why the scheduler does not take it; empty: it does."""
        self._taken: bool | None = None
        """Whether it took what it was told last; None: it was told nothing yet."""

    async def run(self) -> None:
        """Tells it until cancelled. The claims must have been loaded: those that it is not told count no more."""
        async with grpc.aio.insecure_channel(grpc_address(self._socket), _OPTIONS) as channel:
            stub = AdminStub(channel)
            while True:
                self._claims.changed.clear()
                try:
                    await stub.SetClaims(self._claims.request(), timeout=_ANSWER_SECONDS)
                except grpc.aio.AioRpcError as error:
                    self._failed(error)
                else:
                    self._answered()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TELL_SECONDS):
                        await self._claims.changed.wait()

    def _failed(self, error: grpc.aio.AioRpcError) -> None:
        older = error.code() is grpc.StatusCode.UNIMPLEMENTED
        self.problem = (
            "it is of an older version, which knows no claims" if older else error.details() or error.code().name
        )
        if self._taken is not False:
            self._log.warning("the scheduler does not take claims: it is told again", reason=self.problem)
        self._taken = False

    def _answered(self) -> None:
        if not self._taken:
            self._log.info("the scheduler takes claims", claims=len(self._claims.records))
        self._taken = True
        self.problem = ""
