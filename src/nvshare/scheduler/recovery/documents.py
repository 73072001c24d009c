"""Files of the run directory that a scheduler leaves for the one after it, as JSON, and how terms are written there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar

from nvshare.regular_files import read_regular
from nvshare.scheduler.core.terms import Priority, SleepWhen, WhenFull
from nvshare.scheduler.some_terms import SomeTerms

Read = TypeVar("Read")

_MOST_BYTES: Final = 64 << 20
"""What a node with as many clients as there may be leaves is far smaller."""


class DocumentError(Exception):
    """A file is there and can't be used; the text says why."""


def read(path: Path, understood: Callable[[Any], Read]) -> Read:
    """What ``understood`` makes of the document that was written there. FileNotFoundError, DocumentError.

    Of what has another form than it expects ``understood`` raises what Python raises, or a ValueError with words.
    """
    try:
        document = json.loads(read_regular(path, _MOST_BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DocumentError(f"it can't be read: {error.strerror}") from error
    except RecursionError as error:
        raise DocumentError("it is damaged: it is nested too deeply") from error
    except ValueError as error:
        raise DocumentError(f"it is damaged: {error}") from error
    try:
        return understood(document)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise DocumentError(f"another version of nvshare wrote it, or it is damaged: {_words(error)}") from error


def write(path: Path, document: Any) -> None:
    """Puts a document in the place of the former one, readable by the owner only; OSError when that can't be done."""
    new = path.with_suffix(".new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file)
        new.rename(path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def some_terms(said: Any) -> SomeTerms:
    """The terms that ``SomeTerms.said`` wrote; ValueError, TypeError or AttributeError if it did not."""
    if unknown := sorted(said.keys() - {field.name for field in fields(SomeTerms)}):
        raise ValueError(f"{unknown[0]!r} is not known here")
    kinds = {"priority": Priority, "when_full": WhenFull, "sleep": SleepWhen}
    terms = SomeTerms(**{name: kinds[name](value) if name in kinds else value for name, value in said.items()})
    terms.check()
    return terms


def _words(error: Exception) -> str:
    match error:
        case KeyError():
            return f"{error} is missing"
        case ValueError():
            return str(error)
        case _:
            return "it has another form"
