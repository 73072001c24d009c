"""Drains on the simulated GPU: what they wait for, what they let through, and what is heard meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.shim.children import ROOT, Children, cases


@pytest.fixture
def simulated(environment: dict[str, str], libraries: Libraries, tmp_path: Path) -> Children:
    """Processes under the library, with a simulated GPU of their own."""
    own = {
        "LD_PRELOAD": str(libraries.shim),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "NVSHARE_SIMGPU_TRACE": str(tmp_path / "trace"),
        paths.MEMORY: "native",
    }
    return Children(environment | own)


@pytest.mark.parametrize("case", cases("drain_cases.py"))
def test_drain(simulated: Children, case: str) -> None:
    """What the docstring of the case claims."""
    simulated.run_python("drain_cases.py", case)
