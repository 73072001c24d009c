"""Random claims, prepared and unprepared by a program that is killed between any two of its file operations."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nvshare.deviceplugin.claims.claim import ClaimError
from tests.deviceplugin.claims.bench import GPU_A, GPU_B, NodeOfClaims, claim, result

NAMES = st.sampled_from(["a", "b", "c"])


def steps(most: int) -> st.SearchStrategy[int | None]:
    """After how many file operations the program is killed; None: it is not."""
    return st.one_of(st.none(), st.integers(0, most), st.integers(0, most))


class Killed(BaseException):
    """The program is dead: it does nothing more."""


@contextmanager
def killed_after(steps: int | None) -> Iterator[None]:
    """From then on no file operation takes place, not even those that would clean up."""
    done = 0

    def dying(operation: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **more: Any) -> Any:
            nonlocal done
            if steps is not None and done >= steps:
                raise Killed
            done += 1
            return None if operation is fsync else operation(*arguments, **more)

        return called

    fsync = os.fsync
    names = ("open", "rename", "unlink", "fsync", "fchmod")
    with patch.multiple(os, **{name: dying(getattr(os, name)) for name in names}):
        yield


class Model(RuleBasedStateMachine):
    """Whatever happens: records are what was prepared, CDI files are the records, and nothing else is left."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="claims-"))
        self.node = NodeOfClaims(self.folder)
        self.uids = 0
        self.must: set[str] = set()
        """Claims whose preparation was answered."""
        self.may: set[str] = set()
        """Claims that were being prepared or unprepared when the program was killed."""
        for name in ("a", "b", "c"):
            self.allocate(name, [GPU_A], 12)
        self.claims = self.node.start()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(name=NAMES, gpus=st.lists(st.sampled_from([GPU_A, GPU_B]), min_size=1, max_size=2), gib=st.integers(1, 12))
    def allocate(self, name: str, gpus: list[str], gib: int) -> None:
        """A claim is made, or made anew under its name once kubelet has ended the former one."""
        former = self.node.api.claims.get(("team", name))
        if former is not None and former["metadata"]["uid"] in self.must:
            return
        self.uids += 1
        results = [result(uuid, f"r{place}", f"{gib}Gi") for place, uuid in enumerate(gpus)]
        self.node.api.add(claim(f"u{self.uids}", *results, name=name))

    @rule(away=st.sampled_from([False, False, True]))
    def api(self, away: bool) -> None:
        """The API server goes, or comes."""
        self.node.api.away = away

    @rule(name=NAMES, steps=steps(16))
    def prepare(self, name: str, steps: int | None) -> None:
        """kubelet asks for a claim."""
        if (document := self.node.api.claims.get(("team", name))) is None:
            return
        uid = document["metadata"]["uid"]
        try:
            with killed_after(steps):
                asyncio.run(self.claims.prepare(uid, "team", name))
        except ClaimError:
            assert self.node.api.away
            assert uid not in self.must
        except Killed:
            self.may |= {uid} - self.must
            self.restart()
        else:
            self.may.discard(uid)
            self.must.add(uid)

    @rule(name=NAMES, steps=steps(2))
    def unprepare(self, name: str, steps: int | None) -> None:
        """kubelet ends a claim."""
        if (document := self.node.api.claims.get(("team", name))) is None:
            return
        uid = document["metadata"]["uid"]
        try:
            with killed_after(steps):
                asyncio.run(self.claims.unprepare(uid))
        except Killed:
            if uid in self.must:
                self.may.add(uid)
                self.must.remove(uid)
            self.restart()
        else:
            self.must.discard(uid)
            self.may.discard(uid)
            assert uid not in self.claims.records

    @rule(steps=steps(8))
    def look(self, steps: int | None) -> None:
        """As each second; after a look the CDI files are those of the records."""
        try:
            with killed_after(steps):
                self.claims.look()
        except Killed:
            self.restart()
        else:
            assert self.node.described == self.node.recorded

    @rule()
    def reboot(self) -> None:
        """The CDI folder is empty then."""
        for file in self.node.cdi.iterdir():
            file.unlink()
        self.restart()

    @rule()
    def restart(self) -> None:
        """The next instance begins with the records, and leaves nothing half written."""
        self.claims = self.node.start()
        assert not self.node.left_half_written()
        assert self.node.described <= self.node.recorded

    @precondition(lambda self: hasattr(self, "claims"))
    @invariant()
    def records_are_what_was_prepared(self) -> None:
        """In memory as on disk; of what was interrupted both may be."""
        assert set(self.claims.records) == self.node.recorded
        assert self.must <= self.node.recorded <= self.must | self.may

    @precondition(lambda self: hasattr(self, "claims"))
    @invariant()
    def no_more_is_promised_than_there_is(self) -> None:
        """Over all claims of a GPU; each entry of a claim for a GPU says the same of it."""
        promised = Counter[str]()
        for each in self.claims.request().claims:
            promised.update({device.device_uuid: device.memory_request_bytes for device in each.devices})
        assert all(promised[uuid] <= own for uuid, own in self.node.own.items())


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
