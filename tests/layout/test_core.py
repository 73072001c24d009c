"""Who may change what in the scheduler's core."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.layout.tree import PACKAGE, at, below, nobody, syntax

CORE = below(PACKAGE / "scheduler" / "core", ".py")


def parts(target: ast.expr) -> Iterator[ast.expr]:
    """What is written where this stands on the left side of an assignment."""
    match target:
        case ast.Tuple(elts=several) | ast.List(elts=several):
            for each in several:
                yield from parts(each)
        case ast.Starred(value=value) | ast.Subscript(value=value):
            yield from parts(value)
        case _:
            yield target


def written(node: ast.AST) -> list[ast.expr]:
    """The targets of a statement that writes something."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
        case _:
            return []


def foreign_writes(path: Path) -> Iterator[str]:
    """Where a field is written of another object than the one whose method does it."""
    for node in ast.walk(syntax(path)):
        for target in (part for whole in written(node) for part in parts(whole)):
            match target:
                case ast.Attribute(value=ast.Name(id="self")):
                    pass
                case ast.Attribute():
                    yield f"{at(path, target.lineno)}: {ast.unparse(target)}"


def test_objects_are_changed_by_their_own_methods() -> None:
    """A field of an object of the core is written by that object's methods alone, and so is what is in it."""
    nobody(write for path in CORE for write in foreign_writes(path))
