"""The Kubernetes API server, as a pod with a service account reaches it."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any

from nvshare.kubernetes.account import Account
from nvshare.kubernetes.http_client import Client, HttpError, client

Document = dict[str, Any]

CONFLICT = HTTPStatus.CONFLICT
NOT_FOUND = HTTPStatus.NOT_FOUND
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "nvshare"}
_SECONDS = 15.0
_LONGEST_LINE = 64 << 20
"""No object is larger than a few MiB."""


class ApiError(Exception):
    """The API server is away, or says no, or what can't be understood; the text says what."""

    def __init__(self, text: str, status: int = 0) -> None:
        """``status``: that of its answer; 0: there was none that can be understood."""
        super().__init__(text)
        self.status = status

    @property
    def is_for_now(self) -> bool:
        """Whether the same question may be answered a little later: the server is away, or has too much to do."""
        busy = self.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
        return not self.status or busy or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class ApiServer:
    """Asks one API server."""

    def __init__(self, account: Account, heard: Callable[[str], None]) -> None:
        """``heard`` is told after each question why there was no answer; empty: there was one."""
        self._account = account
        self._heard = heard
        self._tls: tuple[str, ssl.SSLContext] | None = None

    async def get(self, path: str, **query: str) -> Document:
        """An object, or a list of them; ApiError."""
        return await self._ask("GET", path, query=query)

    async def create(self, path: str, document: Document) -> Document:
        """Makes an object; ApiError."""
        return await self._ask("POST", path, document=document)

    async def replace(self, path: str, document: Document) -> Document:
        """Changes an object to this one; ApiError. With a resourceVersion: CONFLICT if that is not the newest."""
        return await self._ask("PUT", path, document=document)

    async def patch(self, path: str, kind: str, document: Document) -> Document:
        """Changes an object, by a patch of this kind, such as ``merge-patch``; ApiError."""
        return await self._ask("PATCH", path, document=document, kind=f"application/{kind}+json")

    async def delete(self, path: str, options: Document) -> None:
        """Deletes an object, with these DeleteOptions; ApiError."""
        await self._ask("DELETE", path, document=options)

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Document, None]:
        """What happens to objects, until the server ends that; ApiError."""
        buffer = b""
        async with (
            self._client() as asked,
            asked.stream(path, {**query, "watch": "1"}) as (status, answer),
            aclosing(answer) as pieces,
        ):
            if status != HTTPStatus.OK:
                raise _refused(status, b"".join([piece async for piece in pieces]))
            self._heard("")
            async for piece in pieces:
                *lines, buffer = (buffer + piece).split(b"\n")
                for line in lines:
                    yield _parsed(line)
                if len(buffer) > _LONGEST_LINE:
                    raise ApiError("an object without end")

    async def _ask(self, method: str, path: str, **what: Any) -> Document:
        async with self._client(_SECONDS) as asked:
            answer = await asked.ask(method, path, **what)
        if not answer.is_success:
            refusal = _refused(answer.status, answer.content)
            unheard = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.UNAUTHORIZED
            self._heard(str(refusal) if unheard else "")
            raise refusal
        document = _parsed(answer.content)
        self._heard("")
        return document

    def _trusting(self, certificates: str) -> ssl.SSLContext:
        """For a server with a certificate of these authorities, new where they are others. ValueError, SSLError."""
        if not certificates:
            # Without any, Python would trust all authorities that the system trusts.
            raise ValueError("its file is empty")
        known = self._tls
        if known is None or known[0] != certificates:
            known = self._tls = certificates, ssl.create_default_context(cadata=certificates)
        return known[1]

    @asynccontextmanager
    async def _client(self, seconds: float | None = None) -> AsyncIterator[Client]:
        """For one question; ApiError. Certificate and token are read anew: both are replaced now and then."""
        folder = self._account.folder
        try:
            tls = self._trusting((folder / "ca.crt").read_text(encoding="ascii", errors="ignore"))
        except (OSError, ValueError, ssl.SSLError) as error:
            raise ApiError(f"no certificate of the API server's authority: {error}") from error
        try:
            token = (folder / "token").read_text(errors="replace").strip()
        except OSError as error:
            raise ApiError(f"no token of the service account: {error.strerror}") from error
        try:
            headers = {**_HEADERS, "Authorization": f"Bearer {token}"}
            async with client(self._account.host, self._account.port, seconds, tls, headers) as made:
                yield made
        except HttpError as error:
            self._heard(str(error))
            raise ApiError(str(error)) from error


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
