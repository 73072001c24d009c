"""A PyTorch training whose data come from two worker processes of a DataLoader: fork, spawn. Options: steps.py.

Forked workers are copies of a process that uses the device already, as in most scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import torch
from steps import Work, main
from train import layer_width

BATCH = 64
BATCHES = 1 << 20
"""More than anybody trains on."""


class Rows(torch.utils.data.Dataset[Any]):
    """Rows that follow from their numbers."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __len__(self) -> int:
        return BATCHES * BATCH

    def __getitem__(self, number: int) -> Any:
        return numpy.random.default_rng(number).standard_normal(self._width, dtype=numpy.float32)


def loader(kind: str, memory: int) -> Work:
    """An MLP with Adam; ``kind`` is how workers are started."""
    gpu = torch.cuda.is_available()
    device, width = ("cuda", layer_width(memory)) if gpu else ("cpu", 64)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(7)
    layers = [module for _ in range(8) for module in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batches = iter(
        torch.utils.data.DataLoader(
            Rows(width), BATCH, num_workers=2, multiprocessing_context=kind, pin_memory=gpu, prefetch_factor=4
        )
    )

    def step() -> None:
        data = next(batches).to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(data), data).backward()
        optimizer.step()

    def results() -> Iterator[Any]:
        moments = [each[name] for each in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
        for tensor in (*model.parameters(), *moments):
            yield tensor.detach().cpu().numpy()

    return step, torch.cuda.synchronize if gpu else lambda: None, results


if __name__ == "__main__":
    main({"fork": loader, "spawn": loader}, {})
