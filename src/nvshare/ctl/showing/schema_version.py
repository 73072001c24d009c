"""Which form the documents for scripts have; ``docs/schemas/`` describes it."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
"""Fields may be added without a new number. It grows when one goes away or means something else."""
