"""Limits devices that only clients name, which neither NVML nor kubelet nor the operator knows. Pure.

Without NVML all devices are of this kind, and a client can invent as many as it likes. There is room for more devices
than any node has. A process that names more than any program uses gets no more. A device that nobody uses makes room
for another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST = 256
"""More than a node has, and few enough that clients which invent UUIDs do not fill the memory."""
OF_A_PROCESS = 64
OF_A_USER = 128


class TooManyDevicesError(Exception):
    """One more device would be too many; the message says of whom."""


@dataclass(frozen=True, slots=True)
class _Named:
    """Who named a device first."""

    pid: int
    uid: int


class UnlistedDevices:
    """The devices of one scheduler that only clients name."""

    def __init__(self, is_used: Callable[[str], bool]) -> None:
        """``is_used``: whether a device has clients, or the operator chose something for it."""
        self._is_used = is_used
        self._named: dict[str, _Named] = {}

    def add(self, device: str, pid: int, uid: int) -> list[str]:
        """A client names a new device. The answer is what must be forgotten for it; may raise TooManyDevicesError.

        ``pid`` is 0 for all processes that can't be told apart: those have no limit of their own.
        """
        of_pid = [known for known, by in self._named.items() if pid and by.pid == pid]
        of_uid = [known for known, by in self._named.items() if by.uid == uid]
        forgotten: list[str] = []
        for known, most, whose in (
            (of_pid, OF_A_PROCESS, "its process named"),
            (of_uid, OF_A_USER, "its user named"),
            (list(self._named), MOST, "this scheduler knows"),
        ):
            left = [each for each in known if each not in forgotten]
            if len(left) < most:
                continue
            unused = next((each for each in left if not self._is_used(each)), None)
            if unused is None:
                raise TooManyDevicesError(f"{whose} {most} devices already that NVML does not know")
            forgotten.append(unused)
        for each in forgotten:
            del self._named[each]
        self._named[device] = _Named(pid, uid)
        return forgotten
