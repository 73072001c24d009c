"""What users are told to do from several places. Pure."""

from __future__ import annotations

from typing import Final

FOR_ALL: Final = "sudo nvshare-ctl service install"
"""What makes one scheduler the machine's, which all users share."""
