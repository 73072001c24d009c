"""The forms in which an answer is written."""

from __future__ import annotations

from enum import StrEnum


class Output(StrEnum):
    """How the answer is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
