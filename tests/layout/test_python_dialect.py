"""One way to write what Python allows in several."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.layout.tree import ROOT, at, below, nobody, syntax, text

# Whoever has none of these has no field with a comment, and need not be parsed.
SIGNS = [re.compile(sign, re.MULTILINE) for sign in (r"^\s*class ", r"^\s+\w+: ", "#")]


def comment_lines(content: str) -> set[int]:
    """The lines on which a comment is, without directives to tools."""
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    return {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:"))
    }


def field_lines(path: Path) -> set[int]:
    """The lines of the fields of all classes, and those above them, on which a number sign is."""
    content = text(path)
    lines = content.splitlines()
    return {
        line
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for line in range(field.lineno - 1, (field.end_lineno or field.lineno) + 1)
        if "#" in lines[line - 1]
    }


def commented_fields(path: Path) -> Iterator[str]:
    """The comments at fields."""
    if fields := field_lines(path):
        yield from (at(path, line) for line in sorted(fields & comment_lines(text(path))))


def test_fields_are_documented_by_docstrings() -> None:
    """What a field means stands in a docstring below it, where tools find it, not in a comment above or beside it."""
    paths = (path for path in below(ROOT, ".py") if all(sign.search(text(path)) for sign in SIGNS))
    nobody(comment for path in paths for comment in commented_fields(path))
