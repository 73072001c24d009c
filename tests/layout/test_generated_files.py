"""Generated files are committed and are what their generator makes now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.layout.tree import GENERATED, PACKAGE, ROOT, name, tracked


def test_stubs_are_fresh(tmp_path: Path) -> None:
    """The stubs beside the code are those of the files in protos/."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(ROOT / "protos" / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": search})
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2*")}
    committed = {path.relative_to(PACKAGE.parent) for path in tracked() if path.name.endswith(GENERATED)}
    assert made == committed
    stale = [str(path) for path in made if (tmp_path / path).read_text() != (PACKAGE.parent / path).read_text()]
    assert not stale, f"run {name(ROOT / 'protos' / 'generate.py')}"
