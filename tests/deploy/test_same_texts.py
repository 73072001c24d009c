"""The chart reads sizes, simulated GPUs and numbers as the programs do to which it hands them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nvshare import paths
from nvshare.scheduler.cli import Caller, app
from nvshare.scheduler.options import CommandLine
from tests.deploy.rendering import CHART, RENDER, helm_template, lines_of
from tests.size_table import size_table

ROOT = CHART.parents[2]
FAULTS = {"no size": "is no size", "too small": "too little to be meant", "too large": "more than any machine has"}
NUMBERS = ("quantum", "longestTurn", "grace", "floor", "burst", "sleepAfter")
TEXTS = ("0", "0.009", "0.01", "0.09", ".1", "0.5", "0.51", "0.99", "1e0", "1000.", "1001", "86400", "86401", "nan")


@pytest.fixture
def helm(tool: Callable[[str], str]) -> str:
    """The helm that ``make helm`` builds."""
    return tool(RENDER["find_helm"]() or "helm")


def test_sizes(helm: str, tmp_path: Path) -> None:
    """What is wrong with each text of the table that C and Python are tested with."""
    table = size_table()
    chart = tmp_path / "sizes"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: sizes, version: 0.0.0}")
    (chart / "values.yaml").write_text(json.dumps({"texts": [text for text, _ in table]}))
    helpers = "_quantities.tpl"
    (chart / "templates" / helpers).write_text((CHART / "templates" / helpers).read_text())
    asked = '{{ dict "fault" (include "nvshare.sizeFault" .) "bytes" (include "nvshare.bytes" .) | toJson }}'
    (chart / "templates" / "all.yaml").write_text("said:\n{{ range .Values.texts }}\n- " + asked + "\n{{ end }}")
    done = subprocess.run([helm, "template", str(chart)], capture_output=True, text=True, check=True, timeout=60)
    for (text, meant), said in zip(table, yaml.safe_load(done.stdout)["said"], strict=True):
        if meant in FAULTS:
            assert FAULTS[meant] in said["fault"], text
        else:
            assert (said["fault"], int(float(said["bytes"]))) == ("", int(meant)), text


@pytest.mark.parametrize(
    "text",
    [
        "2x1Gi/32Mi",
        "2x2G",
        "32x1TiB/1MiB+0.5GiB@1000000MB/s,",
        "32x1TiB/1MiB+0.5GiB@1000000MB/s",
        "Fast One:8 GiB@12GB/s,31x512MiB",
        "Fast One:8 GiB@12GB/s,32x512MiB",
        "1073741824/33554432",
        "2x1GiB/2GiB",
        "2x1GiB,256MiB",
        "0x1GiB",
        "2000x1GiB",
        "1.001TiB",
        "1GiB/0MiB",
        "16gb",
        ":1GiB",
        f"{63 * 'n'}:1GiB",
        f"{64 * 'n'}:1GiB",
        "1GiB@12GiB/s",
        "1GiB@0MB/s",
        "1GiB@1000001MB/s",
    ],
)
def test_simulated_gpus(helm: str, environment: dict[str, str], text: str) -> None:
    """The simulated driver takes what the chart takes, and both refuse the rest for the same reason."""
    code = "from tests.simgpu.device import error; print(error('cuInit', 0))"
    variables = environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", paths.SIMGPU_DEVICES: text}
    driver = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=60)
    chart = helm_template(helm, {"simulated.enabled": True, "simulated.devices": text})
    reasons = [re.findall("is not understood|has contexts as large", each.stderr) for each in (driver, chart)]
    assert reasons[0] == reasons[1]
    assert (driver.stdout == "CUDA_SUCCESS\n") == (chart.returncode == 0) == (not reasons[0])
    if not chart.returncode:
        assert f"value: {json.dumps(text)}" in chart.stdout


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(helm: str, name: str) -> None:
    """From where to where they are allowed."""
    option = "--" + re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name)
    for text in TEXTS:
        told: list[CommandLine] = []
        CliRunner().invoke(app, [f"{option}={text}"], obj=Caller({}, told.append))
        chart = helm_template(helm, {"scheduler.sleep": True, f"scheduler.{name}": text})
        assert (chart.returncode == 0) == bool(told), text
        assert told or f"scheduler.{name}: {text} is not allowed: a number from " in chart.stderr


@pytest.mark.parametrize("path", [*(f"scheduler.{name}" for name in NUMBERS), "overcommit"])
def test_numbers_may_be_texts(helm: str, path: str) -> None:
    """``--set`` makes a text of each that has decimals: it means the same."""
    beside = {"scheduler.sleep": True} if path != "overcommit" else {"allocation": "dra"}
    value = 0.25 if path.endswith(("floor", "grace")) else 1.5
    number, text, nothing = (lines_of(helm, {**beside, path: each}) for each in (value, str(value), ""))
    assert number == text
    assert [line for line in text if line.endswith(f"{value}")]
    assert nothing == lines_of(helm, beside)
