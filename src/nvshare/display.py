"""How the commands show numbers and states to people."""

from __future__ import annotations

STATE_STYLES = {
    "holding": "bold green",
    "leaving": "green",
    "unresponsive": "bold red",
    "waiting": "yellow",
    "waking": "cyan",
    "idle": "dim",
    "asleep": "dim blue",
}
"""How the terminal shows a client's state. Tables list the clients in this order of their states."""

_KIB = 1024
_MIB = 1024**2
_GIB = 1024**3


def size(count: int) -> str:
    """Bytes with one decimal of the unit that fits: ``11.7 GiB``."""
    if count >= _GIB:
        return f"{count / _GIB:.1f} GiB"
    if count >= _MIB:
        return f"{count / _MIB:.0f} MiB"
    if count >= _KIB:
        return f"{count / _KIB:.0f} KiB"
    return f"{count} B"


def rate(bytes_per_second: float) -> str:
    """``23.1 GiB/s``."""
    return f"{size(round(bytes_per_second))}/s"


def duration(seconds: float) -> str:
    """Seconds with the two units that matter: ``4.2 s``, ``1m 02s``, ``3h 07m``, ``2d 11h``."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {second:02}s"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minute:02}m"
    days, hour = divmod(hours, 24)
    return f"{days}d {hour:02}h"


def count(number: int, one: str) -> str:
    """``1 client``, ``2 clients``."""
    return f"{number} {one if number == 1 else one + 's'}"
