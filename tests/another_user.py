"""A process of a user who is not root, for whom the system's run directory is a folder of the test's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nvshare import paths

UID = 1000

# Two namespaces of users: to mount takes root's rights, and after it the process must be somebody else. Outside both it
# is who it was, so it may read and write what the test may.
_ENTER = (
    f'mount -t tmpfs none /run && mkdir /run/nvshare && mount --bind "$0" {paths.SYSTEM_RUN_DIR} '
    f'&& exec unshare --user --map-user={UID} --map-group={UID} "$@"'
)


def as_user(system: Path) -> list[str]:
    """What comes before a command to run it so; the test is skipped where the kernel allows no such namespaces."""
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ENTER, str(system)]
    try:
        done = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode != 0:
        pytest.skip(f"no namespaces of users and mounts here: {done.stderr.strip()}")
    return prefix
