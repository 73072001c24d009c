"""The frames of protocol version 2 about memory of one client that another one maps; ``frames`` has all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """Client: who knows this key may have memory of mine on the device: ask me for it."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Unshare:
    """Client: nobody may have what this key is for any more."""

    key: bytes


@dataclass(frozen=True, slots=True)
class OpenShared:
    """Client: let me have part ``index`` of what the key is for."""

    request: int
    key: bytes
    index: int


@dataclass(frozen=True, slots=True)
class AskShared:
    """Scheduler: give part ``index`` of what the key is for."""

    request: int
    key: bytes
    index: int


@dataclass(frozen=True, slots=True)
class Shared:
    """Both, with a descriptor: part ``index`` of ``count``, for which ``request`` asked."""

    request: int
    index: int
    count: int
    part_bytes: int
    offset_bytes: int = 0
    """Where in the first part the memory begins."""


@dataclass(frozen=True, slots=True)
class NotShared:
    """Both: ``request`` gets nothing, because of ``text``."""

    request: int
    text: str
