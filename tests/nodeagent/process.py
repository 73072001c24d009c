"""nvshare-node-agent as a process of its own, with its service account somewhere else."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from nvshare import paths
from nvshare.kubernetes.account import Account
from nvshare.paths import RunDir
from tests.kubernetes.documents import NODE
from tests.polling import poll_until
from tests.scheduler.api.pages import fetch

_PROGRAM = """
import sys
from pathlib import Path
from nvshare import paths
paths.SERVICE_ACCOUNT_DIR = Path(sys.argv.pop(1))
from nvshare.nodeagent.__main__ import main
main()
"""


class AgentProcess:
    """A started agent, with its log."""

    def __init__(
        self, account: Account, run_dir: RunDir, *options: str, starter: Sequence[str] = (), **environment: str
    ) -> None:
        """``starter``: the command that starts it, with its arguments; none: the test does."""
        log = run_dir.root / f"agent-{secrets.token_hex(4)}.log"
        self._log = log
        command = [sys.executable, "-c", _PROGRAM, str(account.folder), f"--run-dir={run_dir.root}"]
        own = ["--metrics-address=127.0.0.1:0", "--log-format=json", f"--node-name={NODE}"]
        variables = {
            paths.KUBERNETES_SERVICE_HOST: account.host,
            paths.KUBERNETES_SERVICE_PORT: str(account.port),
        }
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [*starter, *command, *own, *options], env={**os.environ, **variables, **environment}, stderr=file
            )

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]

    def text(self) -> str:
        """All that it wrote."""
        return self._log.read_text()

    @property
    def port(self) -> int:
        """Where its metrics and probes are."""

        def announced() -> int:
            assert self.process.poll() is None, self._log.read_text()
            return next((line["metrics_port"] for line in self.lines() if line["event"] == "started"), 0)

        return poll_until(announced, "the agent serves its probes", timeout=30)

    def get(self, page: str) -> tuple[int, str]:
        """One of its pages."""
        return fetch(self.port, page)

    def terminate(self) -> int:
        """Asks it to end, as kubelet does; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()
