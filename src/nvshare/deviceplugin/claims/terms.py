"""What the configuration of a claim says that its containers may have. Pure.

It is what ``opaque.parameters`` of a DeviceClass or of a claim has for this driver. The texts mean what they mean in
annotations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from nvshare import terms_texts
from nvshare.terms_texts import Terms

API_VERSION: Final = "gpu.nvshare.com/v1"
KIND: Final = "ShareConfig"
_LONGEST: Final = 100
"""Letters of a value that are repeated in a message."""


class TermsError(Exception):
    """A configuration can't be used; the text names the field and what is allowed."""


NONE: Final = Terms()


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    """In ``Terms``."""
    read: Callable[[str], Any]


_FIELDS: Final = {
    "weight": _Field("weight", terms_texts.weight_of),
    "priority": _Field("priority", terms_texts.priority_of),
    "computeLimit": _Field("compute_limit", terms_texts.share_of),
    "memoryLimit": _Field("memory_limit_bytes", terms_texts.memory_of),
    "sleep": _Field("sleep", terms_texts.sleep_of),
    "whenFull": _Field("when_full", terms_texts.when_full_of),
}
WRITTEN: Final = {field.name: key for key, field in _FIELDS.items()}
"""What the fields of ``Terms`` are called in a configuration."""


def terms_of(parameters: object) -> Terms:
    """What a configuration says; TermsError."""
    if not isinstance(parameters, dict):
        raise TermsError(f"it is no object; one with apiVersion: {API_VERSION} and kind: {KIND} is expected")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if parameters.get(key) != expected:
            raise TermsError(f"{key} is {_shown(parameters.get(key))}; {expected} is expected")
    values = {}
    for key, value in parameters.items():
        if key in ("apiVersion", "kind"):
            continue
        if (field := _FIELDS.get(key)) is None:
            raise TermsError(f"there is no field {key[:_LONGEST]!r}; there are {', '.join(_FIELDS)}")
        try:
            values[field.name] = field.read(_text(value))
        except ValueError as error:
            raise TermsError(f"{key}: {error}") from None
    return Terms(**values)


def _text(value: object) -> str:
    """A value as annotations write it. YAML makes numbers of some."""
    if isinstance(value, str):
        return value.strip() if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{_shown(value)} is neither a text nor a number")


def _shown(value: object) -> str:
    text = "not said" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
