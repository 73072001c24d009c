"""What the core raises: an event that its state does not allow."""

from __future__ import annotations

from nvshare.scheduler.core.events import Event


class IllegalEvent(Exception):  # noqa: N818
    """An event that the present state does not allow. Nothing was changed.

    ``state`` says what the state was, in words; ``event`` is the event.
    """

    def __init__(self, state: str, event: Event) -> None:
        super().__init__(f"{event} is illegal: {state}")
        self.state = state
        self.event = event
