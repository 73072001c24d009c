"""The sockets of a run directory: those of clients and those of the admin API, made anew when their files are gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from nvshare.paths import RunDir
from nvshare.scheduler.admin_server import AdminServer
from nvshare.scheduler.api.admin import StatusService
from nvshare.scheduler.clients.listener import Listener
from nvshare.scheduler.run_dir import Claim

_FOR_ALL = 0o666
_FOR_THE_OWNER = 0o600
_PUBLIC_CALLS = 16
"""Calls at the socket for every user that may be going on, one for each who watches; more are refused."""


class Sockets:
    """All that somebody can connect to in a run directory."""

    def __init__(
        self,
        run_dir: RunDir,
        claim: Claim,
        admin: StatusService,
        public: StatusService,
        new_listener: Callable[[socket.socket, bool], Listener],
    ) -> None:
        """``public``: the part of the admin API for every user.

        ``new_listener`` is also told whether the socket is at the original's path.
        """
        self._claim = claim
        self._admin = {
            run_dir.admin_socket: (AdminServer(admin, claim, None), _FOR_THE_OWNER),
            run_dir.status_socket: (AdminServer(public, claim, _PUBLIC_CALLS), _FOR_ALL),
        }
        self._client_paths = {run_dir.client_socket: False, run_dir.legacy_socket: True}
        self._new_listener = new_listener
        self._listeners: list[Listener] = []

    @property
    def pauses(self) -> int:
        """How often accepting clients paused."""
        return sum(listener.pauses for listener in self._listeners)

    async def open_admin(self) -> None:
        """The admin API answers from now on; RunDirError if it can't."""
        for path, (server, mode) in self._admin.items():
            server.listen(path, mode)
        await asyncio.gather(*(server.start() for server, _mode in self._admin.values()))

    def open_clients(self) -> None:
        """Clients are accepted from now on; RunDirError if they can't be."""
        for path, at_host_path in self._client_paths.items():
            self._listeners.append(self._new_listener(self._claim.listen(path, _FOR_ALL), at_host_path))

    async def mend(self) -> None:
        """Makes anew those whose files are gone; who is connected stays. RunDirError if one can't be made."""
        for path, listener in zip(self._client_paths, self._listeners, strict=True):
            if not self._claim.has(path):
                listener.move_to(self._claim.listen(path, _FOR_ALL))
        for path, (server, mode) in self._admin.items():
            if not self._claim.has(path):
                await server.move_to(path, mode)

    def close_clients(self) -> None:
        """Accepts no more of them."""
        for listener in self._listeners:
            listener.close()

    async def close_admin(self) -> None:
        """Answers no more."""
        await asyncio.gather(*(server.stop() for server, _mode in self._admin.values()))
