"""The command line of nvshare-scheduler: what becomes of what was said."""

from __future__ import annotations

import pytest
import typer

from nvshare.scheduler.cli import Caller, app
from nvshare.scheduler.options import CommandLine


def said(*arguments: str) -> CommandLine:
    """What a command line says."""
    told: list[CommandLine] = []
    typer.main.get_command(app).main(arguments, standalone_mode=False, obj=Caller({}, told.append))
    [line] = told
    return line


@pytest.mark.parametrize(("arguments", "seconds"), [((), None), (("--sleep-after", "90"), 90.0)])
def test_sleep_after(arguments: tuple[str, ...], seconds: float | None) -> None:
    """Without it idleness is no reason to sleep."""
    assert said(*arguments).options.settings.sleep_after_seconds == seconds


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "86401", "soon"])
def test_sleep_after_that_is_not_allowed(seconds: str) -> None:
    """The message has the value, and says what is."""
    with pytest.raises(typer.BadParameter) as refusal:
        said("--sleep-after", seconds)
    assert seconds in refusal.value.message
    assert "is no number" in refusal.value.message or "from 0.1 to 86400 s is" in refusal.value.message
