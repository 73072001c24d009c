"""nvshare-device-plugin as a process of its own."""

from __future__ import annotations

import json
import secrets
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvshare.paths import RunDir
from tests.polling import poll_until

GPUS = "GPU-1a,GPU-1b"
"""What the node's environment names."""
COMMAND = [sys.executable, "-m", "nvshare.deviceplugin"]


@dataclass(frozen=True, slots=True)
class Node:
    """The folders of a host, somewhere else."""

    root: Path

    @property
    def kubelet_dir(self) -> Path:
        return self.root / "kubelet"

    @property
    def library_dir(self) -> Path:
        return self.root / "lib"

    @property
    def run_dir(self) -> RunDir:
        return RunDir(self.root / "run")

    def create(self) -> None:
        self.kubelet_dir.mkdir()
        self.run_dir.client_socket.parent.mkdir(parents=True)

    def options(self) -> list[str]:
        return [
            f"--kubelet-dir={self.kubelet_dir}",
            f"--library-dir={self.library_dir}",
            f"--run-dir={self.run_dir.root}",
            "--metrics-address=127.0.0.1:0",
            "--log-format=json",
        ]

    def scheduler_socket(self) -> socket.socket:
        """As the scheduler's socket lies there; nobody accepts on it."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.run_dir.client_socket))
        listening.listen()
        return listening


class PluginProcess:
    """A started plugin, with its log."""

    def __init__(
        self, node: Node, environment: dict[str, str], *options: str, command: Sequence[str] = COMMAND
    ) -> None:
        log = node.root / f"plugin-{secrets.token_hex(4)}.log"
        self._log = log
        with log.open("w") as file:
            self.process = subprocess.Popen([*command, *node.options(), *options], env=environment, stderr=file)

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]

    def said(self, words: str) -> bool:
        return any(words in json.dumps(line) for line in self.lines())

    def last_words(self) -> str:
        """The last line that it wrote."""
        return self._log.read_text().splitlines()[-1]

    @property
    def port(self) -> int:
        """Where its metrics and probes are."""

        def announced() -> int:
            assert self.process.poll() is None, self._log.read_text()
            return next((line["metrics_port"] for line in self.lines() if line["event"] == "started"), 0)

        return poll_until(announced, "the plugin serves its probes", timeout=30)

    def get(self, path: str) -> tuple[int, str]:
        """One of its pages."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def terminate(self) -> int:
        """Asks it to end, as kubelet does; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
