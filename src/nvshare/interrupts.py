"""What Ctrl-C does to a program: it ends the program at once, without a word, unless work puts something back first, as
before other signals that end it.

Python's own way is an exception at any place, which shows a traceback while modules are imported and while the process
ends.
"""

from __future__ import annotations

# What the module signal is made of. That one takes longer to import than all that comes before it in these programs.
import _signal as signal  # type: ignore[import-not-found]
from types import FrameType, TracebackType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def end_silently() -> None:
    """From now on Ctrl-C ends the process as the signal by itself does: shells show 130. Where ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Ended(BaseException):
    """A signal that ends the program. What it changed is put back before it does."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Raised:
    """A block that signals which end the program leave by an exception, so that it puts back what it changed.

    Ctrl-C is KeyboardInterrupt; another signal ends the program after the block, as if it had not been taken. What is
    ignored stays so.
    """

    def __init__(self) -> None:
        self._before: dict[int, object] = {}
        self._ending = False
        """Such signals do nothing any more."""

    def __enter__(self) -> Raised:
        for number in _ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, raised: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        self.no_more()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(raised, Ended):
            signal.raise_signal(raised.number)
        return isinstance(raised, Ended)

    def no_more(self) -> None:
        """What comes next must not be interrupted.

        The handlers stay: Python complains of a signal that has come when it is ignored before its handler was called.
        """
        self._ending = True

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if not self._ending:
            self._ending = True
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)
