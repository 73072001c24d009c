"""The trainings of the benchmarks: eager, compile, graph, jax, cupy. Options: steps.py."""

from __future__ import annotations

import sys

from steps import main
from train import KINDS

MODULES = {"jax": "jax", "cupy": "cupy"}

if __name__ == "__main__":
    main(KINDS, [MODULES.get(sys.argv[1], "torch")])
