"""The Kubernetes API server, as a pod with a service account reaches it."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nvshare.nodeagent.http_client import HttpError, Place, Request, answered, fetch

Document = dict[str, Any]

CONFLICT = 409
_SECONDS = 15.0
_LONGEST_LINE = 64 << 20
"""No object is larger than a few MiB."""


class ApiError(Exception):
    """The API server is away, or says no, or what can't be understood; the text says what."""

    def __init__(self, text: str, status: int = 0) -> None:
        """``status``: that of its answer; 0: there was none that can be understood."""
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Account:
    """Where the API server is, and who asks."""

    host: str
    port: int
    folder: Path
    """The mounted service account: its token, which kubelet renews, the authority's certificate, the namespace."""

    @property
    def namespace(self) -> str:
        """The pod's own; OSError where there is no such account."""
        return (self.folder / "namespace").read_text().strip()


class ApiServer:
    """Asks one API server."""

    def __init__(self, account: Account, heard: Callable[[str], None]) -> None:
        """``heard`` is told after each question why there was no answer; empty: there was one."""
        self._account = account
        self._heard = heard

    async def get(self, path: str, **query: str) -> Document:
        """An object, or a list of them; ApiError."""
        return await self._ask(self._request("GET", _target(path, query)))

    async def create(self, path: str, document: Document) -> Document:
        """Makes an object; ApiError."""
        return await self._ask(self._request("POST", path, "application/json", document))

    async def patch(self, path: str, kind: str, document: Document) -> Document:
        """Changes an object, by a patch of this kind, such as ``merge-patch``; ApiError."""
        return await self._ask(self._request("PATCH", path, f"application/{kind}+json", document))

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Document, None]:
        """What happens to objects, until the server ends that; ApiError."""
        request = self._request("GET", _target(path, {**query, "watch": "1"}))
        buffer = b""
        try:
            async with answered(self._place(), request) as answer:
                if answer.status != 200:
                    raise _refused(answer.status, await answer.whole())
                self._heard("")
                async with aclosing(answer.pieces()) as pieces:
                    async for piece in pieces:
                        *lines, buffer = (buffer + piece).split(b"\n")
                        for line in lines:
                            yield _parsed(line)
                        if len(buffer) > _LONGEST_LINE:
                            raise ApiError("an object without end")
        except HttpError as error:
            self._heard(str(error))
            raise ApiError(str(error)) from error

    async def _ask(self, request: Request) -> Document:
        try:
            status, body = await fetch(self._place(), request, _SECONDS)
        except HttpError as error:
            self._heard(str(error))
            raise ApiError(str(error)) from error
        if not 200 <= status < 300:
            refusal = _refused(status, body)
            self._heard(str(refusal) if status >= 500 or status == 401 else "")
            raise refusal
        document = _parsed(body)
        self._heard("")
        return document

    def _request(self, method: str, target: str, content: str = "", document: Document | None = None) -> Request:
        headers = {"Accept": "application/json", "User-Agent": "nvshare-node-agent"}
        try:
            headers["Authorization"] = f"Bearer {(self._account.folder / 'token').read_text().strip()}"
        except OSError as error:
            raise ApiError(f"no token of the service account: {error.strerror}") from error
        if document is None:
            return Request(method, target, headers)
        return Request(method, target, {**headers, "Content-Type": content}, json.dumps(document).encode())

    def _place(self) -> Place:
        """Read anew: both certificate and token are replaced now and then."""
        try:
            tls = ssl.create_default_context(cafile=self._account.folder / "ca.crt")
        except (OSError, ssl.SSLError) as error:
            raise ApiError(f"no certificate of the API server's authority: {error}") from error
        return Place(self._account.host, self._account.port, tls)


def _target(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _parsed(text: bytes) -> Document:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ApiError("the API server's answer is no JSON") from error
    if not isinstance(document, dict):
        raise ApiError("the API server's answer is no object")
    return document


def _refused(status: int, body: bytes) -> ApiError:
    try:
        message = str(_parsed(body)["message"])
    except (ApiError, KeyError):
        message = "no reason given"
    return ApiError(f"the API server refuses ({status}): {message}", status)
