"""The rows of the table: which program, with what, in which environment."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.gpu.experiments.frameworks import SAME_RESULTS

PROGRAMS = Path(__file__).parent / "programs"
COMPILE_SECONDS = 90
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
JAX_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"


class CompileError(Exception):
    """A program can't be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One of the names of ``--only``."""

    title: str
    program: str
    """A file of ``programs/``, or anything else by its full path. One that ends with .cu is compiled by nvcc."""
    kind: str
    """Its first argument."""
    needs: tuple[str, ...] = ()
    """Python modules, distributions or programs that must be there."""
    environment: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 1
    """Processes of each program, and GPUs: one each."""

    def variables(self) -> dict[str, str]:
        """What its programs have in their environment beside what all have."""
        return {**SAME_RESULTS, **self.environment}

    def command(self, python: str, folder: Path) -> list[str]:
        """What starts it, without options. CompileError."""
        path = PROGRAMS / self.program
        match path.suffix:
            case ".py":
                return [python, str(path), self.kind]
            case ".cu":
                return [str(_compiled(path, folder)), self.kind]
            case _:
                return [str(path), self.kind]

    def command_of_all(self, python: str, command: list[str]) -> list[str]:
        """One command for all ranks, from the command of one."""
        if self.ranks == 1:
            return command
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return [*torchrun, *command[1:]]


def _compiled(source: Path, folder: Path) -> Path:
    target = folder / source.stem
    command = [shutil.which("nvcc") or "nvcc", "-O2", "-cudart", "static", "-o", str(target), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(str(error)) from error
    if done.returncode != 0:
        raise CompileError(f"nvcc ended with {done.returncode}: {done.stderr[-2000:]}")
    return target


TORCH = ("torch", "numpy")
ROWS = {
    "driver": Row("CUDA driver API alone", "driver.py", "driver"),
    "eager": Row("PyTorch eager", "training.py", "eager", TORCH),
    "compile": Row("PyTorch `torch.compile`", "training.py", "compile", (*TORCH, "triton")),
    "graphs": Row("PyTorch CUDA graph, captured and replayed", "training.py", "graph", TORCH),
    "async": Row(
        f"PyTorch, `{ALLOCATOR}=backend:cudaMallocAsync`",
        "training.py",
        "eager",
        TORCH,
        {ALLOCATOR: "backend:cudaMallocAsync"},
    ),
    "expandable": Row(
        f"PyTorch, `{ALLOCATOR}=expandable_segments:True`",
        "training.py",
        "eager",
        TORCH,
        {ALLOCATOR: "expandable_segments:True"},
    ),
    "loader-fork": Row("PyTorch DataLoader, two forked workers", "loader.py", "fork", TORCH),
    "loader-spawn": Row("PyTorch DataLoader, two spawned workers", "loader.py", "spawn", TORCH),
    "ddp": Row("PyTorch DDP over two GPUs", "ranks.py", "ddp", TORCH, ranks=2),
    "fsdp": Row("PyTorch FSDP over two GPUs", "ranks.py", "fsdp", TORCH, ranks=2),
    "jax": Row("JAX, default allocator, not preallocated", "training.py", "jax", ("jax", "numpy")),
    "jax-platform": Row(
        f"JAX, `{JAX_ALLOCATOR}=platform`", "training.py", "jax", ("jax", "numpy"), {JAX_ALLOCATOR: "platform"}
    ),
    "jax-async": Row(
        f"JAX, `{JAX_ALLOCATOR}=cuda_async`", "training.py", "jax", ("jax", "numpy"), {JAX_ALLOCATOR: "cuda_async"}
    ),
    "cupy": Row("CuPy", "training.py", "cupy", ("cupy", "numpy")),
    "triton": Row("Triton", "axpy.py", "triton", (*TORCH, "triton")),
    "cuda-core": Row("cuda.core", "axpy.py", "cuda_core", ("cuda.core", "numpy")),
    "numba": Row("numba-cuda", "axpy.py", "numba", ("numba-cuda", "numpy")),
    "static": Row("C++ by nvcc, CUDA runtime linked statically", "static_cudart.cu", "axpy", ("nvcc",)),
    "generate": Row("transformers `generate`, a small random Llama", "models.py", "generate", (*TORCH, "transformers")),
    "onnx": Row("onnxruntime-gpu", "models.py", "onnx", ("onnxruntime-gpu", "onnx", "numpy")),
}
