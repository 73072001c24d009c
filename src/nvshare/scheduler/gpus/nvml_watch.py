"""Asks NVML in a worker, and keeps, logs and shows how NVML is, and each GPU in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from nvshare.log import Log
from nvshare.nvml_state import LOST, SILENCE, SILENCE_SECONDS, InitErrors, NvmlState, advice, lost
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.gpus.queries import Discovery, Unmeasured
from nvshare.scheduler.worker import Worker

Result = TypeVar("Result")


class NvmlWatch:
    """All that is asked of NVML goes through here. Lives in the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        init_errors: InitErrors,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._loop = loop
        self._log = log
        self._worker = Worker(loop, "nvml")
        self._init_errors = init_errors
        self._silence_seconds = silence_seconds
        self._silent = False
        self._state = NvmlState.UNKNOWN
        self._words = ""
        """What is wrong with NVML and what to do, as it was logged; empty: nothing."""
        self._failed: Mapping[str, str] = {}
        """What NVML says of GPUs that it does not give, by index."""
        self._unmeasured: dict[str, Unmeasured] = {}

    @property
    def state(self) -> NvmlState:
        """How NVML is now."""
        return NvmlState.SILENT if self._silent else self._state

    @property
    def lacks_gpus(self) -> bool:
        """Whether it may show more when it is asked again."""
        sick = any(unmeasured.state is not NvmlState.OK for unmeasured in self._unmeasured.values())
        return self._state is not NvmlState.OK or bool(self._failed) or sick

    def submit(self, work: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """As ``Worker.submit``; a call that does not return is noticed."""
        timer = self._loop.call_later(self._silence_seconds, self._fell_silent)

        def answered(result: Result) -> None:
            timer.cancel()
            if self._silent:
                self._silent = False
                self._log.info("NVML answers again")
            done(result)

        self._worker.submit(work, answered)

    def heard(self, discovery: Discovery) -> None:
        """NVML was asked which GPUs there are."""
        self._state = self._init_errors.heard(discovery.state, self._loop.time())
        self._log_state(discovery.reason)
        for index in sorted({*self._failed, *discovery.failed}):
            reason = discovery.failed.get(index)
            if reason is None:
                self._log.info("NVML gives a GPU again", index=index)
            elif reason != self._failed.get(index):
                self._log.warning("NVML does not give a GPU; others go on", index=index, reason=reason, remedy=LOST)
        self._failed = discovery.failed

    def measured(self, device: str, answer: Usage | Unmeasured) -> Usage | None:
        """NVML was asked for a device's memory; None: it does not say it."""
        before = self._unmeasured.pop(device, None)
        if isinstance(answer, Usage):
            if before is not None:
                self._log.info("NVML says what is in a GPU's memory again", device=device)
            return answer
        self._unmeasured[device] = answer
        news = before is None or before.state is not answer.state
        # What is wrong with NVML as a whole has been said already.
        if news and not self._state.is_broken:
            what = "NVML does not say what is in a GPU's memory"
            match answer.state:
                case NvmlState.OK:
                    self._log.info(what, device=device, reason=answer.reason)
                case NvmlState.ERROR:
                    self._log.warning(what, device=device, reason=answer.reason, remedy=LOST)
                case state:
                    self._log.warning(what, device=device, reason=answer.reason, remedy=advice(state))
        return None

    def notes(self) -> list[str]:
        """What is wrong with NVML and with GPUs, for people."""
        words = [f"{SILENCE}: {advice(NvmlState.SILENT)}"] if self._silent else []
        if self._state.is_broken:
            words.append(self._words)
        words += [f"GPU {index}: {lost(reason)}" for index, reason in self._failed.items()]
        return words + [f"{device}: {lost(each.reason)}" for device, each in self._lost()]

    def gave_up(self) -> str | None:
        """Why the scheduler had better be started anew; None: it had not."""
        if not self._init_errors.over(self._loop.time()):
            return None
        return (
            f"{self._words}; after {self._init_errors.seconds:g} s of that this scheduler ends (--fail-on-init-error), "
            "and its container is made anew with the driver that the node has then; if not, delete this pod"
        )

    def _fell_silent(self) -> None:
        if not self._silent:
            self._silent = True
            self._log.warning(SILENCE, seconds=self._silence_seconds, remedy=advice(NvmlState.SILENT))

    def _lost(self) -> list[tuple[str, Unmeasured]]:
        if self._state.is_broken:
            return []
        return [(device, each) for device, each in self._unmeasured.items() if each.state is NvmlState.ERROR]

    def _log_state(self, reason: str) -> None:
        if self._state is NvmlState.OK:
            words = ""
        else:
            what = f"no NVML here ({reason.rstrip('.')})" if reason else "NVML shows no GPU"
            words = f"{what}, so memory of other processes is not measured: {advice(self._state)}"
        if words == self._words:
            return
        if self._state.is_broken:
            self._log.warning(words, state=self._state.value)
        else:
            self._log.info(words or "NVML is available")
        self._words = words
