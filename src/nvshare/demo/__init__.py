"""The demonstration: four jobs that want more memory than two GPUs have, and what the GPUs executed for them.

``nvshare-ctl demo`` runs it. It knows nothing of the command line: what it needs of that it gets as arguments.
"""

from __future__ import annotations

from pathlib import Path

STAMPED_PTX = Path(__file__).parent / "stamped.ptx"
"""A kernel as PTX text that stores the device's clock at its start and its end."""
