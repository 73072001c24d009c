"""Processes of several users of one machine, for whom the system's run directory is a folder of the test's.

Unlike those of ``another_user`` the users are real ones to each other, and to root. Only root can run such tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvshare import paths

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")

_ENTER = f'mount -t tmpfs none /run && mkdir /run/nvshare && mount --bind "$0" {paths.SYSTEM_RUN_DIR} && exec "$@"'


def on_machine(system: Path, uid: int = 0) -> list[str]:
    """What comes before a command of this user's."""
    prefix = ["unshare", "--mount", "sh", "-c", _ENTER, str(system)]
    return prefix + as_real_user(uid) if uid else prefix


def as_real_user(uid: int) -> list[str]:
    """What comes before a command of this user's, who sees the machine as it is."""
    # Of root's rights it keeps that to read: the tests' Python may be in root's home.
    keep = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *keep]
