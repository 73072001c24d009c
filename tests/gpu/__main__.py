"""Which programs work under nvshare, and how well: the table of docs/compatibility.md, on the GPUs of this machine.

    PYTHONPATH=src:. python -m tests.gpu [--only NAME ...] [--output FOLDER] [--python INTERPRETER]

Each row is tried by itself, in less than a minute mostly, and ends within its time whatever happens: what it started is
killed, and the cell says why. The table is printed and written after each row: FOLDER gets it as ``compatibility.md``,
with the figures behind it as ``compatibility.json``, and the ends of what programs and schedulers said as
``compatibility.log``. Rows that FOLDER has already are kept if they are not tried again, so a table can be made in
pieces; ``python -m tests.gpu.page`` joins those of several folders.

Needs an NVIDIA GPU with a few GiB free that nobody else uses, and memory that swaps is never managed memory. A package
that is not installed is a row that says so. Run it from the root of the project, after ``make libs``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path

from bench.gpu.running.experiments import keep_logs
from tests.gpu import machine, results, trial
from tests.gpu.machine import MachineError
from tests.gpu.results import COLUMNS, Results
from tests.gpu.rows import PROGRAMS, ROWS
from tests.gpu.trial import Setting

ROOT = Path(__file__).resolve().parents[2]
NAME = "compatibility"


def program_environment() -> dict[str, str]:
    """This process's, and where programs find what they import."""
    folders = [ROOT / "src", ROOT / "bench" / "gpu" / "programs", PROGRAMS]
    before = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, [before])])}


def main() -> int:
    """Exit status 0: nothing that was tried is wrong; 1: something is; 2: nothing could be tried."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME", help=f"of these rows: {', '.join(ROWS)}")
    parser.add_argument("--output", type=Path, default=Path("build/gpu"), metavar="FOLDER", help="by default build/gpu")
    parser.add_argument("--python", default=sys.executable, metavar="INTERPRETER", help="that has the packages")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="of a program's data; default 1024")
    parser.add_argument("--seconds", type=float, default=5.0, help="of work of each program that swaps; default 5")
    options = parser.parse_args()
    # What was started ends with this process, then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    setting = Setting(options.python, options.memory << 20, options.seconds, program_environment())
    file = options.output / f"{NAME}.json"
    try:
        found: Results = results.read(file) if file.exists() else {}
        here = machine.look(options.python, ROWS.values(), setting.environment)
    except (MachineError, ValueError) as error:
        print(f"python -m tests.gpu: {error}", file=sys.stderr)
        return 2
    print(f"{here.words}; {here.gpus} GPU{'' if here.gpus == 1 else 's'}", flush=True)
    print(f"| program | {' | '.join(COLUMNS.values())} |\n|{'---|' * (len(COLUMNS) + 1)}", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    names = options.only or list(ROWS)
    for name in names:
        keep = partial(keep_logs, experiment=name, target=options.output / f"{NAME}.log")
        found[name] = trial.perform(ROWS[name], here, setting, keep)
        results.write(found, file)
        (options.output / f"{NAME}.md").write_text(results.table(found, ROWS), encoding="utf-8")
        print(results.line(found[name]), flush=True)
        print(f"# {name}: {found[name].seconds:.0f} s", flush=True)
    return 0 if all(found[name].good for name in names) else 1


if __name__ == "__main__":
    sys.exit(main())
