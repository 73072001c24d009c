"""Every row of the table, on the GPUs of this machine."""

from __future__ import annotations

import sys

import pytest

from tests.gpu import machine, trial
from tests.gpu.__main__ import program_environment
from tests.gpu.machine import Machine
from tests.gpu.rows import ROWS
from tests.gpu.trial import Setting

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

MEMORY = 1 << 30
SECONDS = 5.0


@pytest.fixture(scope="module")
def here() -> Machine:
    """This machine."""
    return machine.look(sys.executable, ROWS.values(), program_environment())


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str, here: Machine) -> None:
    """What can be tried here is equal in each column, and doctor says nothing against it."""
    if absent := here.lacks(ROWS[name]):
        pytest.skip(absent)
    setting = Setting(sys.executable, MEMORY, SECONDS, program_environment())
    found = trial.perform(ROWS[name], here, setting, lambda _: None)
    assert found.cells
    assert not {column: cell.text for column, cell in found.cells.items() if cell.good is False}
    assert not [cell.text for cell in found.cells.values() if cell.text.startswith("fails without nvshare")]
