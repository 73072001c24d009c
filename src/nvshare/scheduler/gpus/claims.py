"""This scheduler's claims on GPUs: one scheduler a GPU and machine. See ``nvshare.gpu_claims``."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nvshare import gpu_claims
from nvshare.device_uuid import device_bytes
from nvshare.gpu_claims import Claim
from nvshare.log import Log
from nvshare.paths import RunDir

_ATTEMPTS: Final = 4
"""Two that claim at the same moment see each other, and both withdraw."""
_PAUSE_SECONDS: Final = 0.003
"""The longest pause between attempts; a claim is looked at in a tenth of that."""
_LOOK_SECONDS: Final = 0.5
"""What was seen of others' claims counts for so long: clients that try again and again cost no more."""
_YIELD_SECONDS: Final = 5.0
"""Who is to give a GPU up to the machine's scheduler and has not by then is not waited for."""
_RETURN_SECONDS: Final = 1.0
"""For so long after that those who held there come here first."""
_KEPT_SECONDS: Final = 1.0
"""A process that lost its connection and lives is mostly back by then."""
_ANSWERS: Final = 8
_ANSWER_SECONDS: Final = 0.05
"""So many connections at a claim are answered, then none for so long: anybody may connect."""
_SHOWN: Final = len("GPU-01234567")


class ClaimedError(Exception):
    """Another scheduler has the GPU; the message says whose it is."""


class NotYetError(Exception):
    """Another scheduler is giving the GPU up to this one, or whose it is can't be found out now.

    Who comes again soon is served, or told more.
    """


@dataclass(slots=True)
class _Own:
    name: str
    socket: socket.socket
    is_machines: bool
    since: float
    """When it was made."""
    others: dict[str, Claim]
    """Weaker claims when it was made, by name: who never accepts a connection is seen only a few times."""
    free_at: float | None
    """From when on everybody is served; None: another one has not given the GPU up."""


class Claims:
    """Claims a GPU when its first client comes, and gives it up a second after the last one has left.

    The machine's scheduler takes a GPU from others, which end; their programs come to it. It gives none up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log, run_dir: RunDir, end: Callable[[], None]) -> None:
        """``end`` is called when the machine's scheduler has claimed a GPU of this one."""
        self._loop = loop
        self._log = log
        self._answer = gpu_claims.answer(run_dir)
        self._end = end
        self._own: dict[str, _Own] = {}
        self._refused: dict[str, tuple[float, str]] = {}
        """When another's claim was seen, and what is said of it."""
        self._look: asyncio.TimerHandle | None = None

    def take(self, device: str, *, holds: bool) -> None:
        """A client of a GPU that NVML shows comes: ClaimedError, NotYetError, or the GPU is this scheduler's.

        ``holds``: it says that it holds the GPU already, as those do that come from a scheduler that gave up.
        """
        try:
            own = self._own.get(device) or self._claim(device)
            if own.free_at is None:
                self._see_who_is_left(device, own)
        except OSError as error:
            raise NotYetError(f"{device} can't be claimed now: {error.strerror}") from error
        if not holds and (own.free_at is None or self._loop.time() < own.free_at):
            raise NotYetError(f"{device} is being given up by another scheduler")

    def unused(self, device: str, is_used: Callable[[str], bool]) -> None:
        """The last client of a GPU has left."""
        own = self._own.get(device)
        if own is not None and not own.is_machines:
            self._loop.call_later(_KEPT_SECONDS, self._give_up, device, own, is_used)

    def _give_up(self, device: str, own: _Own, is_used: Callable[[str], bool]) -> None:
        if self._own.get(device) is own and not is_used(device):
            del self._own[device]
            self._close(own)

    def _close(self, own: _Own) -> None:
        self._loop.remove_reader(own.socket)
        own.socket.close()

    def stop(self) -> None:
        """Gives all up."""
        if self._look is not None:
            self._look.cancel()
        for own in self._own.values():
            self._close(own)
        self._own.clear()

    def _claim(self, device: str) -> _Own:
        seen_at, words = self._refused.get(device, (0.0, ""))
        if words and self._loop.time() < seen_at + _LOOK_SECONDS:
            raise ClaimedError(words)
        words = ""
        for _ in range(_ATTEMPTS):
            match self._try_to_claim(device):
                case _Own() as own:
                    return own
                case stronger:
                    words = _words(device, stronger)
            time.sleep(random.uniform(0, _PAUSE_SECONDS))
        self._refused[device] = self._loop.time(), words
        raise ClaimedError(words)

    def _try_to_claim(self, device: str) -> _Own | Claim:
        """A claim of this scheduler, or the one that keeps it from that."""
        name, listener = gpu_claims.listen(device_bytes(device))
        try:
            mine, others = _claims(device, name)
        except OSError:
            listener.close()
            raise
        stronger = sorted((each for each in others if not mine or each.is_machines), key=lambda each: each.is_machines)
        if stronger:
            listener.close()
            return stronger[-1]
        now = self._loop.time()
        own = self._own[device] = _Own(
            name, listener, mine, now, {each.name: each for each in others}, None if others else now
        )
        self._loop.add_reader(listener, self._asked, own)
        return own

    def _see_who_is_left(self, device: str, own: _Own) -> None:
        """Whether those with weaker claims have given the GPU up, or are not waited for any more."""
        now = self._loop.time()
        _mine, others = _claims(device, own.name)
        if not others:
            own.free_at = now + _RETURN_SECONDS
        elif now >= own.since + _YIELD_SECONDS:
            own.free_at = now
            for other in (own.others.get(each.name, each) for each in others):
                self._log.warning(
                    "another process claims this GPU and does not give it up: its programs run beside whose turn it is",
                    device=device,
                    pid=other.pid,
                    uid=other.uid,
                    remedy=f"end it: {other.remedy()}",
                )

    def _asked(self, own: _Own) -> None:
        """Somebody looks at a claim: perhaps the machine's scheduler, which claims the same GPU."""
        self._loop.remove_reader(own.socket)
        for _ in range(_ANSWERS):
            with suppress(OSError):
                connection, _address = own.socket.accept()
                with connection:
                    connection.setblocking(False)
                    connection.send(self._answer)
        self._loop.call_later(_ANSWER_SECONDS, self._answer_again, own)
        # The machine's looks for nobody: two that look at each other would never end.
        if self._look is None and not own.is_machines:
            self._look = self._loop.call_later(_ANSWER_SECONDS, self._look_for_the_machines)

    def _answer_again(self, own: _Own) -> None:
        if own.socket.fileno() >= 0:
            self._loop.add_reader(own.socket, self._asked, own)

    def _look_for_the_machines(self) -> None:
        self._look = None
        for device, own in self._own.items():
            try:
                _mine, others = _claims(device, own.name)
            except OSError:
                # Whoever looked at the claim does not look again.
                self._look = self._loop.call_later(_LOOK_SECONDS, self._look_for_the_machines)
                return
            stronger = next((each for each in others if each.is_machines), None)
            if stronger is not None:
                self._log.warning(
                    "the machine's scheduler serves a GPU of this one now: this one ends, and programs go to that one",
                    device=device,
                    pid=stronger.pid,
                )
                self._end()
                return


def _claims(device: str, own: str) -> tuple[bool, list[Claim]]:
    """Whether one's own claim is the machine's scheduler's, and the claims of others; OSError, as in ``gpu_claims``."""
    found = gpu_claims.claims(device_bytes(device).__eq__)
    return any(each.name == own and each.is_machines for each in found), [each for each in found if each.name != own]


def _words(device: str, other: Claim) -> str:
    """Short enough for the library's line."""
    if other.is_machines:
        return f"{device[:_SHOWN]} has the machine's scheduler, pid {other.pid}: start this without NVSHARE_RUN_DIR"
    return f"{device[:_SHOWN]} has another scheduler, {other.whose()}; nvshare-ctl doctor says more"
