"""Trainings whose end state is known bit by bit: KIND (eager, compile, graph, conv, jax, cupy).

Each has about 2 GiB of parameters, moments and activations, or as much as tests/gpu asks for. ``save`` writes the state
to a file, ``wrong_bytes`` compares it with one. Where there is no GPU they run on the processor, much smaller; ``cupy``
does not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
from orders import Answer, serve, timed

LAYERS = 8
BATCH = 256
CALIBRATION_STEPS = 10
MEMORY_BYTES = 9 << 27
"""Of parameters, gradients and moments, if nobody says how much; the rest is what a framework has beside them."""

Training = tuple[Callable[[], object], Callable[[], object], Callable[[], Iterator[Any]]]
"""Submits a step; waits for all; the arrays of its state, one after the other, in host memory."""


def layer_width(memory: int) -> int:
    """Of an MLP whose parameters, gradients and two moments, or new and old parameters and moments, take so much."""
    return max(1, round((memory / (16 * LAYERS)) ** 0.5) // 64) * 64


def mlp(kind: str, memory: int) -> Training:
    """A PyTorch MLP with Adam: plain, compiled, or one step captured as a CUDA graph and replayed."""
    import torch

    gpu = torch.cuda.is_available()
    device, width = ("cuda", layer_width(memory)) if gpu else ("cpu", 64)
    torch.manual_seed(7)
    layers = [module for _ in range(LAYERS) for module in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, capturable=gpu and kind == "graph")
    data, target = torch.randn(BATCH, width, device=device), torch.randn(BATCH, width, device=device)
    called = torch.compile(model) if kind == "compile" else model

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(called(data), target).backward()
        optimizer.step()

    submit: Callable[[], object] = step
    if kind == "graph" and gpu:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            step()
        submit = captured.replay

    def state() -> Iterator[Any]:
        moments = [each[name] for each in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
        for tensor in (*model.parameters(), *moments):
            yield tensor.detach().cpu().numpy()

    return submit, torch.cuda.synchronize if gpu else lambda: None, state


def conv(_: str, _memory: int) -> Training:
    """A PyTorch convolutional network of one size, with momentum and cuDNN's deterministic kernels."""
    import torch

    gpu = torch.cuda.is_available()
    device, batch, side = ("cuda", 64, 48) if gpu else ("cpu", 2, 16)
    torch.backends.cudnn.deterministic = True
    torch.manual_seed(7)
    channels = (3, 64, 128, 128, 256, 256)
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(channels):
        layers += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.BatchNorm2d(after), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(256, 10))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    data = torch.randn(batch, 3, side, side, device=device)
    target = torch.randint(10, (batch,), device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()

    def state() -> Iterator[Any]:
        moments = [each["momentum_buffer"] for each in optimizer.state.values()]
        for tensor in (*model.state_dict().values(), *moments):
            yield tensor.detach().cpu().numpy()

    return step, torch.cuda.synchronize if gpu else lambda: None, state


def jax(_: str, memory: int) -> Training:
    """A JAX MLP with momentum, one step compiled."""
    import jax
    import jax.numpy as jnp

    width = layer_width(memory) if jax.default_backend() == "gpu" else 64
    keys = jax.random.split(jax.random.PRNGKey(7), LAYERS + 2)
    weights = [jax.random.normal(key, (width, width)) / width**0.5 for key in keys[:LAYERS]]
    data, target = (jax.random.normal(key, (BATCH, width)) for key in keys[LAYERS:])
    values = {"state": (weights, [jnp.zeros_like(weight) for weight in weights])}

    def loss(now: Any) -> Any:
        x = data
        for weight in now:
            x = jax.nn.gelu(x @ weight)
        return jnp.mean((x - target) ** 2)

    @jax.jit
    def update(now: Any, moments: Any) -> Any:
        gradients = jax.grad(loss)(now)
        moments = [0.9 * moment + gradient for moment, gradient in zip(moments, gradients, strict=True)]
        return [weight - 0.01 * moment for weight, moment in zip(now, moments, strict=True)], moments

    def step() -> None:
        values["state"] = update(*values["state"])

    def state() -> Iterator[Any]:
        for array in (*values["state"][0], *values["state"][1]):
            yield numpy.asarray(array)

    return step, lambda: jax.block_until_ready(values["state"]), state


def cupy(_: str, memory: int) -> Training:
    """CuPy: products, element-wise kernels and a reduction over four matrices and their temporaries."""
    import cupy

    side = max(1, round((memory / 18) ** 0.5) // 64) * 64
    matrices = [cupy.random.RandomState(number).standard_normal((side, side), dtype="float32") for number in range(4)]

    def step() -> None:
        first = matrices.pop(0)
        product = first @ matrices[0] / side**0.5
        matrices.append(cupy.tanh(product + 0.5 * first) - cupy.mean(product))

    def state() -> Iterator[Any]:
        for matrix in matrices:
            yield cupy.asnumpy(matrix)

    return step, cupy.cuda.get_current_stream().synchronize, state


KINDS = {"eager": mlp, "compile": mlp, "graph": mlp, "conv": conv, "jax": jax, "cupy": cupy}


class Trainer:
    """The orders."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def prepare(self) -> Answer:
        """Makes the state, and does what is done once."""

        def steps() -> None:
            self._submit, self._synchronize, self._state = KINDS[self._kind](self._kind, MEMORY_BYTES)
            self._steps(5)

        return timed(steps)

    def calibrate(self, seconds: float) -> Answer:
        """How many steps take so long, and how many it took to find out."""
        begin = time.perf_counter()
        self._steps(CALIBRATION_STEPS)
        return {
            "steps": max(1, round(CALIBRATION_STEPS * seconds / (time.perf_counter() - begin))),
            "done": CALIBRATION_STEPS,
        }

    def run(self, steps: int) -> Answer:
        """When that began and ended."""
        return timed(lambda: self._steps(steps))

    def save(self, path: str) -> Answer:
        """Writes the state."""
        with Path(path).open("wb") as file:
            for array in self._state():
                array.tofile(file)
            return {"bytes": file.tell()}

    def wrong_bytes(self, path: str) -> Answer:
        """How many bytes of the state differ from those of the file, which has as many."""
        wrong = total = 0
        with Path(path).open("rb") as file:
            for array in self._state():
                here = numpy.frombuffer(array.tobytes(), dtype=numpy.uint8)
                there = numpy.frombuffer(file.read(len(here)), dtype=numpy.uint8)
                wrong += int(numpy.count_nonzero(here != there))
                total += len(here)
        return {"wrong": wrong, "bytes": total}

    def _steps(self, count: int) -> None:
        for number in range(count):
            self._submit()
            if number % 16 == 15:
                self._synchronize()
        self._synchronize()


if __name__ == "__main__":
    trainer = Trainer(sys.argv[1])
    orders = (trainer.prepare, trainer.calibrate, trainer.run, trainer.save, trainer.wrong_bytes)
    serve({order.__name__: order for order in orders})
