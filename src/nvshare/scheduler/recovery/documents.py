"""Files of the run directory that a scheduler leaves for the one after it, as JSON, and how terms are written there."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from nvshare.regular_files import read_regular
from nvshare.scheduler.core.terms import Priority, SleepWhen, WhenFull
from nvshare.scheduler.some_terms import SomeTerms

_MOST_BYTES: Final = 64 << 20
"""What a node with as many clients as there may be leaves is far smaller."""


def read(path: Path) -> Any:
    """What was written there; OSError when that can't be read, ValueError when it is no document."""
    try:
        return json.loads(read_regular(path, _MOST_BYTES))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
    """The terms that ``SomeTerms.said`` wrote; ValueError, TypeError, KeyError or AttributeError if it did not."""
    kinds = {"priority": Priority, "when_full": WhenFull, "sleep": SleepWhen}
    terms = SomeTerms(**{name: kinds[name](value) if name in kinds else value for name, value in said.items()})
    terms.check()
    return terms
