"""The command line of nvshare-scheduler: what becomes of what was said."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from nvshare.scheduler.cli import Caller, app
from nvshare.scheduler.options import CommandLine


def said(*arguments: str, **environment: str) -> CommandLine:
    """What a command line says, and the environment where it says nothing."""
    told: list[CommandLine] = []
    typer.main.get_command(app).main(arguments, standalone_mode=False, obj=Caller(environment, told.append))
    [line] = told
    return line


@pytest.mark.parametrize(("arguments", "seconds"), [((), None), (("--sleep-after", "90"), 90.0)])
def test_sleep_after(arguments: tuple[str, ...], seconds: float | None) -> None:
    """Without it idleness is no reason to sleep."""
    assert said(*arguments).options.settings.sleep_after_seconds == seconds


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "86401", "soon", "1_0", "\u0663"])
def test_sleep_after_that_is_not_allowed(seconds: str) -> None:
    """The message has the value, and says what is."""
    with pytest.raises(typer.BadParameter) as refusal:
        said("--sleep-after", seconds)
    assert seconds in refusal.value.message
    assert "is no number" in refusal.value.message or "from 0.1 to 86400 s is" in refusal.value.message


@pytest.mark.parametrize("option", ["--run-dir", "--pod-resources", "--swap-dir"])
def test_no_path(option: str) -> None:
    """What is empty is a variable that was not set, and not the present folder."""
    with pytest.raises(typer.BadParameter, match="'' is no path; name one, or leave the option out"):
        said(option, "")


def test_run_dir_that_is_not_utf8() -> None:
    """Wherever it is named: gRPC has no way to say it."""
    for named in (("--run-dir", "/tmp/\udcff"), {}), ((), {"NVSHARE_RUN_DIR": "/tmp/\udcff"}):
        with pytest.raises(typer.BadParameter, match="is not UTF-8"):
            said(*named[0], **named[1])


def test_files() -> None:
    """Without a folder there are none. A folder counts wherever the scheduler goes."""
    assert (said().options.swap_dir, said().options.swap_bytes) == (None, None)
    options = said("--swap-dir", "files", "--swap-size", "2GiB").options
    assert (options.swap_dir, options.swap_bytes) == (Path.cwd() / "files", 2 << 30)
    assert said("--swap-dir", "/files").options.swap_bytes is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--swap-dir", ""), "'' is no path"),
        (("--swap-size", "2GiB"), "--swap-dir, which is missing"),
        (("--swap-dir", "/x", "--swap-size", "0"), "0 is not allowed"),
        (("--swap-dir", "/x", "--swap-size", "50%"), "'50%' is no size"),
        (("--swap-dir", "/x", "--swap-size", "10"), "10GiB?"),
    ],
)
def test_files_that_are_not_allowed(arguments: tuple[str, ...], message: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(typer.BadParameter) as refusal:
        said(*arguments)
    assert message in refusal.value.message
