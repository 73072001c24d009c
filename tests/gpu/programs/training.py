"""The trainings of the benchmarks: eager, compile, graph, jax, cupy. Options: steps.py."""

from __future__ import annotations

from steps import main
from train import KINDS

MODULES = {"compile": "torch._dynamo", "jax": "jax", "cupy": "cupy"}

if __name__ == "__main__":
    main(KINDS, {kind: [MODULES.get(kind, "torch")] for kind in KINDS})
