"""What ``nvshare-ctl doctor`` says of a program, where there is that command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gpu.running.program import kill
from nvshare import paths
from tests.gpu.results import Cell, reason

DOCTOR = (sys.executable, "-m", "nvshare.ctl", "doctor")
HELP_SECONDS = 30
GOOD = {"yes": True, "no": False, "unused": False}
"""What is uncertain is neither."""


class DoctorError(Exception):
    """It gave no report."""


def examine(
    command: Sequence[str], run_dir: paths.RunDir, environment: Mapping[str, str], folder: Path, seconds: float
) -> Cell:
    """Its verdict on a command, which it runs under the scheduler of ``run_dir``. DoctorError."""
    shown = subprocess.run([*DOCTOR, "--help"], env=environment, capture_output=True, check=False, timeout=HELP_SECONDS)
    if shown.returncode != 0:
        return Cell("not available")
    report, log = folder / "doctor.json", folder / "doctor.log"
    options = ["--run-dir", str(run_dir.root), "-o", "json", "--output-file", str(report), "--"]
    with log.open("w") as said:
        process = subprocess.Popen(
            [*DOCTOR, *options, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DoctorError(f"doctor did not end within {seconds:.0f} s") from None
        finally:
            kill(process)
    try:
        return cell(json.loads(report.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        ending = log.read_text(errors="replace")[-2000:] or str(error)
        raise DoctorError(f"doctor gave no report, exit code {status}:\n{ending}") from error


def cell(document: Mapping[str, Any]) -> Cell:
    """The verdict in some words: shared or not, how much swaps, and what the problems are."""
    devices = [device for process in document["processes"] for device in process["devices"]]
    words = [str(document["shared_safely"])]
    if document["exit_code"] != 0:
        words.append(f"its exit code was {document['exit_code']}")
    if devices:
        fixed = sum(device["not_swappable_bytes"] for device in devices)
        words.append(f"{sum(device['swappable_bytes'] for device in devices) / 2**20:.0f} MiB swappable")
        words += [f"{fixed / 2**20:.0f} MiB not"] if fixed else []
    if any(device["in_gang"] for device in devices):
        words.append("in a gang")
    words += [reason(one["what"]) for one in document["findings"] if one["level"] == "problem"]
    figures = {"findings": document["findings"], "devices": devices}
    return Cell("; ".join(words), GOOD.get(document["shared_safely"]), figures)
