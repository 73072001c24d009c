"""The gate, in fresh processes: what waits, what does not, and what a drain waits for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shim.children import PROGRAMS, Children
from tests.shim.entrypoints import entry_points, is_gated


def scenes() -> list[str]:
    """The scenes' names, without loading a driver: the functions that get a scheduler and answer nothing."""
    tree = ast.parse((PROGRAMS / "scenes.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if _signature(node) == "server: LockServer -> None"]


def _signature(function: ast.FunctionDef) -> str:
    return f"{ast.unparse(function.args)} -> {ast.unparse(function.returns) if function.returns else ''}"


def test_every_gated_symbol_waits_for_the_lock(children: Children) -> None:
    """Each symbol that submits work does not reach the driver before the grant, and does after it."""
    gated = [point for point in entry_points() if is_gated(point)]
    assert int(children.run_python("every_gate.py")) == len(gated) > 160


@pytest.mark.parametrize("scene", scenes())
def test_scene(children: Children, scene: str) -> None:
    """What the scene's own docstring claims."""
    children.run_python("scenes.py", scene)


@pytest.mark.parametrize("threads", [1, 4, 24])
def test_nothing_is_submitted_outside_a_turn(
    children: Children, compile_c: Callable[..., Path], spy: Path, threads: int
) -> None:
    """However many threads submit, and come and go, while the lock is given and taken back at random."""
    crowd = compile_c("programs/crowd.c", "crowd.so", "-shared", "-fPIC", "-pthread", str(spy / "libcuda.so.1"))
    assert int(children.run_python("stress.py", str(crowd), str(threads), "100", timeout=120)) >= 100
