"""One PyTorch program, as a user would write it: prints one JSON line with its rate, its result's hash and its spans.

Run by ``run.py``; the barrier is a folder in which every program of an experiment leaves a file when it is warm, and
waits for the file ``go``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench.gpu.running.stamps import Stamps


def tiny_add() -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """``x.add_(1)`` on 64 floats: nothing but launches."""
    x = torch.zeros(64, device="cuda")
    return lambda: x.add_(1), lambda: x


def mlp() -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """A training step of an 8-layer, 256-wide MLP with Adam: launch-bound, as small models are."""
    layers = [m for _ in range(8) for m in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data, target = torch.randn(64, 256, device="cuda"), torch.randn(64, 256, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(data), target).backward()
        optimizer.step()

    return step, lambda: torch.cat([p.flatten() for p in model.parameters()])


def matmul() -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """8192 x 8192 bf16 products, each of the last one's result: compute-bound."""
    state = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    factor = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) / 8192**0.5
    out = torch.empty_like(state)
    buffers = [state, out]

    def step() -> None:
        torch.matmul(buffers[0], factor, out=buffers[1])
        buffers.reverse()

    return step, lambda: buffers[0]


def graph() -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """A captured CUDA graph of 20 small kernels, replayed."""
    x = torch.randn(1 << 20, device="cuda")

    def body() -> None:
        for _ in range(10):
            x.mul_(1.0001)
            x.add_(1e-6)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        body()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        body()
    return captured.replay, lambda: x


SPAN_NANOSECONDS = 20_000
WORKLOADS = {"tiny_add": tiny_add, "mlp": mlp, "matmul": matmul, "graph": graph}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1, help="measure this often, report every rate")
    parser.add_argument("--barrier", type=Path)
    parser.add_argument(
        "--span-every", type=int, default=0, help="put a span of the GPU's clock before every Nth iteration"
    )
    options = parser.parse_args()

    torch.manual_seed(7)
    step, result = WORKLOADS[options.workload]()
    capacity = options.iterations * options.rounds // options.span_every + 1 if options.span_every else 1
    stamps = Stamps(torch, capacity, SPAN_NANOSECONDS)
    for _ in range(options.warm_up):
        step()
    torch.cuda.synchronize()
    if options.barrier:
        (options.barrier / str(os.getpid())).touch()
        while not (options.barrier / "go").exists():
            time.sleep(0.001)
    rates = []
    begun = time.monotonic()
    for _ in range(options.rounds):
        start = time.perf_counter()
        for i in range(options.iterations):
            if options.span_every and i % options.span_every == 0:
                stamps.span()
            step()
        torch.cuda.synchronize()
        rates.append(options.iterations / (time.perf_counter() - start))
    ended = time.monotonic()
    digest = hashlib.sha256(result().detach().float().cpu().numpy().tobytes()).hexdigest()[:16]
    print(
        json.dumps(
            {
                "workload": options.workload,
                "pid": os.getpid(),
                "rates": rates,
                "begun": begun,
                "ended": ended,
                "digest": digest,
                "spans": stamps.spans() if options.span_every else [],
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
