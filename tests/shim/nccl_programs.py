"""Compiles an NCCL that only says what it was called with, and programs that reach it in every way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import Peer

Compile = Callable[..., Path]


@dataclass(slots=True)
class Nccl:
    """What is compiled."""

    compile_c: Compile
    children: Children
    started: list[ControlledProgram]

    def library(self, folder: str = "", *flags: str) -> Path:
        """An NCCL."""
        soname = f"libnccl.so.{folder.rstrip('/') or 2}"
        flags = ("-shared", "-fPIC", f"-Wl,-soname,{soname}", *flags)
        return self.compile_c("programs/nccl.c", f"{folder}{soname}", *flags)

    def plugin(self, name: str, *with_: str | Path, soname: bool = True) -> Path:
        """An object that calls NCCL, linked with these."""
        named = [f"-Wl,-soname,{name}"] if soname else []
        needed = [str(part) for part in with_]
        return self.compile_c(
            "programs/nccl_user.c", name, "-shared", "-fPIC", "-Wl,-z,undefs", *named, *needed, "-ldl"
        )

    def start(self, *arguments: str | Path, compiled: bool = False, **variables: str) -> ControlledProgram:
        """Starts the program in ``arguments``, or ``nccl_loop.py`` with them."""
        environment = self.children.environment | {paths.MEMORY: "native"} | variables
        words = [str(argument) for argument in arguments]
        name, *rest = words if compiled else ["nccl_loop.py", *words]
        program = ControlledProgram(environment, name=name, arguments=rest, compiled=compiled)
        self.started.append(program)
        return program


def joins(program: ControlledProgram, peer: Peer, command: str) -> tuple[wire.Join, str]:
    """Gives a command that ties the process, and checks that NCCL is not called before JOINED."""
    program.begin(command)
    join = peer.expect(wire.Join)
    program.waits()
    peer.send(wire.Joined(join.request))
    return join, program.answer()


def use(program: ControlledProgram, scheduler: FakeScheduler, ordinal: int = 0) -> Peer:
    """Makes a context, and registers the client that this makes."""
    return scheduler.serve(program, f"use {ordinal}")
