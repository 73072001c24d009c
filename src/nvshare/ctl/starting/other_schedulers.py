"""Schedulers of this machine that are not where this user's programs look, found by their claims on GPUs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from nvshare import gpu_claims, nvml
from nvshare.ctl.advice import FOR_ALL
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.gpu_claims import Claim
from nvshare.paths import RunDir
from nvshare.program import complain
from nvshare.scheduler_process import answers
from nvshare.unix_sockets import listening_pid


@dataclass(frozen=True, slots=True)
class OtherScheduler:
    """One that has GPUs which this process sees."""

    claim: Claim
    devices: tuple[str, ...]
    """The GPUs' UUIDs."""
    run_dir: RunDir | None
    """As it says itself; None: it does not answer."""

    @property
    def is_usable(self) -> bool:
        """Whether this user may and should go to it: it is root's or the user's own, and accepts clients."""
        if self.run_dir is None or self.claim.uid not in (0, os.geteuid()) or not answers(self.run_dir):
            return False
        with suppress(OSError):
            return listening_pid(self.run_dir.client_socket) == self.claim.pid
        return False

    def __str__(self) -> str:
        gpus = ", ".join(self.devices)
        run_dir = "which does not answer" if self.run_dir is None else f"run directory {self.run_dir.root}"
        if self.claim.uid is None:
            return f"{gpus}: a scheduler of whom is not seen from here ({self.claim.remedy()})"
        return f"{gpus}: {_user(self.claim.uid)}'s scheduler, pid {self.claim.pid or '?'}, {run_dir}"


def others(but: int = 0) -> list[OtherScheduler]:
    """The schedulers that have GPUs which NVML shows to this process; without that of pid ``but``."""
    claims = [claim for claim in gpu_claims.claims() if not but or claim.pid != but]
    shown = nvml.devices() if claims else {}
    of_each: dict[object, list[Claim]] = {}
    for claim in claims:
        if claim.device in shown:
            of_each.setdefault(claim.pid or claim.name, []).append(claim)
    return [
        OtherScheduler(same[0], tuple(sorted({shown[each.device] for each in same})), gpu_claims.run_dir_of(same[0]))
        for same in of_each.values()
    ]


def instead_of_a_new_one(run_dirs: Sequence[RunDir], *, named: bool) -> RunDir | None:
    """Where a scheduler is that has a GPU and that this user may use; None: one is to be looked for in ``run_dirs``.

    ``named``: the user has chosen a run directory, and wants no other. CommandError where others have all GPUs.
    """
    if any(answers(run_dir) for run_dir in run_dirs):
        return None
    found = others()
    usable = [other.run_dir for other in found if other.is_usable and other.run_dir is not None]
    if usable and not named:
        return usable[0]
    if not found:
        return None
    what = "; ".join(map(str, found))
    if len({device for other in found for device in other.devices}) == len(nvml.devices()):
        raise CommandError(
            f"no scheduler can be started, since each GPU has one: {what}; one that all users share: {FOR_ALL}"
            + (f"; to use a scheduler that is there: --run-dir {usable[0].root}" if usable else ""),
            ExitCode.NOT_STARTED,
        )
    complain("nvshare-ctl", f"programs wait on GPUs that have another scheduler ({what}); one for all users: {FOR_ALL}")
    return None


def _user(uid: int) -> str:
    with suppress(KeyError):
        return f"user {pwd.getpwuid(uid).pw_name} ({uid})"
    return f"user {uid}"
