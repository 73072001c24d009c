"""Objects of the Kubernetes API as they are now: listed once, then followed by a watch.

While the API is away, what was seen last is what there is.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from nvshare.kubernetes.api_server import ApiError, ApiServer, Document
from nvshare.log import Log

Object = TypeVar("Object")

_ANY = "0"
"""The server may answer with what it has in memory."""
_WATCH_SECONDS = 240
"""After this time the server ends a watch, and it is asked for anew."""
_MOST_SECONDS = _WATCH_SECONDS + 60.0
"""After which a watch is given up that the server does not end."""
_SHORTEST_WATCH = 1.0
_SHORTEST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_NOT_UNDERSTOOD = (KeyError, TypeError, ValueError, AttributeError)


class Mirror(Generic[Object]):
    """The objects of one path that a selector of fields selects, by their uids."""

    def __init__(
        self,
        api: ApiServer,
        path: str,
        selector: str,
        read: Callable[[Document], Object],
        changed: Callable[[], None],
        log: Log,
    ) -> None:
        """``read`` takes what is needed of an object; KeyError, TypeError, ValueError or AttributeError: it is none.

        ``changed`` is called after every change.
        """
        self._api = api
        self._path = path
        self._selector = selector
        self._read = read
        self._changed = changed
        self._log = log
        self._objects: dict[str, Object] | None = None
        self._version = _ANY
        """Of the last change that is known; empty: the newest is to be asked for."""
        self._pauses = 0
        self.problem: ApiError | None = None
        """Why the API can't be followed; None: it can, or was not asked yet."""

    @property
    def objects(self) -> Mapping[str, Object] | None:
        """What there is; None: that is not known yet."""
        return self._objects

    async def run(self) -> None:
        """Follows the API until cancelled, whatever that answers."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch()
            except ApiError as error:
                self.problem = error
                if error.status:
                    # Too old for the server, or newer than all that it has: it may have been set up anew.
                    self._version = ""
                if self._pauses == 0:
                    self._log.warning(
                        "the API can't be followed: what is known counts", path=self._path, reason=str(error)
                    )
            except _NOT_UNDERSTOOD as error:
                self.problem = ApiError(f"the API server's answer is not understood: {error!r}")
                self._version = ""
                self._log.warning("the API server's answer is not understood", path=self._path, reason=repr(error))
            await asyncio.sleep(self._pause())

    async def _list(self) -> None:
        query = {"resourceVersion": self._version} if self._version else {}
        answer = await self._api.get(self._path, fieldSelector=self._selector, **query)
        objects = {_uid(document): self._read(document) for document in answer["items"]}
        self._version = _version(answer)
        self.problem = None
        if objects != self._objects:
            self._objects = objects
            self._changed()

    async def _watch(self) -> None:
        """One watch, until the server ends it."""
        began, seen = asyncio.get_running_loop().time(), False
        query = {"resourceVersion": self._version, "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_SECONDS)}
        try:
            async with (
                asyncio.timeout(_MOST_SECONDS),
                aclosing(self._api.watch(self._path, fieldSelector=self._selector, **query)) as events,
            ):
                async for event in events:
                    self._happened(event["type"], event["object"])
                    seen = True
                    self._follows()
        except TimeoutError as error:
            raise ApiError("a watch did not end") from error
        if not seen and asyncio.get_running_loop().time() - began < _SHORTEST_WATCH:
            raise ApiError("a watch ended at once")

    def _follows(self) -> None:
        if self._pauses:
            self._pauses = 0
            self._log.info("the API can be followed again", path=self._path)

    def _happened(self, what: str, document: Document) -> None:
        assert self._objects is not None
        match what:
            case "ADDED" | "MODIFIED":
                uid, found, version = _uid(document), self._read(document), _version(document)
                if self._objects.get(uid) != found:
                    self._objects[uid] = found
                    self._changed()
            case "DELETED":
                version = _version(document)
                if self._objects.pop(_uid(document), None) is not None:
                    self._changed()
            case "BOOKMARK":
                version = _version(document)
            case "ERROR":
                code = document.get("code", 0)
                raise ApiError(str(document.get("message", "the watch failed")), code if isinstance(code, int) else 0)
            case _:
                raise ValueError(what)
        self._version = version

    def _pause(self) -> float:
        """Longer each time, and not the same for all nodes."""
        pause: float = min(_SHORTEST_PAUSE * 2**self._pauses, _LONGEST_PAUSE)
        self._pauses += 1
        return pause * random.uniform(0.5, 1.0)


def _uid(document: Any) -> str:
    return _text(document["metadata"]["uid"])


def _version(document: Any) -> str:
    return _text(document["metadata"]["resourceVersion"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value
