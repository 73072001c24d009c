"""One way to write what Python allows in several."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from tests.layout.tree import ROOT, below, name

python_files = pytest.mark.parametrize("path", below(ROOT, ".py"), ids=name)


def comment_lines(text: str) -> set[int]:
    """The lines on which a comment is, without directives to tools."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:"))
    }


@python_files
def test_fields_are_documented_by_docstrings(path: Path) -> None:
    """What a field means stands in a docstring below it, where tools find it, not in a comment above or beside it."""
    text = path.read_text()
    comments = comment_lines(text)
    found = [
        f"{name(path)}:{line}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for line in range(field.lineno - 1, (field.end_lineno or field.lineno) + 1)
        if line in comments
    ]
    assert not found
