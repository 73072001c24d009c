"""What swapping reaches on a real GPU: the rows of RESULTS.md, "Swapping".

    PYTHONPATH=src:. python bench/gpu/swap.py --output FOLDER [--only NAME ...] [--simulate]

Each experiment makes the card small by a process that holds most of it, by plain allocations and without the library,
has a scheduler of its own, and ends within its time whatever happens: all that it started is killed. The table is
printed row by row; FOLDER gets it as ``swap.md``, the figures behind it as ``swap.json``, and what programs and
schedulers said as ``swap.log``. Needs PyTorch and one NVIDIA GPU (``matrix`` two), or neither with ``--simulate``,
where only the order of things is meant, not the figures. Run it from the root of the project, after ``make libs``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.gpu.experiments import allocations, frameworks, jobs, transfers
from bench.gpu.running import experiments
from bench.gpu.running.experiments import GIB, Experiment
from bench.gpu.running.place import HOST_GIB

SPARE_GIB = 12
"""Of host memory, for programs."""

EXPERIMENTS = {
    "rate": Experiment(transfers.rate, 120),
    "unchanged": Experiment(transfers.unchanged, 120),
    "handover": Experiment(transfers.handover, 120),
    "idle": Experiment(transfers.idle, 120),
    "cgroup": Experiment(transfers.cgroup, 90),
    "makespan": Experiment(jobs.makespan, 240),
    "many": Experiment(jobs.many, 300),
    "start": Experiment(frameworks.start, 180),
    "equal": Experiment(frameworks.equal, 300),
    "allocations": Experiment(allocations.allocations, 90),
    "launch": Experiment(frameworks.launch, 180),
    "matrix": Experiment(jobs.matrix, 240, devices=2),
}


def touch_host_memory() -> None:
    """A machine may give memory only as it is used: what the experiments need is used once before."""
    program = Path(__file__).parent / "running" / "host_memory.py"
    subprocess.run([sys.executable, str(program), str((HOST_GIB + SPARE_GIB) * GIB)], check=True, timeout=120)


if __name__ == "__main__":
    experiments.main(__doc__ or "", "swap", EXPERIMENTS, touch_host_memory)
