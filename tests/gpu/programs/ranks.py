"""One rank of a PyTorch training on several devices: ddp, fsdp. Options: steps.py.

Rank, number of ranks and where they meet are in the variables that ``torchrun`` sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from steps import Work, main
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from train import layer_width

BATCH = 64


def ranks(kind: str, memory: int) -> Work:
    """An MLP with Adam, its data others on each rank. ``fsdp`` has a part of all parameters on each rank."""
    gpu, rank, local_rank = torch.cuda.is_available(), int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    # A rank of FSDP has its share of twice the parameters.
    width = layer_width(memory * int(os.environ["WORLD_SIZE"]) if kind == "fsdp" else memory) if gpu else 64
    device = torch.device("cuda", local_rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if gpu else "gloo")
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(7)
    layers = [module for _ in range(8) for module in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model: torch.nn.Module = torch.nn.Sequential(*layers).to(device)
    if kind == "fsdp":
        for layer in layers[::2]:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model, device_ids=[local_rank] if gpu else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = torch.randn(BATCH, width, generator=torch.Generator().manual_seed(rank)).to(device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(data), data).backward()
        optimizer.step()

    def results() -> Iterator[Any]:
        moments = [each[name] for each in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
        for tensor in (*model.parameters(), *moments):
            own = tensor.to_local() if isinstance(tensor, torch.distributed.tensor.DTensor) else tensor
            yield own.detach().cpu().numpy()

    return step, torch.cuda.synchronize if gpu else lambda: None, results


if __name__ == "__main__":
    main({"ddp": ranks, "fsdp": ranks}, {})
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
