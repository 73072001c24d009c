"""What one device's clients move to and from host memory: how much, how fast, and how long the device waited for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.snapshot import TrafficSnapshot

ASSUMED_BYTES_PER_SECOND: Final = 20e9
"""In one direction, before anything was measured: somewhat less than PCIe 4 gives."""
PAUSE_SECONDS: Final = 0.1
"""Who has told of nothing moved for so long did something else than move."""
LEAST_MEASURED_SECONDS: Final = 0.005
"""How much has to be measured before that counts."""
TELLING_BYTES: Final = 16 << 20
"""How long less than this takes is not a matter of the link."""
MEMORY_SECONDS: Final = 2.0
"""Of what was measured as much counts: about the last 100 GB."""
HAND_OVERS: Final = 4
"""Of the last ones the fastest tells what a hand-over costs: what made others slower comes once."""
HELD_UP: Final = 4
"""How many times as long as by the link a hand-over may take to count. In both directions at once each is slower."""
HAND_OVER_BYTES: Final = 256 << 20
"""One of less tells nothing."""


@dataclass(slots=True)
class Way:
    """One direction."""

    moved_bytes: int = 0
    seconds: float = 0.0
    """While something moved."""
    _client: int = 0
    _at: float = float("-inf")
    _recent_bytes: float = 0.0
    _recent_seconds: float = 0.0

    @property
    def bytes_per_second(self) -> float:
        """Of late; 0: not known yet."""
        return self._recent_bytes / self._recent_seconds if self._recent_seconds >= LEAST_MEASURED_SECONDS else 0.0

    def moved(self, client: int, moved_bytes: int, now: float, *, hindered: bool = False) -> None:
        """A client says that so much more has moved; ``hindered``: something else than the link made it wait."""
        self.moved_bytes += moved_bytes
        elapsed = now - self._at
        # The time before the first chunk is not known.
        if client == self._client and 0 < elapsed < PAUSE_SECONDS:
            self.seconds += elapsed
            if hindered or moved_bytes < TELLING_BYTES:
                self._at = now
                return
            kept = max(0.0, 1 - elapsed / MEMORY_SECONDS)
            self._recent_bytes = self._recent_bytes * kept + moved_bytes
            self._recent_seconds = self._recent_seconds * kept + elapsed
        elif client == self._client and elapsed == 0:
            self._recent_bytes += moved_bytes
        self._client, self._at = client, now


class Traffic:
    """Both directions of one device, and its hand-overs."""

    def __init__(self) -> None:
        self.into = Way()
        self.out = Way()
        self.stalls = 0
        """Hand-overs to clients that swap, of a device that nobody held any more."""
        self.stall_seconds = 0.0
        self.prefetched = 0
        """Those for which nothing had to be waited for."""
        self.refused = 0
        """Growths that were refused."""
        self.spared_bytes = 0
        """That left and were not copied."""
        self._vacant_since: float | None = None
        self._came_before_bytes = 0
        self._held_up = False
        """By something else than the link, since the last holder left."""
        self._hand_overs: deque[float] = deque(maxlen=HAND_OVERS)
        """Bytes that came in, per second that the device waited for them."""

    def told(
        self,
        client: int,
        came: int,
        left: int,
        now: float,
        *,
        spared: int = 0,
        waits: bool = False,
        prepares: bool = False,
    ) -> None:
        """A client says that so many bytes more were copied in, so many out, and so many left that were not copied.

        ``prepares``: it made host memory ready meanwhile, which it does once; ``waits``: for room that others leave.
        Then it is slower than the link, and a hand-over in which somebody prepares says nothing of the next one.
        """
        hindered = waits or prepares
        self.spared_bytes += spared
        self._held_up = self._held_up or prepares
        if left > 0:
            self.out.moved(client, left, now, hindered=hindered)
        if came > 0:
            self.into.moved(client, came, now, hindered=hindered)

    def vacant(self, now: float) -> None:
        """The last holder left, and somebody waits."""
        self._vacant_since = now
        self._came_before_bytes = self.into.moved_bytes
        self._held_up = False

    def held_up(self) -> None:
        """What the next one lacks does not depend on the link alone now."""
        self._held_up = True

    def granted(self, now: float, *, swaps: bool) -> None:
        """Somebody holds; ``swaps``: its memory does."""
        if self._vacant_since is not None and swaps:
            self.stalls += 1
            stall = now - self._vacant_since
            came = self.into.moved_bytes - self._came_before_bytes
            self.stall_seconds += stall
            if came >= HAND_OVER_BYTES and stall > 0 and not self._held_up:
                self._hand_overs.append(came / stall)
            self.prefetched += now == self._vacant_since
        self._vacant_since = None

    def refuse(self) -> None:
        """A growth is refused."""
        self.refused += 1

    def snapshot(self) -> TrafficSnapshot:
        """What can be seen of it."""
        return TrafficSnapshot(
            in_bytes=self.into.moved_bytes,
            out_bytes=self.out.moved_bytes,
            spared_bytes=self.spared_bytes,
            in_seconds=self.into.seconds,
            out_seconds=self.out.seconds,
            in_bytes_per_second=self.into.bytes_per_second,
            out_bytes_per_second=self.out.bytes_per_second,
            stalls=self.stalls,
            stall_seconds=self.stall_seconds,
            prefetched=self.prefetched,
            refused=self.refused,
        )

    def seconds(self, moved_bytes: int) -> float:
        """How long a hand-over takes in which so much leaves and as much comes in, at the same time.

        By hand-overs, else by the link: its directions are as fast, and the slower one was more likely kept waiting in
        a way that nobody told. A hand-over that took far longer than the link does was held up by something else.
        """
        link = max(self.into.bytes_per_second, self.out.bytes_per_second) or ASSUMED_BYTES_PER_SECOND
        rate = max(link / HELD_UP, max(self._hand_overs)) if self._hand_overs else link
        return max(0, moved_bytes) / rate
