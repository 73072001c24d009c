"""Whether sharing fits the work, on a real GPU: the rows of RESULTS.md, "Turns that fit the work".

    PYTHONPATH=src:. python bench/gpu/fit.py --output FOLDER [--only NAME ...] [--simulate]

Each experiment has a scheduler of its own, and ends within its time whatever happens: all that it started is killed.
The table is printed row by row; FOLDER gets it as ``fit.md``, the figures behind it as ``fit.json``, and what programs
and schedulers said as ``fit.log``. Needs PyTorch and one NVIDIA GPU (``gangs`` and ``serve`` two, ``gangs`` NCCL too);
with ``--simulate`` the programs use the processor, and only the order of things is meant. Run it from the root of the
project, after ``make libs``.
"""

from __future__ import annotations

from bench.gpu.experiments import limits, mixes, serving
from bench.gpu.running import experiments
from bench.gpu.running.experiments import Experiment

EXPERIMENTS = {
    "pairs": Experiment(mixes.pairs, 900),
    "weights": Experiment(mixes.weights, 180),
    "bursts": Experiment(mixes.bursts, 300),
    "limits": Experiment(limits.limits, 120),
    "gangs": Experiment(mixes.gangs, 300, devices=2),
    "serve": Experiment(serving.serving, 120, devices=2),
}

if __name__ == "__main__":
    experiments.main(__doc__ or "", "fit", EXPERIMENTS)
