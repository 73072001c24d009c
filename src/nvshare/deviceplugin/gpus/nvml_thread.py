"""The only thread that calls NVML. When the driver hangs, the rest of the plugin goes on.

The thread posts events and takes no requests. While there are GPUs it posts one about every ``PROBE_SECONDS``, and
otherwise one before and one after each try. If one is due and none came for ``SILENCE_SECONDS``, a call into the driver
does not return.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.health import Xid
from nvshare.deviceplugin.gpus.nvml import NvmlError
from nvshare.nvml_state import NvmlState

PROBE_SECONDS = 10.0
RESCAN_SECONDS = 60.0
_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 60.0
_SOON_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NvmlAsked:
    """NVML is opened now: an answer is due."""


@dataclass(frozen=True, slots=True)
class NvmlAbsent:
    """There is no NVML at the moment."""

    reason: str
    state: NvmlState = NvmlState.ERROR


@dataclass(frozen=True, slots=True)
class Scanned:
    """These are all the GPUs that NVML shows."""

    gpus: tuple[Gpu, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """What it says of those that it does not give, by index."""


@dataclass(frozen=True, slots=True)
class Probed:
    """Each GPU was probed."""

    results: Mapping[str, str | None]
    """By UUID: what is wrong with the GPU; None: nothing."""


@dataclass(frozen=True, slots=True)
class XidSeen:
    """The driver reported an error."""

    xid: Xid


@dataclass(frozen=True, slots=True)
class XidEventsMissing:
    """NVML reports no error events, or not for all GPUs: the health of those is known by probes only."""

    reason: str


NvmlEvent = NvmlAsked | NvmlAbsent | Scanned | Probed | XidSeen | XidEventsMissing


class XidEventSource(Protocol):
    """As ``nvml.XidEvents``."""

    @property
    def silent(self) -> Sequence[str]: ...
    def wait(self, seconds: float) -> Xid | None: ...
    def close(self) -> None: ...


class GpuLibrary(Protocol):
    """As ``nvml.Nvml``."""

    def scan(self) -> tuple[tuple[Gpu, ...], Mapping[str, str]]: ...
    def probe(self, gpu: Gpu) -> str | None: ...
    def watch(self, gpus: Sequence[Gpu]) -> XidEventSource: ...
    def close(self) -> None: ...


class NvmlThread:
    """Watches NVML from ``start`` to ``stop``."""

    def __init__(
        self,
        open_library: Callable[[], GpuLibrary],
        post: Callable[[NvmlEvent], None],
        probe_seconds: float = PROBE_SECONDS,
        rescan_seconds: float = RESCAN_SECONDS,
    ) -> None:
        """``post`` is called in the thread; ``open_library`` raises NvmlError when there is no NVML."""
        self._open = open_library
        self._post = post
        self._probe_seconds = probe_seconds
        self._rescan_seconds = rescan_seconds
        self._stop = threading.Event()
        # A call that hangs in the driver must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Asks the thread to end and waits for it at most ``timeout`` seconds; it may be stuck in the driver."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        retry = _FIRST_RETRY_SECONDS
        while not self._stop.is_set():
            self._post(NvmlAsked())
            try:
                library = self._open()
            except NvmlError as error:
                self._post(NvmlAbsent(str(error), error.state))
            else:
                try:
                    if self._watch_gpus(library):
                        retry = _FIRST_RETRY_SECONDS
                except NvmlError as error:
                    self._post(NvmlAbsent(str(error), error.state))
                finally:
                    library.close()
            self._stop.wait(retry)
            retry = min(2 * retry, _LONGEST_RETRY_SECONDS)

    def _watch_gpus(self, library: GpuLibrary) -> bool:
        """Watches until the set of GPUs changes or the thread is stopped; False when there are no GPUs.

        While a GPU is lost NVML is opened anew with every rescan: it finds out only then that the GPU is back.
        """
        gpus, failed = library.scan()
        self._post(Scanned(gpus, failed))
        if not gpus:
            return False
        events = self._watch_events(library, gpus)
        rescan_at = time.monotonic() + self._rescan_seconds
        probe_at = time.monotonic()
        try:
            while not self._stop.is_set():
                if time.monotonic() >= probe_at:
                    self._post(Probed({gpu.uuid: library.probe(gpu) for gpu in gpus}))
                    probe_at = time.monotonic() + self._probe_seconds
                if time.monotonic() >= rescan_at:
                    if events is None or failed or library.scan() != (gpus, failed):
                        return True
                    rescan_at = time.monotonic() + self._rescan_seconds
                if events is None:
                    self._stop.wait(min(1.0, self._probe_seconds))
                    continue
                try:
                    xid = events.wait(min(1.0, self._probe_seconds))
                except NvmlError as error:
                    self._post(XidEventsMissing(str(error)))
                    events.close()
                    events = None
                    probe_at = 0.0
                    continue
                if xid is not None:
                    self._post(XidSeen(xid))
                    if xid.uuid is None:
                        # Any GPU may be meant, so each is asked how it is.
                        probe_at = min(probe_at, time.monotonic() + _SOON_SECONDS)
        finally:
            if events is not None:
                events.close()
        return True

    def _watch_events(self, library: GpuLibrary, gpus: Sequence[Gpu]) -> XidEventSource | None:
        try:
            events = library.watch(gpus)
        except NvmlError as error:
            self._post(XidEventsMissing(str(error)))
            return None
        if events.silent:
            self._post(XidEventsMissing(f"not supported by {', '.join(events.silent)}"))
        return events
