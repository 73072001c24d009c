"""Many questions to an API server, over connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from bench.dra.control_plane import HOST, ControlPlane

Document = dict[str, Any]

_AT_ONCE: Final = 16
_PAGE: Final = 500
_SECONDS: Final = 60.0


class Api:
    """Asks, several questions at once; httpx2.HTTPError where the server refuses."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def create_all(self, path: str, documents: Iterable[Document]) -> list[Document]:
        """Makes all of these objects, in this order as far as ``_AT_ONCE`` of them at a time have one."""
        waiting = iter(enumerate(documents))
        made: dict[int, Document] = {}

        async def create() -> None:
            for number, document in waiting:
                made[number] = await self._ask("POST", path, json=document)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(create())
        return [made[number] for number in sorted(made)]

    async def list_all(self, path: str) -> list[Document]:
        """All objects there are, page by page."""
        found: list[Document] = []
        query = {"limit": str(_PAGE)}
        while True:
            answer = await self._ask("GET", path, params=query)
            found += answer["items"]
            more = answer["metadata"].get("continue")
            if not more:
                return found
            query["continue"] = more

    async def merge(self, path: str, document: Document) -> None:
        """Changes an object."""
        await self._ask("PATCH", path, json=document, headers={"Content-Type": "application/merge-patch+json"})

    async def _ask(self, method: str, path: str, **what: Any) -> Document:
        answer = await self._client.request(method, path, **what)
        if not answer.is_success:
            raise httpx2.HTTPError(f"{method} {path}: {answer.status_code} {answer.text}")
        document: Document = answer.json()
        return document


@asynccontextmanager
async def asking(plane: ControlPlane) -> AsyncIterator[Api]:
    """The API of a control plane that is up."""
    tls = ssl.create_default_context(cafile=plane.account.folder / "ca.crt")
    base = f"https://{HOST}:{plane.account.port}"
    async with httpx2.AsyncClient(
        base_url=base, verify=tls, headers=plane.headers, timeout=_SECONDS, trust_env=False
    ) as client:
        yield Api(client)
