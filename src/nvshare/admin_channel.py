"""How the admin API is called: the options of every channel to it."""

from __future__ import annotations

from typing import Final

LARGEST_ANSWER: Final = 64 << 20
"""A status names every client, and a scheduler has at most 16384: each may take 4 KiB."""
OPTIONS: Final = (("grpc.max_receive_message_length", LARGEST_ANSWER),)
