"""Ranks of a job whose kernels wait for each other: gang_member.py FILE RANKS RANK:DEVICE... [KEY=NUMBER...].

Submits rounds of a collective until the round that FILE names, and prints what each rank has computed. FILE is shared
memory of all ranks: 4 words for each, which the kernels use, and behind those the last round, for each rank how many it
has submitted, and a handle.

    extra=N    rank 0 submits so many kernels more each round
    think=N    microseconds of each round in which nothing is submitted
    hold=N     stops before round N until the file's word ``HELD`` is not zero
    threads=1  a thread for each rank
    ipc=1      the kernels use memory of rank 0's device, which the others open by CUDA IPC
    fill=N     so many MiB of device memory, by four, looked at and written anew every ``SYNCED_EVERY`` rounds
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.simgpu import KERNELS_PTX

MOST_RANKS = 8
LAST, HELD, SUBMITTED = MOST_RANKS * 4, MOST_RANKS * 4 + 1, MOST_RANKS * 4 + 2
GIVEN, HANDLE = SUBMITTED + MOST_RANKS, SUBMITTED + MOST_RANKS + 1
HANDLE_BYTES = 64
FILE_BYTES = 4096
PORTABLE, SYNCED_EVERY = 1, 50
PART = 4
"""MiB that are filled alike."""


class Handle(ctypes.Structure):
    """CUipcMemHandle, which is passed by value."""

    _fields_ = (("bytes", ctypes.c_ubyte * HANDLE_BYTES),)


def driver() -> ctypes.CDLL:
    """The driver."""
    return ctypes.CDLL("libcuda.so.1")


def call(symbol: str, *arguments: object) -> None:
    """Calls a function of the driver, which must succeed."""
    result = driver()[symbol](*arguments)
    assert result == 0, f"{symbol} answered {result}"


@dataclass(slots=True)
class Rank:
    """One rank on one device."""

    number: int
    ranks: int
    device: int
    page: int
    context: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    stream: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    total: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)
    """Device memory: what was computed."""
    kernels: dict[str, ctypes.c_void_p] = field(default_factory=dict)
    mebibytes: int = 0
    memory: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)

    def open(self) -> None:
        """Makes its context, which is current then."""
        module = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.use()
        call("cuModuleLoadData", ctypes.byref(module), KERNELS_PTX.read_bytes() + b"\0")
        for name in ("nvs_meet_u64", "nvs_spin"):
            kernel = self.kernels[name] = ctypes.c_void_p()
            call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        call("cuMemAlloc_v2", ctypes.byref(self.total), ctypes.c_size_t(8))
        if self.mebibytes:
            call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(self.mebibytes << 20))

    def begin(self) -> None:
        """Begins with nothing: the first that needs the lock."""
        self.use()
        call("cuMemsetD32_v2", self.total, 0, ctypes.c_size_t(2))
        self.write(0)
        call("cuCtxSynchronize")

    def share(self, words: memoryview) -> None:
        """Lets the kernels of all ranks use memory of rank 0's device."""
        self.use()
        given, handle = ctypes.c_uint64(), words[HANDLE : HANDLE + HANDLE_BYTES // 8].cast("B")
        if self.number == 0:
            made = Handle()
            call("cuMemAlloc_v2", ctypes.byref(given), ctypes.c_size_t(FILE_BYTES))
            call("cuMemsetD32_v2", given, 0, ctypes.c_size_t(FILE_BYTES // 4))
            call("cuCtxSynchronize")
            call("cuIpcGetMemHandle", ctypes.byref(made), given)
            handle[:] = bytes(made)
            words[GIVEN] = 1
        else:
            while not words[GIVEN]:
                time.sleep(0.001)
            call("cuIpcOpenMemHandle_v2", ctypes.byref(given), Handle.from_buffer_copy(handle), 1)
        self.page = given.value

    def use(self) -> None:
        """Makes its context current."""
        call("cuCtxSetCurrent", self.context)

    def launch(self, name: str, *numbers: int) -> None:
        """Launches a kernel."""
        values = (ctypes.c_uint64 * len(numbers))(*numbers)
        step = ctypes.sizeof(ctypes.c_uint64)
        pointers = (ctypes.c_void_p * len(numbers))(
            *range(ctypes.addressof(values), ctypes.addressof(values) + len(numbers) * step, step)
        )
        call("cuLaunchKernel", self.kernels[name], 1, 1, 1, 1, 1, 1, 0, self.stream, pointers, None)

    def meet(self, round_number: int) -> None:
        """A kernel that waits for those of all ranks."""
        self.launch(
            "nvs_meet_u64",
            self.page,
            self.number,
            self.ranks,
            round_number,
            addend(self.number, round_number),
            self.total.value,
        )

    def wait(self) -> None:
        """Until all that it submitted has completed."""
        self.use()
        call("cuStreamSynchronize", self.stream)

    def write(self, round_number: int) -> None:
        """Fills its memory, each part with a value of its own."""
        self.use()
        for part in range(0, self.mebibytes, PART):
            place = ctypes.c_uint64(self.memory.value + (part << 20))
            call("cuMemsetD32_v2", place, self.number << 24 | part + round_number, ctypes.c_size_t(PART << 18))

    def check(self, round_number: int) -> None:
        """Its memory is as it was filled after that round."""
        self.use()
        found = (ctypes.c_uint32 * 2)()
        for part in range(0, self.mebibytes, PART):
            place = ctypes.c_uint64(self.memory.value + (part << 20))
            call("cuMemcpyDtoH_v2", ctypes.byref(found), place, ctypes.c_size_t(8))
            assert list(found) == [self.number << 24 | part + round_number] * 2, (part, round_number, list(found))

    def result(self) -> int:
        """What it has computed."""
        self.use()
        found = ctypes.c_uint64()
        call("cuMemcpyDtoH_v2", ctypes.byref(found), self.total, ctypes.c_size_t(8))
        return found.value


def addend(rank: int, round_number: int) -> int:
    """What a rank adds in a round."""
    return rank * 1_000_003 + round_number * 17


def expected(ranks: int, rounds: int) -> int:
    """What each rank has computed after so many rounds."""
    total = 0
    for number in range(1, rounds + 1):
        added = sum(total + addend(rank, number) for rank in range(ranks))
        total = (total * 0x9E3779B97F4A7C15 + added) % 2**64
    return total


def run(rank: Rank, words: memoryview, options: dict[str, int], others: tuple[Rank, ...] = ()) -> None:
    """Submits all rounds, of this rank and then of the others, in one thread."""
    number = 0
    while number < words[LAST]:
        number += 1
        if number == options.get("hold"):
            while not words[HELD]:
                time.sleep(0.001)
        for each in (rank, *others):
            each.use()
            for _ in range(options.get("extra", 0) if each.number == 0 else 0):
                each.launch("nvs_spin", 1000)
            each.launch("nvs_spin", 20_000)
            each.meet(number)
            words[SUBMITTED + each.number] = number
        if options.get("think"):
            time.sleep(options["think"] / 1e6)
        if number % SYNCED_EVERY == 0:
            for each in (rank, *others):
                each.wait()
                each.check(number - SYNCED_EVERY)
                each.write(number)
    for each in (rank, *others):
        each.wait()
        each.check(number - number % SYNCED_EVERY)


def main() -> None:
    """Prints each rank's result."""
    path, ranks, *rest = sys.argv[1:]
    options = {key: int(value) for key, _, value in (word.partition("=") for word in rest if "=" in word)}
    with Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), FILE_BYTES)
    words = memoryview(shared).cast("Q")
    page = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    call("cuInit", 0)
    mine = [
        Rank(int(number), int(ranks), int(device), page, mebibytes=options.get("fill", 0))
        for number, _, device in (word.partition(":") for word in rest if "=" not in word)
    ]
    for rank in mine:
        rank.open()
    for rank in mine:
        rank.begin()
    if options.get("ipc"):
        for rank in mine:
            rank.share(words)
    else:
        call("cuMemHostRegister_v2", ctypes.c_void_p(page), ctypes.c_size_t(FILE_BYTES), PORTABLE)
    if options.get("threads"):
        threads = [threading.Thread(target=run, args=(rank, words, options)) for rank in mine]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        run(mine[0], words, options, tuple(mine[1:]))
    for rank in mine:
        print(rank.number, rank.result(), flush=True)


if __name__ == "__main__":
    main()
