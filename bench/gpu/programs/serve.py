"""One rank of an inference server whose tensors are spread over two devices: RANK, a folder, and torch or driver.

torch   decodes tokens with a model of random weights, of which each rank has half of every layer; after each layer
        their sums are added by a kernel of our own (all_reduce.ptx), in memory that they open of each other by CUDA IPC
driver  the same order of things by the driver's calls alone: what runs on a simulated device

``begin`` starts anew, ``run`` decodes; equal numbers of steps after ``begin`` end with equal digests, on both ranks. A
digest is of every bit of every step before it.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from ctypes import c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ipc import Ipc, IpcError, Rendezvous
from orders import Answer, serve
from steady import Program

ALL_REDUCE_PTX = Path(__file__).parent / "all_reduce.ptx"
LAYERS, WIDTH, INNER, BATCH, VOCABULARY = 24, 4096, 8192, 16, 8192
"""INNER is one rank's half: 3 GiB of weights each."""
BLOCKS, THREADS = 32, 256
FLAGS_BYTES = 64
"""Of a block; the word after those of all blocks says that somebody has given up."""
LIMIT_NS = 15_000_000_000
"""After that the kernel stops waiting for the other rank's."""
FACTOR = 6364136223846793005


class AllReduce:
    """The sum of both ranks' parts, on the current PyTorch stream; needs a current context."""

    def __init__(self, torch: Any, rank: int, meeting: Rendezvous, part: Any, total: Any) -> None:
        self._torch, self._ipc = torch, Ipc()
        self._flags = self._ipc.allocate((BLOCKS + 1) * FLAGS_BYTES)
        torch.cuda.synchronize()
        own = [part.data_ptr(), self._flags]
        given = meeting.exchange("handles", [self._ipc.give(each) for each in own])
        opened = [self._ipc.open(each) for each in given]
        self._bases = [base for _, base in opened]
        others_part, others_flags = (at for at, _ in opened)
        self.opened = [self._ipc.attributes(base) for base in self._bases]
        self._check_part(rank, part, others_part)
        meeting.exchange("opened", True)
        first, second = (own[0], others_part) if rank == 0 else (others_part, own[0])
        self._failed = self._flags + BLOCKS * FLAGS_BYTES
        values = (first, second, total.data_ptr(), part.numel(), self._flags, others_flags, self._failed, LIMIT_NS)
        self._values = (c_uint64 * len(values))(*values)
        step, start = ctypes.sizeof(c_uint64), ctypes.addressof(self._values)
        self._parameters = (c_void_p * len(values))(*range(start, start + step * len(values), step))
        module, self._function = c_void_p(), c_void_p()
        self._ipc.call("cuModuleLoadData", ctypes.byref(module), ALL_REDUCE_PTX.read_bytes() + b"\0")
        self._ipc.call("cuModuleGetFunction", ctypes.byref(self._function), module, b"all_reduce_f32")

    def _check_part(self, rank: int, part: Any, others: int) -> None:
        """Copies by the driver find in both parts what their ranks wrote there."""
        size = part.numel() * 4
        for address, writer in ((part.data_ptr(), rank), (others, 1 - rank)):
            if self._ipc.read(address, size) != part_of(self._torch, writer).numpy().tobytes():
                raise IpcError(f"rank {rank} does not see what rank {writer} wrote before it gave its memory")

    def submit(self) -> None:
        """One all-reduce."""
        stream = c_void_p(self._torch.cuda.current_stream().cuda_stream)
        self._ipc.call("cuLaunchKernel", self._function, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, self._parameters, None)

    def check(self) -> None:
        """IpcError if a kernel has waited too long for the other rank's. All has completed."""
        if any(self._ipc.read(self._failed, 4)):
            raise IpcError(f"a kernel has waited {LIMIT_NS / 1e9:g} s for the other rank's, and gave up")

    def close(self) -> None:
        """Of what was opened."""
        for base in self._bases:
            self._ipc.close(base)


def part_of(torch: Any, rank: int) -> Any:
    """What a rank's part has before it is given."""
    return torch.arange(BATCH * WIDTH, dtype=torch.float32) + 0.25 * rank


class Tokens:
    """The model, and the tokens so far."""

    def __init__(self, rank: int, folder: Path) -> None:
        import torch

        self._torch, self._rank, self._meeting = torch, rank, Rendezvous(rank, folder)
        self._graph: Any = None
        self._replays = False

    def open(self) -> Tokens:
        """Makes the weights and what the ranks share."""
        torch, rank = self._torch, self._rank
        torch.cuda.set_device(rank)
        random = torch.Generator("cuda").manual_seed(1000 + rank)
        self._layers = [
            (self._random(random, WIDTH, INNER, WIDTH), self._random(random, INNER, WIDTH, 2 * INNER))
            for _ in range(LAYERS)
        ]
        common = torch.Generator("cuda").manual_seed(7)
        self._embedding = self._random(common, VOCABULARY, WIDTH, 1)
        self._output = self._random(common, WIDTH, VOCABULARY, WIDTH)
        self._hidden = torch.empty(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
        self._trace = torch.empty(BATCH, device="cuda", dtype=torch.int64)
        # In the middle of what the framework has of the driver, as tensors are.
        self._before = torch.empty(1000, device="cuda")
        self._part = part_of(torch, rank).to("cuda").view(BATCH, WIDTH)
        self._total = torch.empty_like(self._part)
        self.begin(False)
        self._reduce = AllReduce(torch, rank, self._meeting, self._part, self._total)
        self._projected()
        torch.cuda.synchronize()
        self._meeting.exchange("ready", True)
        return self

    def _random(self, generator: Any, rows: int, columns: int, parts: int) -> Any:
        torch = self._torch
        return torch.randn(rows, columns, generator=generator, device="cuda", dtype=torch.bfloat16) / parts**0.5

    def capture(self) -> None:
        """A step as a graph; it is not executed by that."""
        self._graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(self._graph):
            self._step()

    def begin(self, graph: bool) -> None:
        """With the first tokens again; steps are submitted one by one, or as a graph."""
        self._replays = graph
        self._hidden.copy_(self._embedding[:BATCH])
        self._trace.zero_()

    def _projected(self) -> Any:
        """The next tokens."""
        return (self._hidden @ self._output).argmax(1)

    def _step(self) -> None:
        functional = self._torch.nn.functional
        hidden = self._hidden
        for up, down in self._layers:
            normed = functional.layer_norm(hidden, (WIDTH,))
            self._part.copy_(functional.gelu(normed @ up) @ down)
            self._reduce.submit()
            hidden.add_(self._total.to(hidden.dtype))
        tokens = self._projected()
        bits = hidden.view(self._torch.int16).sum(1, dtype=self._torch.int64)
        self._trace.mul_(FACTOR).add_(tokens).add_(bits)
        hidden.copy_(self._embedding[tokens] + functional.layer_norm(hidden, (WIDTH,)))

    def submit(self) -> None:
        """One token more for all of the batch."""
        if self._replays:
            self._graph.replay()
        else:
            self._step()

    def record(self) -> Any:
        """An event behind all that was submitted."""
        event = self._torch.cuda.Event()
        event.record()
        return event

    def synchronize(self) -> None:
        """Waits for all."""
        self._torch.cuda.synchronize()
        self._reduce.check()

    def digest(self) -> str:
        """Of all steps, and of the state."""
        state = self._trace.cpu().numpy().tobytes() + self._hidden.float().cpu().numpy().tobytes()
        return hashlib.sha256(state).hexdigest()[:16]

    def opened(self) -> list[dict[str, int]]:
        """What the driver says of the other's memory."""
        return self._reduce.opened

    def close(self) -> None:
        """Of the other's memory, when the other one has done all."""
        self._meeting.exchange("done", True)
        self._reduce.close()
        # The other one's memory must be there until it is closed.
        self._meeting.exchange("closed", True)


class Meetings:
    """Kernels of a simulated device that meet, and memory that is compared with what was written there."""

    LAYERS = 4
    PIECE_BYTES = 4 << 20
    PIECES = 24
    SPIN_NS = 50_000
    PAGE_BYTES = 64

    def __init__(self, rank: int, folder: Path) -> None:
        from nvshare.demo.driver import Driver
        from nvshare.simgpu import KERNELS_PTX

        self._rank, self._meeting = rank, Rendezvous(rank, folder)
        self._driver, self._ptx = Driver(), KERNELS_PTX.read_bytes() + b"\0"
        self._round = self._first = 0

    def open(self) -> Meetings:
        """The page in which they meet is rank 0's."""
        self._driver.use(self._rank)
        module = self._driver.load(self._ptx)
        self._functions = {
            name: self._driver.function(module, name)
            for name in ("nvs_spin", "nvs_stamp_u64", "nvs_count_wrong_u64", "nvs_meet_u64")
        }
        self._ipc = Ipc()
        self._sums = self._ipc.allocate(16)
        self._weights = [self._driver.allocate(self.PIECE_BYTES) for _ in range(self.PIECES)]
        page = 0
        if self._rank == 0:
            page = self._ipc.allocate(self.PAGE_BYTES)
            self._driver.synchronize()
        given = self._meeting.exchange("handles", self._ipc.give(page) if page else None)
        self._page, self._base = (page, 0) if page else self._ipc.open(given)
        self._opened = [self._ipc.attributes(self._base)] if self._base else []
        self._meeting.exchange("opened", True)
        self.begin(False)
        self._meeting.exchange("ready", True)
        return self

    def capture(self) -> None:
        """There is no graph."""

    def begin(self, graph: bool) -> None:
        """With sums of 0, and the weights written anew."""
        self._ipc.call("cuMemsetD8_v2", c_uint64(self._sums), 0, ctypes.c_size_t(16))
        for number, address in enumerate(self._weights):
            self._launch("nvs_stamp_u64", address, number, self.PIECE_BYTES // 8, 1)
        self._driver.synchronize()
        self._first = self._round

    def submit(self) -> None:
        """One step."""
        for _ in range(self.LAYERS):
            self._round += 1
            number = self._round % self.PIECES
            self._launch("nvs_spin", self.SPIN_NS)
            self._launch("nvs_count_wrong_u64", self._weights[number], number, 1024, 512, self._sums + 8)
            value = (self._round - self._first) * 17 + self._rank
            self._launch("nvs_meet_u64", self._page, self._rank, 2, self._round, value, self._sums)

    def _launch(self, name: str, *numbers: int) -> None:
        self._driver.launch(self._functions[name], 1, 1, [c_uint64(each) for each in numbers])

    def record(self) -> Any:
        """All has completed already, when it has been waited for."""
        self._driver.synchronize()
        return self

    def query(self) -> bool:
        """Of an event."""
        return True

    def synchronize(self) -> None:
        """Waits for all."""
        self._driver.synchronize()

    def digest(self) -> str:
        """Of the sums, and how often the weights were wrong."""
        return hashlib.sha256(self._driver.read(self._sums, 16)).hexdigest()[:16]

    def opened(self) -> list[dict[str, int]]:
        """What the driver says of the other's memory."""
        return self._opened

    def close(self) -> None:
        """Of the other's memory, when the other one has done all."""
        self._meeting.exchange("done", True)
        if self._base:
            self._ipc.close(self._base)
        self._meeting.exchange("closed", True)


class Orders:
    """Those that only a server gets."""

    def __init__(self, server: Tokens | Meetings) -> None:
        self._server = server

    def capture(self) -> None:
        """A step as a graph."""
        self._server.capture()

    def begin(self, graph: bool) -> None:
        """Starts anew."""
        self._server.begin(graph)
        self._server.synchronize()

    def opened(self) -> Answer:
        """What the driver says of the other's memory, but for addresses."""
        said = self._server.opened()
        return {"opened": [{key: value for key, value in each.items() if key != "range start"} for each in said]}

    def close(self) -> None:
        """Ends what the ranks share."""
        self._server.synchronize()
        self._server.close()


if __name__ == "__main__":
    server = {"torch": Tokens, "driver": Meetings}[sys.argv[3]](int(sys.argv[1]), Path(sys.argv[2]))
    program, orders = Program(server.open), Orders(server)
    functions = (
        program.prepare,
        program.run,
        program.digest,
        orders.capture,
        orders.begin,
        orders.opened,
        orders.close,
    )
    serve({order.__name__: order for order in functions})
