"""A program that repeats one kind of step and tells how far it has come: KIND, and for ``ddp`` RANK and a folder.

mlp     a training step of a small MLP: launches, and gaps between them
small   1024 x 1024 products: launch-bound, the queue is never empty
matmul  8192 x 8192 bf16 products: compute-bound
add     the sum of two arrays of 2 GiB: memory-bound
bert    a training step of a transformer encoder in bf16
ddp     a training step of two processes with NCCL, each on a device of its own; its end state is known bit by bit
spin    a kernel of 1 ms by the GPU's clock, by the driver alone: it runs on a simulated device too
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import deque
from collections.abc import Callable
from ctypes import c_uint64
from pathlib import Path
from typing import Any, Protocol

from orders import Answer, serve

MARK_SECONDS = 0.01
"""How often it is noted how far the device has come."""
AHEAD = 3
"""Marks that are submitted at most ahead of the device, as in a program that looks at a loss now and then."""
SPIN_NS = 1_000_000


class Work(Protocol):
    """One kind: ``submit`` only submits, ``record`` gives an event behind all that was."""

    def submit(self) -> None: ...
    def record(self) -> Any: ...
    def synchronize(self) -> None: ...
    def digest(self) -> str: ...


class Torch:
    """The kinds that are PyTorch's."""

    def __init__(self, kind: str) -> None:
        import torch

        torch.manual_seed(7)
        self._torch = torch
        self.submit, self._state = getattr(self, kind)()

    def mlp(self, width: int = 256) -> Any:
        """Eight layers."""
        return self._training(self._layers(width), self._torch.randn(64, width, device="cuda"))

    def bert(self) -> Any:
        """Twelve layers of 768."""
        torch = self._torch
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).to("cuda", torch.bfloat16)
        return self._training(model, torch.randn(128, 256, 768, device="cuda", dtype=torch.bfloat16))

    def small(self) -> Any:
        """1024 x 1024."""
        return self._product(1024)

    def matmul(self) -> Any:
        """8192 x 8192."""
        return self._product(8192)

    def add(self) -> Any:
        """The sum in a third array."""
        torch = self._torch
        first, second, third = (torch.ones(1 << 29, device="cuda") for _ in range(3))
        return lambda: torch.add(first, second, out=third), lambda: [third]

    def ddp(self) -> Any:
        """Two ranks; the state does not depend on how their kernels are interleaved with others'."""
        torch, rank, folder = self._torch, int(sys.argv[2]), Path(sys.argv[3])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group(
            "nccl", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=2
        )
        model = torch.nn.parallel.DistributedDataParallel(self._layers(1024), device_ids=[rank])
        data = torch.randn(64, 1024, generator=torch.Generator().manual_seed(rank)).cuda()
        return self._training(model, data)

    def _layers(self, width: int) -> Any:
        torch = self._torch
        layers = [module for _ in range(8) for module in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers).cuda()

    def _training(self, model: Any, data: Any) -> Any:
        torch = self._torch
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        target = torch.randn_like(data)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.mse_loss(model(data), target).backward()
            optimizer.step()

        return step, lambda: list(model.parameters())

    def _product(self, side: int) -> Any:
        torch = self._torch
        factor = torch.randn(side, side, device="cuda", dtype=torch.bfloat16) / side**0.5
        buffers = [torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2)]

        def step() -> None:
            torch.matmul(buffers[0], factor, out=buffers[1])
            buffers.reverse()

        return step, lambda: buffers

    def record(self) -> Any:
        """An event behind all that was submitted."""
        event = self._torch.cuda.Event()
        event.record()
        return event

    def synchronize(self) -> None:
        """Waits for all."""
        self._torch.cuda.synchronize()

    def digest(self) -> str:
        """Of the state."""
        found = hashlib.sha256()
        for tensor in self._state():
            found.update(tensor.detach().float().cpu().numpy().tobytes())
        return found.hexdigest()[:16]


class Spin:
    """A kernel of so many nanoseconds, each waited for."""

    def __init__(self) -> None:
        from nvshare.demo.driver import Driver
        from nvshare.simgpu import KERNELS_PTX

        self._driver = Driver()
        self._driver.use(0)
        self._spin = self._driver.function(self._driver.load(KERNELS_PTX.read_bytes() + b"\0"), "nvs_spin")

    def submit(self) -> None:
        """One."""
        self._driver.launch(self._spin, 1, 1, (c_uint64(SPIN_NS),))
        self._driver.synchronize()

    def record(self) -> Any:
        """All has completed already."""
        return self

    def query(self) -> bool:
        """Of an event."""
        return True

    def synchronize(self) -> None:
        """Waits for all."""
        self._driver.synchronize()

    def digest(self) -> str:
        """It has no state."""
        return ""


class Program:
    """The orders."""

    def __init__(self, make: Callable[[], Work]) -> None:
        self._make = make

    def prepare(self) -> Answer:
        """Makes the state, and does what is done once."""
        self._work = self._make()
        for _ in range(10):
            self._work.submit()
        self._work.synchronize()
        return {}

    def run(self, seconds: float = 0.0, steps: int = 0) -> Answer:
        """Steps for so long, or so many; how many had completed when, by CLOCK_MONOTONIC in seconds."""
        begun = marked = time.monotonic()
        done, waiting, marks = 0, deque[tuple[int, Any]](), [(begun, 0)]
        while time.monotonic() < begun + seconds or done < steps:
            self._work.submit()
            done += 1
            now = time.monotonic()
            if now < marked + MARK_SECONDS:
                continue
            marked = now
            waiting.append((done, self._work.record()))
            while waiting and (len(waiting) > AHEAD or waiting[0][1].query()):
                count, event = waiting.popleft()
                event.synchronize()
                marks.append((time.monotonic(), count))
        self._work.synchronize()
        marks.append((time.monotonic(), done))
        return {"marks": marks}

    def bursts(self, seconds: float, work: float, rest: float, steps: int) -> Answer:
        """So many steps, then so long nothing, again and again: how long each burst took. ``steps`` 0: for ``work``
        seconds alone, which tells how many that are."""
        if not steps:
            begun = time.perf_counter()
            while time.perf_counter() < begun + work:
                self._work.submit()
                self._work.synchronize()
                steps += 1
        took = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            for _ in range(steps):
                self._work.submit()
            self._work.synchronize()
            took.append(time.perf_counter() - begun)
            time.sleep(rest)
        return {"steps": steps, "took": took}

    def digest(self) -> Answer:
        """Of the state."""
        return {"digest": self._work.digest()}


def work() -> Work:
    """Of the kind that the command line says."""
    kind = sys.argv[1]
    return Spin() if kind == "spin" else Torch(kind)


if __name__ == "__main__":
    program = Program(work)
    serve({order.__name__: order for order in (program.prepare, program.run, program.bursts, program.digest)})
