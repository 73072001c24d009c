"""What Ctrl-C does to a program: it ends the program at once, without a word, unless work puts something back first.

Python's own way is an exception at any place, which shows a traceback while modules are imported and while the process
ends.
"""

from __future__ import annotations

# What the module signal is made of. That one takes longer to import than all that comes before it in these programs.
import _signal as signal  # type: ignore[import-not-found]
from types import TracebackType


def end_silently() -> None:
    """From now on Ctrl-C ends the process as the signal by itself does: shells show 130. Where ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Raised:
    """A block in which Ctrl-C raises KeyboardInterrupt, so that it puts back what it changed."""

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(
        self, _type: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
